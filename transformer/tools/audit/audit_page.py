"""The page of --mode=audit: the faults of each split, their places, and examples."""

import itertools
from collections.abc import Mapping

import numpy as np

from transformer.tools.audit import findings, scripts
from transformer.tools.audit.faults import FAULTS
from transformer.tools.pages import charts
from transformer.tools.pages.page import Plot, Section, Table

STRETCHES = 20  # of a split's lines, in the plot of the places of faults
MAX_CHARACTERS = 300  # of a text: a longer text is cut off


def section(
    split: str,
    values: dict,
    masks: Mapping[str, np.ndarray],
    texts: Mapping[int, tuple[str, str]],
) -> Section:
    """Returns the section of a split.

    `values` are the split's `findings.summary`, `masks` is {fault: bool [pairs]}, and `texts` has
    the first pairs of each fault, {line, from 1: (source, target)}.
    """
    present = {name: fault for name, fault in values["faults"].items() if fault["pairs"]}
    facts = {"pairs": f"{values['pairs']:,}", **findings.facts(values)}
    if not present:
        return Section(split.capitalize(), [facts, "Nothing was found."])
    rows = []
    for name, fault in present.items():
        share = f"{fault['pairs'] / values['pairs']:.2%}"
        rows.append([name, FAULTS[name], fault["pairs"], share])
    parts = [facts, Table(["fault", "a pair with", "pairs", "share"], rows)]
    parts.append(_where({name: masks[name] for name in present}))
    for name, fault in present.items():
        examples = [[f"{line:,}", *map(_visible, texts[line])] for line in fault["lines"]]
        parts.append(Table(["line", "source", "target"], examples, f"{name}: {FAULTS[name]}"))
    return Section(split.capitalize(), parts)


def _where(masks: Mapping[str, np.ndarray]) -> Plot:
    """Returns a plot of the share of pairs with each fault, along the lines of the split."""
    count = len(next(iter(masks.values())))
    # The 20 stretches of 45 lines begin at 0 2 4 6 9 ...; of fewer than 20 lines each is a stretch.
    edges = np.unique(np.linspace(0, count, STRETCHES + 1).astype(int))
    rows = []
    for name, mask in masks.items():
        for start, stop in itertools.pairwise(edges):
            share = float(mask[start:stop].mean())
            rows.append({"from line": f"{start + 1:,}", "fault": name, "share": share})
    spec = charts.cells(rows, "from line", "fault", "share")
    table = Table(["from line", "fault", "share"], [[*row.values()] for row in rows])
    return Plot("Where", spec, "The share of pairs with each fault along the file.", table)


def _visible(text: str) -> str:
    """Returns the beginning of a text, with invisible characters as [U+200B]."""
    shown = ""
    for character in text[:MAX_CHARACTERS]:
        is_invisible = scripts.kinds()[ord(character)] == scripts.INVISIBLE
        shown += f"[U+{ord(character):04X}]" if is_invisible else character
    return shown if len(text) <= MAX_CHARACTERS else f"{shown} ..."
