"""The section of a split, of a few pairs."""

import numpy as np
import pytest
from tools.audit import parallel
from tools.pages import browser
from tools.pages.workdirs import HOSTILE

from transformer.tools.audit import audit_page
from transformer.tools.pages import page
from transformer.tools.pages.page import Plot, Table

PAIRS = [["ab\u200bc", HOSTILE], *[["abc", "abcdef"]] * 498, ["x" * 400, ""]]


@pytest.fixture
def section():
    masks = {name: np.zeros(500, bool) for name in ("blank", "invisible", "misaligned")}
    masks["blank"][499], masks["misaligned"][100:300] = True, True
    first = {"blank": [500], "invisible": [], "misaligned": [101, 1]}
    values = {
        **{"files": ["a", "b"], "pairs": 500, "source_lines": 500, "target_lines": 501},
        **{"ratio": 1.25, "without_a_piece": {"é": 2}},
        "faults": {x: {"pairs": int(masks[x].sum()), "lines": first[x]} for x in masks},
    }
    texts = {number: tuple(PAIRS[number - 1]) for number in (1, 101, 500)}
    return audit_page.section("train", values, [HOSTILE], masks, parallel.scanned(PAIRS), texts)


def test_a_section_has_counts_plots_and_examples(section):
    facts, counts, where, lengths, blank, misaligned = section.parts
    assert section.title == "Train"
    assert facts["misaligned"] == HOSTILE
    assert facts["characters"] == "1.25 of the target for one of the source"
    assert [row[::2] for row in counts.rows] == [["blank", 1], ["misaligned", 200]]
    rows = [row for row in where.spec["data"]["values"] if row["fault"] == "misaligned"]
    assert (rows[0]["from"], rows[-1]["to"]) == (101, 300)
    assert {row["share"] for row in rows} == {1}
    assert "Source lines have 3 characters in the median, at most 400" in lengths.description
    assert "target lines have 6" in lengths.description
    assert blank.rows == [["500", "x" * 300 + " ...", ""]]
    assert misaligned.rows[1] == ["1", "ab[U+200B]c", HOSTILE]


def test_of_a_clean_split_there_are_its_lengths():
    values = {"files": [], "pairs": 1, "source_lines": 1, "target_lines": 1, "ratio": 1.0}
    values |= {"faults": {"blank": {"pairs": 0, "lines": []}}, "without_a_piece": {}}
    blank = {"blank": np.zeros(1, bool)}
    parts = audit_page.section("test", values, [], blank, parallel.scanned([["a", "b"]]), {}).parts
    assert parts[1] == "Nothing was found."
    assert [type(part) for part in parts] == [dict, str, Plot]
    assert not any(isinstance(part, Table) for part in parts)


@pytest.mark.slow
def test_a_browser_draws_it(section, tmp_path):
    file = tmp_path / "audit.html"
    file.write_text(page.html(HOSTILE, [section]))
    with browser.chromium() as driver:
        browser.open_page(driver, file, width=browser.WIDTHS["phone"])
        assert browser.faults(driver) == browser.NONE
        assert driver.title == HOSTILE
