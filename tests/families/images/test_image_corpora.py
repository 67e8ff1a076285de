"""Labelled images come out of TFDS as they went in: own files, CIFAR-10, ImageNet."""

import io
import shutil

import numpy as np
import pytest
from families.images.miniature_images import (
    decoded,
    encoded,
    patterns,
    write_cifar10,
    write_class_folders,
    write_idx,
    write_imagenet2012,
)
from PIL import Image

from transformer.errors import UserError
from transformer.families.images import image_corpora


@pytest.fixture
def load(tmp_path):
    def load(split, corpus="own_images"):
        where = {"directory": str(tmp_path / "images"), "data_dir": str(tmp_path / "data")}
        return image_corpora.load(corpus, split, **where, key="config.data.train")

    return load


def pixels(corpus):
    contents, _, _ = corpus.read(range(len(corpus)))
    return [*map(decoded, contents)]


def test_record_i_is_image_i_over_several_shards(load, tmp_path, monkeypatch):
    images, labels = patterns(50)
    write_idx(tmp_path / "images", "train", images, labels)
    monkeypatch.setattr(image_corpora, "SHARD_BYTES", 7 * 64)
    corpus = load("train")
    assert len(corpus.records.dataset_info.splits["images"].shard_lengths) == 8
    assert np.array_equal(pixels(corpus), images)
    _, label_ids, names = corpus.read([3, 0, 49])
    assert [corpus.classes[i] for i in label_ids] == [str(labels[i]) for i in (3, 0, 49)]
    assert names[2] == "train-images-idx3-ubyte image 49"


def test_a_split_may_be_a_part(load, tmp_path):
    images, labels = patterns(50)
    write_idx(tmp_path / "images", "train", images, labels)
    first, last = load("train[:45]"), load("train[90%:]")
    assert np.array_equal(pixels(first), images[:45])
    assert np.array_equal(pixels(last), images[45:])
    assert first.fingerprint != last.fingerprint
    assert last.read([4])[2] == ["train-images-idx3-ubyte image 49"]
    for split, message in {
        "train[:60]": r"config.data.train='train\[:60\]': .*incompatible with 50",
        "train[:": r"config.data.train='train\[:': .*",
        "train[50:]": "has no image",
    }.items():
        with pytest.raises(UserError, match=rf"\A.*{message}.*\Z"):
            load(split)


def test_an_edited_split_is_prepared_again(load, tmp_path):
    images, labels = patterns(6)
    names = [("cat", "dog", "owl")[label] for label in labels]
    write_class_folders(tmp_path / "images" / "train", images, names)
    before = load("train")
    shutil.rmtree(tmp_path / "images")
    write_class_folders(tmp_path / "images" / "train", images[::-1] // 2, names[::-1])
    after = load("train")
    assert before.classes == after.classes == ("cat", "dog", "owl")
    assert before.fingerprint != after.fingerprint
    assert {x.tobytes() for x in pixels(before)} == {x.tobytes() for x in images}
    assert {x.tobytes() for x in pixels(after)} == {(x // 2).tobytes() for x in images}


@pytest.mark.parametrize(("count", "end"), [(6, -30), (1, 0)])  # cut, or all are empty
def test_a_damaged_image_leaves_nothing_prepared(load, tmp_path, count, end):
    images, _ = patterns(count)
    write_class_folders(tmp_path / "images" / "train", images, (["dog", "cat"] * 3)[:count])
    (tmp_path / "images" / "train" / "dog" / "0.png").write_bytes(encoded(images[0])[:end])
    with pytest.raises(UserError, match=r"dog/0.png is a damaged image"):
        load("train")
    assert not list((tmp_path / "data").rglob("*.array_record*"))


def test_cifar10_from_its_archive(load, tmp_path, no_network, capfd):
    train, test = patterns(23, 10, 32, 3), patterns(6, 10, 32, 3, seed=1)
    names = write_cifar10(tmp_path / "data", train, test)
    for split, (images, labels) in {"train": train, "test": test}.items():
        corpus = load(split, "cifar10")
        assert corpus.classes == tuple(names)
        _, label_ids, ids = corpus.read(range(len(corpus)))
        order = [int(name.removeprefix(f"{split}_")) for name in ids]  # TFDS's is that of a hash
        assert sorted(order) == list(range(len(images)))
        assert np.array_equal(pixels(corpus), images[order])
        assert np.array_equal(label_ids, labels[order])
    assert len(load("train[:20]", "cifar10")) == 20
    assert capfd.readouterr().out == ""


def test_imagenet_from_its_archives(load, tmp_path):
    """Sub-archives, a grey and a CMYK image, a PNG called JPEG, as in the original."""
    images, _ = patterns(6, 3, 32, 3)
    grey = encoded(images[0, ..., 0], "jpeg")
    cmyk, png = io.BytesIO(), encoded(images[2])
    Image.fromarray(images[1]).convert("CMYK").save(cmyk, "jpeg")
    train = {
        "n01739381": {"n01739381_1.JPEG": grey, "n01739381_1309.JPEG": cmyk.getvalue()},
        "n02105855": {"n02105855_2933.JPEG": png, "n02105855_1.JPEG": encoded(images[3], "jpeg")},
    }
    validation = {
        f"ILSVRC2012_val_0000000{i}.JPEG": encoded(images[i], "jpeg") for i in range(1, 4)
    }
    write_imagenet2012(tmp_path / "data", train, validation)
    corpus = load("train", "imagenet2012")
    assert len(corpus.classes) == 1000
    contents, labels, names = corpus.read(range(len(corpus)))
    assert {n: corpus.classes[i] for n, i in zip(names, labels, strict=True)} == {
        name: synset for synset, members in train.items() for name in members
    }
    content = dict(zip(names, contents, strict=True))
    assert content["n01739381_1.JPEG"] == grey
    for i, name in ((1, "n01739381_1309.JPEG"), (2, "n02105855_2933.JPEG")):
        with Image.open(io.BytesIO(content[name])) as image:
            assert (image.format, image.mode) == ("JPEG", "RGB")
            assert np.abs(np.asarray(image, int) - images[i]).mean() < 40
    _, labels, names = load("validation", "imagenet2012").read(range(3))
    known = dict(zip(names, (corpus.classes[i] for i in labels), strict=True))
    # The first three of TFDS's table.
    assert [known[name] for name in sorted(known)] == ["n01751748", "n09193705", "n02105855"]


def test_without_archives_the_error_names_the_remedy(load, tmp_path, no_network):
    for corpus, message in {
        "imagenet2012": r"downloads/manual/ILSVRC2012_img_train.tar and .*register at https",
        "cifar10": r"cannot download an archive of cifar10 .*data/downloads/manual",
        "cifar": r"config.data.corpus must be one of 'own_images', 'cifar10'.*did you mean cifar10",
    }.items():
        with pytest.raises(UserError, match=rf"\A.*{message}.*\Z"):
            load("train", corpus)
