"""The section of a split, of a few pairs."""

import numpy as np
import pytest
from tools.pages.workdirs import HOSTILE

from transformer.tools.audit import audit_page

VALUES = {
    "files": [HOSTILE, "b"],
    "pairs": 500,
    "source_lines": 500,
    "target_lines": 501,
    "ratio": 1.25,
    "misaligned": [{"line": 101, "to": 300, "shift": -2}],
    "without_a_piece": {"é": 2},
}


@pytest.fixture
def section():
    masks = {name: np.zeros(500, bool) for name in ("blank", "invisible", "misaligned")}
    masks["blank"][499], masks["misaligned"][100:300] = True, True
    first = {"blank": [500], "invisible": [], "misaligned": [101, 1]}
    counts = {x: {"pairs": int(masks[x].sum()), "lines": first[x]} for x in masks}
    texts = {1: ("ab\u200bc", HOSTILE), 101: ("abc", "abcdef"), 500: ("x" * 400, "")}
    return audit_page.section("train", {**VALUES, "faults": counts}, masks, texts)


def test_a_section_has_counts_a_plot_and_examples(section):
    facts, counts, where, blank, misaligned = section.parts
    assert section.title == "Train"
    assert facts == {
        "pairs": "500",
        "files": f"{HOSTILE}, b",
        "lines": "500 source, 501 target",
        "characters": "1.25 of the target for one of the source",
        "misaligned": "from about line 101 to 300, source line i goes with target line i - 2",
        "without a piece": "'é'",
    }
    assert [row[::2] for row in counts.rows] == [["blank", 1], ["misaligned", 200]]
    shares = {row["from line"]: row["share"] for row in where.spec["data"]["values"][20:]}
    assert [line for line, share in shares.items() if share == 1] == [
        *("101", "126", "151", "176", "201", "226", "251", "276")
    ]
    assert sum(shares.values()) == 8
    assert blank.rows == [["500", "x" * 300 + " ...", ""]]
    assert misaligned.rows[1] == ["1", "ab[U+200B]c", HOSTILE]


def test_of_a_clean_split_that_is_said():
    values = {**VALUES, "faults": {"blank": {"pairs": 0, "lines": []}}}
    _, said = audit_page.section("test", values, {}, {}).parts
    assert said == "Nothing was found."
