"""Finds the faults of sentence pairs in the numbers of their lines: a mask of pairs per fault."""

import numpy as np

from transformer.tools.audit import alignment
from transformer.tools.audit.line_measures import Lines

# {fault: its description}, in the order of the table.
FAULTS = {
    "blank": "a side without text",
    "misaligned": "in a run of lines that go with others, or with none",
    "broken": "not UTF-8, U+FFFD, or UTF-8 read as another encoding",
    "invisible": "control characters, or others that are not seen",
    "tags": "tags of HTML, such as <b>",
    "entities": "characters by their names in HTML, such as &amp;",
    "script": "a side in another script than its language's",
    "swapped": "both sides in the other side's language",
    "language": "a side in another language than its own",
    "copied": "the same letters on both sides",
    "length": "one side far too long for the other",
    "duplicate": "the same pair as an earlier line",
    "near_duplicate": "the same letters as an earlier line, on both sides",
    "overlap": "the same letters in train and in another split",
    "source_in_train": "a source that train has, but with another target",
    "target_in_train": "a target that train has, but with another source",
    "long": "over data.max_length",
    "spelt": "characters that the vocabulary spells in bytes, or does not know",
}
# Faults of other splits than train: a part of a pair is in train.
OF_OTHER_SPLITS = ("source_in_train", "target_in_train")
# Faults of a line: a pair has the fault if either of its lines has.
OF_LINES = ("broken", "invisible", "tags", "entities", "spelt")
# A length is wrong if it is more than DEVIATIONS robust standard deviations from the length that
# the other side implies (alignment.py), and more than RATIO times as long, or as short.
DEVIATIONS, RATIO = 5.0, 2.0
# A line is in another language if it is 20 times as likely as its side's language for the other
# side's language, a common fault, and 100 times for a third language, a rare fault.
OTHER, THIRD = np.log(20), np.log(100)


def pair_faults(
    source: Lines, target: Lines, max_length: int, difference: int = 0
) -> tuple[dict[str, np.ndarray], list[alignment.Misaligned], float]:
    """Returns the faults of a split's pairs, except for its overlap with other splits.

    The values are {fault: bool [pairs]}, the runs of misaligned lines, and the ratio of target
    characters to source characters. `difference` is the number of target lines minus that of source
    lines.
    """
    # The `near` of a line of blanks is the hash of "": neither letters nor other characters.
    blank = (source.near == hash("")) | (target.near == hash(""))
    exact, near = pair_keys(source.exact, target.exact), pair_keys(source.near, target.near)
    duplicate = ~blank & is_repeated(exact)
    copied = ~blank & (source.near == target.near) & (source.letters > 0)
    # Add the evidence of both sides, because two short lines may be certain only together.
    swapped = (source.to_other > 0) & (target.to_other > 0)
    swapped &= source.to_other + target.to_other > OTHER
    foreign = np.maximum(source.to_other, target.to_other) > OTHER
    foreign |= np.maximum(source.to_likeliest, target.to_likeliest) > THIRD
    model = alignment.learn(source, target)
    runs = alignment.find(source, target, model, difference)
    misaligned = np.zeros(len(exact), bool)
    for start, stop, _ in runs:
        misaligned[start:stop] = True
    masks = {name: getattr(source, name) | getattr(target, name) for name in OF_LINES}
    masks |= {
        "blank": blank,
        "misaligned": misaligned,
        "script": source.other_script | target.other_script,
        "swapped": swapped,
        "language": foreign & ~swapped & ~copied,
        "copied": copied,
        "length": ~blank & _has_wrong_length(source, target, model),
        "duplicate": duplicate,
        "near_duplicate": ~blank & ~duplicate & is_repeated(near),
        "long": np.maximum(source.pieces, target.pieces) > max_length,
    }
    return masks, runs, model.ratio


def overlap(
    train: tuple[Lines, Lines], split: tuple[Lines, Lines], blank: np.ndarray
) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Returns masks of a split's overlap with train, and the mask of train's pairs in the split.

    `blank` is the mask of the split's blank pairs, which overlap with nothing.
    """
    train_keys = pair_keys(*(side.near for side in train))
    keys = pair_keys(*(side.near for side in split))
    both = ~blank & np.isin(keys, train_keys)
    source, target = (np.isin(b.near, a.near) for a, b in zip(train, split, strict=True))
    masks = {
        "overlap": both,
        "source_in_train": ~blank & ~both & source,
        "target_in_train": ~blank & ~both & target,
    }
    return masks, np.isin(train_keys, keys[~blank])


def pair_keys(source: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Hashes each pair of keys to one key, int64; (a, b) and (b, a) differ.

    Keys are 64-bit hashes: among 4.5 million lines, two different lines have the same key with a
    probability of one in a million.
    """
    # The shift brings high bits down, because low bits of a product depend on low bits only. The
    # target is added after the first product, so that the order of a pair counts.
    mixed = source.view(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(29))) + target.view(np.uint64)
    return (mixed * np.uint64(0xBF58476D1CE4E5B9)).view(np.int64)


def is_repeated(keys: np.ndarray) -> np.ndarray:
    """Returns for each line whether an earlier line has its key: of 7 8 7, the last line only."""
    # unique's indices are those of first occurrences.
    repeated = np.ones(len(keys), bool)
    repeated[np.unique(keys, return_index=True)[1]] = False
    return repeated


def _has_wrong_length(source: Lines, target: Lines, model: alignment.Model) -> np.ndarray:
    """Returns the mask of pairs with a length that DEVIATIONS and RATIO both call wrong."""
    # DEVIATIONS alone would refuse long pairs with a ratio near the mean, RATIO alone short pairs.
    deviation = alignment.deviation(source.length, target.length, model.ratio) / model.spread
    ratio = (target.length + 1) / (model.ratio * source.length + 1)
    return (np.abs(deviation) > DEVIATIONS) & (np.abs(np.log(ratio)) > np.log(RATIO))
