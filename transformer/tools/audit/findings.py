"""The findings of the audit in each split: as arrays, as a result, and as a table."""

from collections import Counter
from typing import NamedTuple

import numpy as np

from transformer.errors import UserError, quantity
from transformer.runtime import progress
from transformer.tools.audit import faults, line_measures
from transformer.tools.audit.alignment import Misaligned
from transformer.tools.audit.raw_pairs import Pairs

SHOWN = 5  # line numbers of a fault, in the table and in the result
CHARACTERS = 20  # characters without a piece, in the result


class Split(NamedTuple):
    """Holds the findings in a split."""

    pairs: Pairs
    sides: tuple[line_measures.Lines, line_measures.Lines]
    masks: dict[str, np.ndarray]  # {fault: bool [pairs]}
    misaligned: list[Misaligned]
    ratio: float  # target characters per source character
    spelt: Counter  # characters without a piece in the vocabulary


def examine(
    split: str, pairs: Pairs, readers: list[line_measures.Reader], max_length: int
) -> Split:
    """Reads a split once, and returns its faults, except for its overlap with other splits."""
    if not len(pairs):
        raise UserError(f"the split {split!r} is empty: {' and '.join(pairs.files)}")
    with progress.counter(f"audit {split}", total=len(pairs), unit="pair") as advance:
        source, target, spelt = line_measures.scan(pairs.read, readers, advance)
    difference = pairs.counts[1] - pairs.counts[0]
    masks, runs, ratio = faults.pair_faults(source, target, max_length, difference)
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
    counts = {}
    for name in faults.FAULTS:
        if name in split.masks:
            lines = np.flatnonzero(split.masks[name]) + 1
            counts[name] = {"pairs": len(lines), "lines": lines[:SHOWN].tolist()}
    runs = split.misaligned
    return {
        "files": split.pairs.files,
        "pairs": len(split.pairs),
        "source_lines": split.pairs.counts[0],
        "target_lines": split.pairs.counts[1],
        "ratio": split.ratio,
        "misaligned": [{"line": x.start + 1, "to": x.stop, "shift": x.shift} for x in runs],
        "faults": counts,
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
            share = count / values["pairs"]
            fault_rows.append(
                f"{count:>11,} {share:>8.2%}  {faults.FAULTS[name]} ({name}): {lines}"
            )
    return "\n".join([*rows, *(fault_rows or ["  nothing found"])])


def words_of(run: dict) -> str:
    """Returns a run of misaligned lines in words."""
    # 'About': near the ends of a run, a few lines' evidence decides little.
    goes, shift = "no target line near it", run["shift"]
    if shift is not None:
        goes = f"target line i {'+' if shift > 0 else '-'} {abs(shift)}"
    return f"from about line {run['line']} to {run['to']}, source line i goes with {goes}"
