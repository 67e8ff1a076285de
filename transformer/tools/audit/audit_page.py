"""The findings of the audit in each split: as arrays, as a result, as a table, and as a page."""

import itertools
from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from transformer.errors import UserError, quantity
from transformer.runtime import progress
from transformer.tools.audit import faults, line_measures, scripts
from transformer.tools.audit.alignment import Misaligned
from transformer.tools.audit.raw_pairs import Pairs
from transformer.tools.pages import charts
from transformer.tools.pages.page import Plot, Section, Table

SHOWN = 5  # line numbers of a fault, in the table and in the result
CHARACTERS = 20  # characters without a piece, in the result
STRETCHES = 20  # of a split's lines, in the plot of the places of faults
MAX_CHARACTERS = 300  # of a text: a longer text is cut off


class Split(NamedTuple):
    """Holds the findings in a split."""

    pairs: Pairs
    sides: tuple[line_measures.Lines, line_measures.Lines]
    masks: dict[str, np.ndarray]  # {fault: bool [pairs]}
    misaligned: list[Misaligned]
    ratio: float  # target characters per source character
    spelt: Counter  # characters without a piece in the vocabulary


def examine(split: str, pairs: Pairs, expected: list[line_measures.Expected]) -> Split:
    """Reads a split once, and returns its faults, except for its overlap with other splits."""
    if not len(pairs):
        raise UserError(f"the split {split!r} is empty: {' and '.join(pairs.files)}")
    with progress.counter(f"audit {split}", total=len(pairs), unit="pair") as advance:
        source, target, spelt = line_measures.scan(pairs.read, expected, advance)
    difference = pairs.counts[1] - pairs.counts[0]
    # Both sides have the same maximum length.
    masks, runs, ratio = faults.pair_faults(source, target, expected[0].max_length, difference)
    return Split(pairs, (source, target), masks, runs, ratio, spelt)


def compare_with_train(examined: dict[str, Split]) -> None:
    """Adds the overlap with train to the masks of each split; to train's, with any other split."""
    # A pair of train counts once, even if several splits have it.
    train = examined["train"]
    overlap = np.zeros(len(train.pairs), bool)
    for split in examined.values():
        if split is not train:
            masks, in_train = faults.overlap(train.sides, split.sides, split.masks["blank"])
            split.masks.update(masks)
            overlap |= in_train
    train.masks["overlap"] = overlap


def summary(split: Split) -> dict:
    """Returns a split's result: counts, and the first line numbers of each fault, from 1."""
    lines = {x: np.flatnonzero(split.masks[x]) + 1 for x in faults.FAULTS if x in split.masks}
    runs = split.misaligned
    return {
        "files": split.pairs.files,
        "pairs": len(split.pairs),
        "source_lines": split.pairs.counts[0],
        "target_lines": split.pairs.counts[1],
        "ratio": split.ratio,
        "misaligned": [{"line": x.start + 1, "to": x.stop, "shift": x.shift} for x in runs],
        "faults": {x: {"pairs": len(y), "lines": y[:SHOWN].tolist()} for x, y in lines.items()},
        "without_a_piece": dict(split.spelt.most_common(CHARACTERS)),
    }


def facts(values: dict) -> dict[str, str]:
    """Returns the facts of a split besides its faults, in words; empty facts are left out."""
    # Line counts matter only if they differ: then the sides cannot be aligned throughout.
    counts = f"{values['source_lines']:,} source, {values['target_lines']:,} target"
    named = {
        "files": ", ".join(values["files"]),
        "lines": counts if values["source_lines"] != values["target_lines"] else "",
        "characters": f"{values['ratio']:.2f} of the target for one of the source",
        "misaligned": "; ".join(map(words_of, values["misaligned"][:SHOWN])),
        "without a piece": " ".join(map(repr, values["without_a_piece"])),
    }
    return {name: text for name, text in named.items() if text}


def table(split: str, values: dict) -> str:
    """Formats a split's result as a table of the faults that were found."""
    rows = [f"{split}: {quantity(values['pairs'], 'pair')}"]
    rows += [f"  {name}: {text}" for name, text in facts(values).items()]
    fault_rows = []
    for name, fault in values["faults"].items():
        if count := fault["pairs"]:
            lines = ", ".join(map(str, fault["lines"])) + ", ..." * (count > SHOWN)
            about = f"{faults.FAULTS[name]} ({name})"
            fault_rows.append(f"{count:>11,} {count / values['pairs']:>8.2%}  {about}: {lines}")
    return "\n".join([*rows, *(fault_rows or ["  nothing found"])])


def words_of(run: dict) -> str:
    """Returns a run of misaligned lines in words."""
    # 'About': near the ends of a run, a few lines' evidence decides little.
    partner = "no target line near it"
    if (shift := run["shift"]) is not None:
        partner = f"target line i {'+' if shift > 0 else '-'} {abs(shift)}"
    return f"from about line {run['line']} to {run['to']}, source line i goes with {partner}"


def section(
    split: str,
    values: dict,
    masks: Mapping[str, np.ndarray],
    texts: Mapping[int, tuple[str, str]],
) -> Section:
    """Returns the section of a split.

    `values` are the split's `summary`, `masks` is {fault: bool [pairs]}, and `texts` has
    the first pairs of each fault, {line, from 1: (source, target)}.
    """
    present = {name: fault for name, fault in values["faults"].items() if fault["pairs"]}
    shown = {"pairs": f"{values['pairs']:,}", **facts(values)}
    if not present:
        return Section(split.capitalize(), [shown, "Nothing was found."])
    share = lambda fault: f"{fault['pairs'] / values['pairs']:.2%}"
    rows = [[x, faults.FAULTS[x], fault["pairs"], share(fault)] for x, fault in present.items()]
    parts = [shown, Table(["fault", "a pair with", "pairs", "share"], rows)]
    parts.append(_where({name: masks[name] for name in present}))
    for name, fault in present.items():
        examples = [[f"{line:,}", *map(_visible, texts[line])] for line in fault["lines"]]
        about = f"{name}: {faults.FAULTS[name]}"
        parts.append(Table(["line", "source", "target"], examples, about))
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
    is_invisible = lambda x: scripts.kinds()[ord(x)] == scripts.INVISIBLE
    characters = (f"[U+{ord(x):04X}]" if is_invisible(x) else x for x in text[:MAX_CHARACTERS])
    shown = "".join(characters)
    return shown if len(text) <= MAX_CHARACTERS else f"{shown} ..."
