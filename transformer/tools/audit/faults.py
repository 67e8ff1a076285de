"""The faults of sentence pairs, from the numbers of their lines: a mask of pairs for each."""

from typing import NamedTuple

import numpy as np

from transformer.tools.audit import alignment, repeats
from transformer.tools.audit.line_measures import Lines

# {fault: what it is}, in the order of the table.
FAULTS = {
    "blank": "a side without text",
    "misaligned": "in a run of lines that go with others, or with none",
    "broken": "not UTF-8, U+FFFD, or UTF-8 read as another encoding",
    "invisible": "control characters, or others that are not seen",
    "tags": "tags of HTML, such as <b>",
    "entities": "characters by their names in HTML, such as &amp;",
    "decomposed": "characters in several parts, as macOS spells them (NFD)",
    "script": "a side in another script than its language's",
    "swapped": "both sides in the other side's language",
    "language": "a side in another language than its own",
    "copied": "the same letters on both sides",
    "length": "one side far too long for the other",
    "duplicate": "the same pair as an earlier line",
    "near_duplicate": "the same letters as an earlier line, on both sides",
    "many_targets": "a source with several targets",
    "many_sources": "a target with several sources",
    "overlap": "the same letters in train and in another split",
    "source_in_train": "a source that train has, but with another target",
    "target_in_train": "a target that train has, but with another source",
    "long": "over data.max_length",
    "spelt": "characters that the vocabulary spells in bytes, or does not know",
}
# A length is wrong if it is DEVIATIONS robust standard deviations from what the other side's gives
# by Gale and Church's model (alignment.py), and RATIO times as long, or as short.
DEVIATIONS, RATIO = 5.0, 2.0
# A line is in another language if that is so many times as likely as its side's own: the other
# side's language, which is a likely fault, or any third one, which is a rare one.
OTHER, THIRD = np.log(20), np.log(100)


class Faults(NamedTuple):
    """The faults of the pairs of one split."""

    masks: dict[str, np.ndarray]  # {fault: bool [pairs]}
    misaligned: list[alignment.Misaligned]  # runs of lines
    ratio: float  # target characters for one of the source


def pair_faults(source: Lines, target: Lines, max_length: int, difference: int = 0) -> Faults:
    """Returns the faults of a split's pairs, all but its overlap with other splits.

    `difference` is the number of target lines minus that of source lines.
    """
    pieces = np.maximum(source.pieces, target.pieces)
    blank = _is_blank(source) | _is_blank(target)
    exact = repeats.pair_keys(source.exact, target.exact)
    near = repeats.pair_keys(source.near, target.near)
    lines = np.arange(len(exact))
    duplicate = ~blank & (repeats.first_of(exact) < lines)
    copied = ~blank & (source.near == target.near) & (source.letters > 0)
    # Both sides are evidence: two short lines are sure together, where neither is alone.
    swapped = (source.to_other > 0) & (target.to_other > 0)
    swapped &= source.to_other + target.to_other > OTHER
    foreign = _is_foreign(source) | _is_foreign(target)
    model = alignment.learn(source, target)
    runs = alignment.find(source, target, model, difference)
    misaligned = np.zeros(len(exact), bool)
    for start, stop, _ in runs:
        misaligned[start:stop] = True
    masks = {
        "blank": blank,
        "misaligned": misaligned,
        "broken": source.broken | target.broken,
        "invisible": source.invisible | target.invisible,
        "tags": source.tags | target.tags,
        "entities": source.entities | target.entities,
        "decomposed": source.decomposed | target.decomposed,
        "script": source.other_script | target.other_script,
        "swapped": swapped,
        "language": foreign & ~swapped & ~copied,
        "copied": copied,
        "length": ~blank & _has_wrong_length(source, target, model),
        "duplicate": duplicate,
        "near_duplicate": ~blank & ~duplicate & (repeats.first_of(near) < lines),
        "many_targets": ~blank & repeats.have_several(source.exact, target.exact),
        "many_sources": ~blank & repeats.have_several(target.exact, source.exact),
        "long": pieces > max_length,
        "spelt": source.spelt | target.spelt,
    }
    return Faults(masks, runs, model.ratio)


def overlap(
    train: tuple[Lines, Lines], split: tuple[Lines, Lines], blank: np.ndarray
) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Returns a split's masks of what train has, too, and the mask of train's pairs in the split.

    `blank` is the mask of the split's blank pairs, which overlap with nothing.
    """
    train_keys = repeats.pair_keys(*(side.near for side in train))
    keys = repeats.pair_keys(*(side.near for side in split))
    both = ~blank & np.isin(keys, train_keys)
    source, target = (np.isin(b.near, a.near) for a, b in zip(train, split, strict=True))
    masks = {
        "overlap": both,
        "source_in_train": ~blank & ~both & source,
        "target_in_train": ~blank & ~both & target,
    }
    return masks, np.isin(train_keys, keys[~blank])


def _is_blank(side: Lines) -> np.ndarray:
    return side.near == hash("")


def _is_foreign(side: Lines) -> np.ndarray:
    return (side.to_other > OTHER) | (side.to_likeliest > THIRD)


def _has_wrong_length(source: Lines, target: Lines, model: alignment.Model) -> np.ndarray:
    deviation = alignment.deviation(source.length, target.length, model.ratio) / model.spread
    ratio = (target.length + 1) / (model.ratio * source.length + 1)
    return (np.abs(deviation) > DEVIATIONS) & (np.abs(np.log(ratio)) > np.log(RATIO))
