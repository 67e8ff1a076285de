"""Images are classified end to end: trained, evaluated, and asked for the class of any file."""

import json
import shutil

import numpy as np
import pytest
from conformance import tiny_tasks
from families.images.miniature_images import encoded, patterns, write_idx

import launch
from transformer.errors import UserError
from transformer.workdir.log import read
from transformer.workdir.saved_config import read_config

TINY = {**tiny_tasks.LAYERS, "model.patch_size": 4, "model.position_grid": 2}
TINY |= {"data.size": 8, "data.padding": 1, "data.batch_images": 24}  # divides by 8 devices
TINY |= {"data.train": "train[:100]", "data.validation": "train[100:]", "data.test": "test"}
TINY |= {"optimizer.schedule.peak_value": 0.01, "optimizer.schedule.warmup_steps": 5}
TINY |= {"train.num_steps": 40, "train.log_every": 5, "train.save_every": 10}
TINY |= {"evaluate.every": 20, "compilation_cache": ""}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """idx files of 120 and 30 images."""
    folder = tmp_path_factory.mktemp("images")
    write_idx(folder, "train", *patterns(120), ".gz")
    write_idx(folder, "test", *patterns(30, seed=1), ".gz")
    return folder


def train(folder, workdir, **changes):
    values = {**TINY, "data.directory": folder, "data.data_dir": folder / "data", **changes}
    arguments = [f"--config.{key}={value}" for key, value in values.items()]
    launch.main(["--config=configs/mnist.py", f"--workdir={workdir}", *arguments])


@pytest.fixture(scope="module")
def digits(folder, tmp_path_factory):
    """A workdir trained on the idx files: to read, never to write into."""
    workdir = tmp_path_factory.mktemp("runs") / "digits"
    train(folder, workdir)
    return workdir


@pytest.mark.slow
def test_stripes_are_told_apart(digits):
    [result] = [json.loads(x) for x in (digits / "evaluations.jsonl").read_text().splitlines()]
    assert (result["accuracy"], result["images"], result["split"]) == (1.0, 30, "test")
    _, labels = patterns(30, seed=1)
    assert read_config(digits).data.num_classes == len({*labels})
    names, *classes = (
        (digits / "evaluation" / f"{result['set']}.{column}").read_text().splitlines()
        for column in ("image", "label", "prediction")
    )
    assert names[7] == "test-images-idx3-ubyte.gz image 7"
    assert classes == [[str(label) for label in labels]] * 2
    assert (digits / "vocabulary" / "labels.txt").read_text() == "0\n1\n2\n"
    first = next(x for x in read(digits) if x["kind"] == "train")
    assert {"images_per_second", "accuracy", "loss"} <= first.keys()
    assert "padding" not in first


@pytest.mark.slow
def test_image_files_of_any_kind_are_classified(digits, tmp_path, answered, capsysbinary):
    images, labels = patterns(3, seed=5)
    colour = np.repeat(images[1].repeat(2, 0).repeat(2, 1)[..., None], 3, axis=-1)
    files = [tmp_path / name for name in ("0.png", "1.PNG", "2.jpeg")]
    files[0].write_bytes(encoded(images[0]))
    files[1].write_bytes(encoded(colour))  # twice the size
    files[2].write_bytes(encoded(images[2], "jpeg", quality=95))
    classified = lambda files, **changes: answered(
        "classify", digits, "".join(f"{file}\n" for file in files).encode(), **changes
    ).splitlines()
    answers = [line.split("\t") for line in classified(files)]
    assert [label for label, _ in answers] == [str(label) for label in labels]
    assert all(0.5 < float(probability) <= 1 for _, probability in answers)
    [answer] = classified(files[:1], **{"classify.format": "json"})
    assert json.loads(answer)["input"] == str(files[0])
    assert sum(json.loads(answer)["probabilities"].values()) == pytest.approx(1)
    (tmp_path / "damaged.png").write_bytes(encoded(images[0])[:-30])
    for name, message in {
        "missing.png": r"line 2: '.*missing.png' is not a file, expected the path of an image",
        "damaged.png": r"line 2: .*damaged.png is a damaged image",
    }.items():
        with pytest.raises(UserError, match=message):
            classified([files[0], tmp_path / name])
        assert capsysbinary.readouterr().out == b""
    with pytest.raises(UserError, match=r"line 1: '~nobody\.here/x\.png' is not a file"):
        classified(["~nobody.here/x.png"])


def test_a_class_that_training_never_saw_is_named(folder, tmp_path):
    images, labels = patterns(120)
    write_idx(tmp_path, "train", images, labels)
    write_idx(tmp_path, "test", images, labels + 1)
    message = r"test-labels-idx1-ubyte: the label '3' is in no training item; the classes are 0, 1"
    with pytest.raises(UserError, match=message):
        train(tmp_path, tmp_path / "run")
    assert not (tmp_path / "run" / "config.json").exists()


@pytest.mark.slow
def test_changed_training_images_are_not_resumed(digits, tmp_path):
    shutil.copytree(digits, tmp_path / "run")
    write_idx(tmp_path, "train", *patterns(120, seed=9))
    write_idx(tmp_path, "test", *patterns(8))
    with pytest.raises(UserError, match=r"was trained on other data: .*images-idx3\S* or .*labels"):
        train(tmp_path, tmp_path / "run")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"data.channels": 3}, "config.data.channels=3 needs as many numbers in config.model.mean"),
        ({"loss.label_smoothing": 1.0}, "config.loss.label_smoothing must be at least 0 and below"),
        ({"data.train": "nothing"}, "config.data.train='nothing': expected a folder"),
    ],
)
def test_what_cannot_work_is_one_line(folder, tmp_path, changes, message):
    with pytest.raises(UserError, match=rf"\A.*{message}.*\Z"):
        train(folder, tmp_path / "run", **changes)
    assert not (tmp_path / "run" / "config.json").exists()
