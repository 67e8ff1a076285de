"""The section of a split of a few pairs, as a golden text."""

import numpy as np
from tools.pages import golden
from tools.pages.workdirs import HOSTILE

from transformer.tools.audit import audit_page
from transformer.tools.pages import page

VALUES = {
    "files": [HOSTILE, "b"],
    "pairs": 500,
    "source_lines": 500,
    "target_lines": 501,
    "ratio": 1.25,
    "misaligned": [{"line": 1, "to": 75, "shift": -2}],
    "without_a_piece": {"é": 2},
}


def test_a_reader_sees():
    """Counts, where the faults are, and examples; of a clean split that it is clean."""
    masks = {name: np.zeros(500, bool) for name in ("misaligned", "blank", "invisible")}
    masks["misaligned"][:75], masks["blank"][499] = True, True
    first = {"misaligned": [51, 1], "blank": [500], "invisible": []}
    counts = {x: {"pairs": int(masks[x].sum()), "lines": first[x]} for x in masks}
    texts = {1: ("ab\u200bc", HOSTILE), 51: ("abc", "abcdef"), 500: ("x" * 400, "")}
    sections = [
        audit_page.section("train", {**VALUES, "faults": counts}, masks, texts),
        audit_page.section("test", {**VALUES, "faults": {}}, {}, {}),
    ]
    golden.check(golden.read(page.html("Audit", sections)), __file__, "audit")
