"""docs/one-batch.md shows what docs/one_batch.py computes."""

import re

import pytest

from docs import one_batch

NUMBER = re.compile(r"-?\d+\.\d+")


def differs(page, kept):
    """Whether two pages differ, in more than the last digits of a fraction."""
    if NUMBER.sub("", page) != NUMBER.sub("", kept):
        return True
    numbers = (list(map(float, NUMBER.findall(text))) for text in (page, kept))
    return list(next(numbers)) != pytest.approx(next(numbers), rel=2e-3, abs=2e-4)


@pytest.mark.slow
def test_one_batch_is_what_its_page_shows(tmp_path):
    kept = one_batch.PAGE.read_text()
    page = one_batch.filled(kept, tmp_path)
    assert not differs(page, kept), "run python -m docs.one_batch"
    assert differs(page.replace("0.0441", "0.0431"), kept)
    assert differs(page.replace("Haus ▁ist", "Haus ▁is"), kept)
