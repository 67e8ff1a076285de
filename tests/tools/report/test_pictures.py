"""Images in a page: those of the result's lines, refused where they are others."""

import base64
import io

import numpy as np
import pytest
from helpers import workdirs
from helpers.miniature_images import patterns, write_idx
from PIL import Image

from transformer.errors import UserError
from transformer.tools.pages.page import Table
from transformer.tools.report import pictures, predictions


@pytest.fixture
def this(tmp_path):
    """A run that has classified 30 images, and their pixels."""
    pixels, labels = patterns(30)
    write_idx(tmp_path, "test", pixels, labels)
    names = [f"test-images-idx3-ubyte image {i}" for i in range(30)]
    files = {
        **{"test.image": names, "test.label": map(str, labels), "test.prediction": ["0"] * 30},
        **{
            "test.probability": [f"0.{i + 10}" for i in range(30)],
            "test.classes": ["0\t1\t1\t1\t1"],
        },
    }
    result = {
        "set": "test",
        "split": "test",
        "step": 1,
        "steps": [1],
        "accuracy": 0.3,
        "images": 30,
    }
    changes = {
        "data__corpus": "own_images",
        "data__channels": 1,
        "data__test": "test",
        "data__size": 8,
    }
    changes |= {"data__directory": str(tmp_path), "data__data_dir": str(tmp_path / "data")}
    folder = workdirs.write(
        tmp_path / "run", task="image_classification", results=[result], files=files, **changes
    )
    return workdirs.load(folder), pixels, labels


def opened(url):
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(url.partition(",")[2]))))


def test_a_small_image_is_enlarged_in_whole_pixels(this):
    run, pixels, _ = this
    for url, line in zip(pictures.urls(run, run.evaluations[0], [7, 3]), (7, 3), strict=True):
        np.testing.assert_array_equal(
            opened(url), pixels[line].repeat(12, axis=0).repeat(12, axis=1)
        )


def test_the_gallery_begins_with_the_surest_error(this):
    run, pixels, labels = this
    *_, gallery, table = predictions.section(run).parts
    surest = max(i for i in range(30) if labels[i] != 0)
    url = gallery.html.partition('src="')[2].partition('"')[0]
    np.testing.assert_array_equal(opened(url)[::12, ::12], pixels[surest])
    assert table.rows[0][3].endswith(f"image {surest}")
    assert gallery.html.count("<img") == predictions.MOST_ITEMS == 20


@pytest.mark.parametrize("fault", ["none", "fewer", "others"])
def test_images_that_are_not_the_results_are_not_shown(this, tmp_path, fault):
    run, pixels, labels = this
    if fault == "others":
        run.evaluations[0].outputs["image"][:] = reversed(run.evaluations[0].outputs["image"])
    else:
        (tmp_path / "test-images-idx3-ubyte").unlink()
        (tmp_path / "test-labels-idx1-ubyte").unlink()
    if fault == "fewer":
        write_idx(tmp_path, "test", pixels[:9], labels[:9])
    with pytest.raises(UserError):
        pictures.urls(run, run.evaluations[0], [0])
    *_, table, why = predictions.section(run).parts
    assert isinstance(table, Table)
    assert "cannot be shown" in why
