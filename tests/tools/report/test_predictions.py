"""Predictions: the images of the surest errors; a golden page has the matrix and its text."""

import base64
import io

import numpy as np
import pytest
from families.images.miniature_images import patterns, write_idx
from PIL import Image
from tools.pages import workdirs

from transformer.errors import UserError
from transformer.tools.pages.page import Table
from transformer.tools.report import pictures, predictions


def test_what_is_missing(tmp_path):
    run = workdirs.classified(tmp_path)
    del run.evaluations[-1].outputs["probability"]  # as in an older result
    *_, last = predictions.section(run).parts
    assert run.command("evaluate") in last


@pytest.fixture
def images(tmp_path):
    """A run that has classified 30 images, their pixels and their labels."""
    pixels, labels = patterns(30)
    write_idx(tmp_path, "test", pixels, labels)
    files = {
        "test.image": [f"test-images-idx3-ubyte image {i}" for i in range(30)],
        "test.label": map(str, labels),
        "test.prediction": ["0"] * 30,
        "test.probability": [f"0.{i + 10}" for i in range(30)],
        "test.classes": ["0\t1\t1\t1\t1"],
    }
    result = {"set": "test", "split": "test", "step": 1, "steps": [1], "accuracy": 0.3}
    changes = {"corpus": "own_images", "channels": 1, "test": "test", "size": 8}
    changes |= {"directory": str(tmp_path), "data_dir": str(tmp_path / "data")}
    changes = {f"data.{key}": value for key, value in changes.items()}
    wrote = {"task": "image_classification", "results": [result], "files": files}
    return workdirs.load(workdirs.write(tmp_path / "run", **wrote, **changes)), pixels, labels


def test_the_gallery_begins_with_the_surest_error(images):
    """In whole pixels: 8 become 96."""
    run, pixels, labels = images
    *_, gallery, table = predictions.section(run).parts
    surest = max(i for i in range(30) if labels[i] != 0)
    url = gallery.html.partition('src="')[2].partition('"')[0]
    shown = np.asarray(Image.open(io.BytesIO(base64.b64decode(url.partition(",")[2]))))
    expected = pixels[surest].repeat(12, axis=0).repeat(12, axis=1)
    np.testing.assert_array_equal(shown, expected)
    assert table.rows[0][3].endswith(f"image {surest}")
    assert gallery.html.count("<img") == predictions.MAX_ITEMS == 20


@pytest.mark.parametrize("fault", ["none", "fewer", "changed"])
def test_images_that_are_not_the_results_are_not_shown(images, tmp_path, fault):
    run, pixels, labels = images
    if fault == "changed":
        run.evaluations[0].outputs["image"][:] = reversed(run.evaluations[0].outputs["image"])
    else:
        (tmp_path / "test-images-idx3-ubyte").unlink()
        (tmp_path / "test-labels-idx1-ubyte").unlink()
    if fault == "fewer":
        write_idx(tmp_path, "test", pixels[:9], labels[:9])
    with pytest.raises(UserError):
        pictures.read(run, run.evaluations[0], [0])
    *_, table, why = predictions.section(run).parts
    assert isinstance(table, Table)
    assert "cannot be shown" in why
