"""Images on disk: what is read is what was written, and what is wrong with a file is one line."""

import gzip
import shutil
from pathlib import Path

import numpy as np
import pytest
from families.images.miniature_images import (
    decoded,
    encoded,
    idx,
    patterns,
    write_class_folders,
    write_idx,
)

from transformer.errors import UserError
from transformer.families.images import image_files

KEY = "config.data.train"


def pixels(files):
    return [*map(decoded, files.contents())]


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_idx_files_hold_the_images_and_labels(tmp_path, suffix):
    images, labels = patterns(7, classes=3)
    labels = labels * 2 + 1  # the classes 1, 3 and 5
    write_idx(tmp_path, "train", images, labels, suffix)
    files = image_files.find(tmp_path, "train", KEY)
    assert files.classes == ("1", "3", "5")
    assert [files.classes[i] for i in files.labels] == [str(label) for label in labels]
    assert np.array_equal(pixels(files), images)
    assert files.names[6] == f"train-images-idx3-ubyte{suffix} image 6"


def test_the_digest_is_of_the_content_alone(tmp_path):
    images, labels = patterns(6)

    def digest(name, *content):
        write_idx(tmp_path / name, "train", *content)
        return image_files.find(tmp_path / name, "train", KEY).digest

    first = digest("plain", images, labels)
    assert first == digest("packed", images, labels, ".gz")
    pixel, order = digest("1", images ^ (images == images.max()), labels), labels[::-1]
    assert len({first, pixel, digest("2", images, order)}) == 3
    assert digest("3", images.reshape(6, 4, 16), labels) != first


def test_class_folders_do_not_depend_on_names_of_files_or_their_order(tmp_path):
    images, labels = patterns(12, classes=2)
    names = [("cat", "dog")[label] for label in labels]
    write_class_folders(tmp_path / "a" / "train", images, names)
    write_class_folders(tmp_path / "b" / "train", images[::-1], names[::-1])
    (tmp_path / "b" / "train" / "cat" / ".DS_Store").write_bytes(b"hidden files are passed over")
    a, b = (image_files.find(tmp_path / x, "train", KEY) for x in ("a", "b"))
    assert (a.classes, a.labels, a.digest) == (b.classes, b.labels, b.digest)
    assert np.array_equal(pixels(a), pixels(b))
    known = {image.tobytes(): name for image, name in zip(images, names, strict=True)}
    assert [known[x.tobytes()] for x in pixels(a)] == [a.classes[i] for i in a.labels]
    assert len(set(a.labels[:6])) == 2  # the order is not that of the classes
    shutil.move(tmp_path / "b" / "train" / "cat", tmp_path / "b" / "train" / "tiger")
    assert image_files.find(tmp_path / "b", "train", KEY).digest != a.digest


def test_an_image_is_read_once_for_its_digest_until_it_changes(tmp_path, monkeypatch):
    """A run looks at its folder of photos six times before the first step."""
    images, labels = patterns(4)
    write_class_folders(tmp_path / "train", images, [f"class {label}" for label in labels])
    read, files = Path.read_bytes, []
    monkeypatch.setattr(Path, "read_bytes", lambda path: files.append(path) or read(path))
    first, again = (image_files.find(tmp_path, "train", KEY) for _ in range(2))
    assert first.digest == again.digest
    assert len(files) == len(set(files)) == 4
    files[0].write_bytes(read(files[1]))
    assert image_files.find(tmp_path, "train", KEY).digest != first.digest


IMAGES, LABELS = patterns(5)
LABELLED = idx(LABELS)
PACKED = gzip.compress(idx(IMAGES))


@pytest.mark.parametrize(
    ("end", "images", "labels", "message"),
    [
        ("", idx(IMAGES)[:-1], LABELLED, r"images.*damaged, .* size 319 into shape \(5,8,8\)"),
        ("", idx(IMAGES), LABELLED + b"x", r"labels.*damaged, .* size 6 into shape \(5,\)"),
        ("", idx(IMAGES), idx(LABELS[:4]), "5 images but .* has 4 labels"),
        ("", LABELLED, LABELLED, r"an idx file of bytes in 3 dimensions: it .* \[0 0 8 1\]"),
        ("", b"", LABELLED, "damaged, or not an idx file"),
        ("", idx(IMAGES)[:9], LABELLED, "damaged, or not an idx file"),
        ("", idx(IMAGES[:0]), idx(LABELS[:0]), "has no image"),
        (".gz", PACKED[:-20], LABELLED, "t-images-idx3-ubyte.gz is damaged, or not"),
        (".gz", idx(IMAGES), LABELLED, "t-images-idx3-ubyte.gz is damaged, or not"),
    ],
)
def test_a_wrong_idx_file_is_named(tmp_path, end, images, labels, message):
    (tmp_path / f"t-images-idx3-ubyte{end}").write_bytes(images)
    (tmp_path / "t-labels-idx1-ubyte").write_bytes(labels)
    with pytest.raises(UserError, match=message) as error:
        image_files.find(tmp_path, "t", KEY)
    assert "\n" not in str(error.value)
    assert str(tmp_path) in str(error.value)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("dog/1.png", b"no image", r"dog/1.png is a damaged image, or neither PNG nor JPEG"),
        ("dog/1.png", encoded(IMAGES[0])[:-30], r"dog/1.png is a damaged image"),
        ("dog/1.jpg", encoded(IMAGES[0], "jpeg")[:-90], r"dog/1.jpg is a damaged image"),
        ("dog/1.png", encoded(np.zeros((3, 3), np.uint16)), "1.png has more than 8 bits a channel"),
        ("dog/notes.txt", b"text", r"dog/notes.txt is not an image \(.png, .jpg, .jpeg\)"),
    ],
)
def test_what_is_wrong_in_class_folders_is_named(tmp_path, name, content, message):
    write_class_folders(tmp_path / "train", IMAGES, ["cat"] * 5)
    (tmp_path / "train" / name).parent.mkdir(exist_ok=True)
    (tmp_path / "train" / name).write_bytes(content)
    with pytest.raises(UserError, match=rf"\A.*{message}.*\Z"):
        list(image_files.find(tmp_path, "train", KEY).contents())


def test_a_missing_split_says_what_is_expected_and_what_is_there(tmp_path):
    write_idx(tmp_path, "train", IMAGES, LABELS)
    message = r"config.data.test='t10k': expected a folder .*t10k.* has train-images-idx3-ubyte"
    with pytest.raises(UserError, match=message):
        image_files.find(tmp_path, "t10k", "config.data.test")
    with pytest.raises(UserError, match=r"nowhere \(config\.data\.directory\) is not a folder"):
        image_files.find(tmp_path / "nowhere", "train", KEY)
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match=r"empty has no image: expected a folder of images for"):
        image_files.find(tmp_path, "empty", KEY)
