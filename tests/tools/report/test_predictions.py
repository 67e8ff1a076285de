"""Predictions: the images of the surest errors; a golden page has the matrix and its text."""

import base64

import numpy as np
import pytest
from families.images.miniature_images import decoded, write_idx
from tools.pages import workdirs
from tools.report import photographs

from transformer.errors import UserError
from transformer.tools.pages.page import Table
from transformer.tools.report import pictures, predictions


def test_what_is_missing(tmp_path):
    run = workdirs.classified(tmp_path)
    del run.evaluations[-1].outputs["probability"]  # as in an older result
    *_, last = predictions.section(run).parts
    assert run.command("evaluate") in last


def test_the_gallery_begins_with_the_surest_error(tmp_path):
    """In whole pixels: 8 become 96."""
    run, pixels, labels = photographs.photographed(tmp_path, 30, size=8)
    *_, gallery, table = predictions.section(run).parts
    surest = max(i for i in range(30) if labels[i] != 1)
    url = gallery.html.partition('src="')[2].partition('"')[0]
    shown = decoded(base64.b64decode(url.partition(",")[2]))
    np.testing.assert_array_equal(shown, pixels[surest].repeat(12, axis=0).repeat(12, axis=1))
    assert table.rows[0][3].endswith(f"image {surest}")
    assert gallery.html.count("<img") == predictions.MAX_ITEMS == 20


@pytest.mark.parametrize("fault", ["none", "fewer", "changed"])
def test_images_that_are_not_the_results_are_not_shown(tmp_path, fault):
    run, pixels, labels = photographs.photographed(tmp_path, 30, size=8)
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
