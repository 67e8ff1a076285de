"""Finds runs of misaligned lines: line i of one side belongs to line i + d of the other, or none.

Three features show whether two lines are a pair: their lengths, as in Gale and Church (1993), the
marks at their ends, and their numbers. The evidence of a feature is log P(feature | a pair of the
corpus) - log P(feature | near lines that are not a pair), both counted in the corpus itself. In a
corpus with similar neighbours, such as one sorted by length, the evidence is about zero, and no run
is found. A run of lines is shifted by d if the sum over its lines of evidence(i, i + d) -
evidence(i, i) exceeds a threshold. This sum of log likelihood ratios exceeds h in n lines of good
pairs with a probability of about n exp(-h) (Page 1954). The shifts of all lines maximise the total
evidence, less the threshold for each run.
"""

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from transformer.tools.audit.line_measures import ENDINGS, Lines

SHIFTS = 10  # lines by which one side may be shifted
# Nats on top of log(lines x shifts), because features of neighbouring pairs are not independent.
THRESHOLD = 30.0
# Bins of lengths, in steps of half a standard deviation: index 8 is the expected length.
NUM_BINS, NUM_ENDINGS = 17, 1 + max(ENDINGS.values())


class Misaligned(NamedTuple):
    """Holds a run of source lines, [start, stop) from 0, and the place of their target lines.

    In (2, 5, 1) the source lines 2, 3, 4 belong to the target lines 3, 4, 5. The shift is None if
    they belong to no target line nearby.
    """

    start: int
    stop: int
    shift: int | None


class Model(NamedTuple):
    """Holds the evidence that each value of each feature gives for a pair of lines, in nats."""

    ratio: float  # target characters per source character
    spread: float  # of the deviation of a pair's lengths
    weights: Sequence[np.ndarray]  # of each feature
    unrelated: float  # the expected evidence of lines that are not a pair, at most 0


def find(source: Lines, target: Lines, model: Model, difference: int = 0) -> list[Misaligned]:
    """Returns the runs of misaligned lines, sorted.

    `difference` is the number of target lines minus that of source lines; a shift by so many lines
    is searched as well.
    """
    count = len(source.length)
    wanted = {*range(-SHIFTS, SHIFTS + 1), difference} - {0}
    shifts = [0, None, *sorted(d for d in wanted if abs(d) < count)]
    # A row per shift; the path takes the rows of the highest evidence. Row 0 is the shift 0.
    evidence_of_shifts = np.empty((len(shifts), count), np.float32)
    for row, shift in enumerate(shifts):
        evidence_of_shifts[row] = evidence(model, source, target, shift)
    path = _likeliest_rows(evidence_of_shifts, THRESHOLD + np.log(count * len(shifts)))
    runs = []
    # Path 0 0 2 2 2 0 changes after lines 1 and 4: the runs are [0, 2), [2, 5) and [5, 6).
    for start, stop in itertools.pairwise([0, *np.flatnonzero(np.diff(path)) + 1, count]):
        row = path[start]
        if row != 0:
            # For unrelated lines a shift may beat None by chance, but without evidence for pairs.
            no_pairs = evidence_of_shifts[row, start:stop].sum() <= 0
            runs.append(Misaligned(int(start), int(stop), None if no_pairs else shifts[row]))
    return runs


def learn(source: Lines, target: Lines) -> Model:
    """Learns the evidence of lengths, last marks and numbers from the corpus itself.

    Pairs are taken at the shift at which the features of both sides depend on each other most.
    Otherwise a corpus that is misaligned from its first line would pass for a good one.
    """
    both = (source.length > 0) & (target.length > 0)
    ratio = target.length[both].sum() / max(1, source.length[both].sum())
    deviations = np.abs(deviation(source.length, target.length, ratio))[both]
    # 1.4826 times the median absolute deviation is a normal distribution's standard deviation, and
    # robust: outliers, which are looked for, do not widen it.
    spread = np.median(deviations) * 1.4826 if both.any() else 0.0
    model = Model(float(ratio), float(spread) + 1e-9, (), 0.0)
    # Unrelated lines are beyond all searched shifts, because nearer lines could be the pairs of a
    # misaligned corpus.
    far = [_counts(model, source, target, sign * (SHIFTS + d)) for sign in (1, -1) for d in (1, 2)]
    unrelated = [_smoothed(np.mean(counts, 0)) for counts in zip(*far, strict=True)]
    candidates = []
    for shift in range(-SHIFTS, SHIFTS + 1):
        related = list(map(_smoothed, _counts(model, source, target, shift)))
        weights = [np.log(p / q) for p, q in zip(related, unrelated, strict=True)]
        # Kullback-Leibler divergence of pairs from unrelated lines; ties go to the smaller shift.
        divergence = sum((p * w).sum() for p, w in zip(related, weights, strict=True))
        candidates.append((divergence, -abs(shift), weights))
    *_, weights = max(candidates, key=lambda x: x[:2])
    expected = sum((q * w).sum() for q, w in zip(unrelated, weights, strict=True))
    return model._replace(weights=weights, unrelated=float(expected))


def evidence(model: Model, source: Lines, target: Lines, shift: int | None) -> np.ndarray:
    """Returns the evidence that source line i and target line i + shift are a pair, [lines].

    The evidence is 0 if one of the lines is blank or does not exist. The shift None, for a line
    without a partner, has half of the evidence expected of unrelated lines: pairs, even unusual
    pairs, are above, unrelated lines below.
    """
    if shift is None:
        return np.full(len(source.length), model.unrelated / 2, np.float32)
    here, source_lines, target_lines = _paired(source, target, shift)
    total = np.zeros(len(source.length), np.float32)
    features = _features(model, source_lines, target_lines)
    for weights, values in zip(model.weights, features, strict=True):
        total[here] += weights[values]
    # `here` is a slice, so the mask writes into total.
    total[here][(source_lines.length == 0) | (target_lines.length == 0)] = 0
    return total


def _likeliest_rows(evidence_of_shifts: np.ndarray, cost: float) -> np.ndarray:
    """Returns for each line, a column, its row in the path with the most evidence in total.

    A path pays `cost` to start in a row or change to a row; row 0 is free (Viterbi 1967).
    """
    costs = np.full(len(evidence_of_shifts), cost)
    costs[0] = 0
    totals = -costs  # of the best path that ends in each row, so far
    # Back pointers: the best row before each line, and whether a path came from it or stayed in its
    # row. uint8 is enough for at most 23 rows.
    best = np.empty(evidence_of_shifts.shape[1], np.uint8)
    is_change = np.empty(evidence_of_shifts.T.shape, bool)
    for line, gains in enumerate(evidence_of_shifts.T):
        best[line] = totals.argmax()
        changed = totals[best[line]] - costs
        is_change[line] = changed >= totals  # ties go to the path with the shorter run
        totals = np.maximum(totals, changed) + gains
    path, row = best.copy(), totals.argmax()
    for line in reversed(range(len(path))):
        path[line] = row
        if is_change[line, row]:  # the path came from the best row of the line before
            row = best[line]
    return path.astype(int)


def _paired(source: Lines, target: Lines, shift: int) -> tuple[slice, Lines, Lines]:
    """Returns the i for which line i + shift exists, source lines i and target lines i + shift."""
    # Of 5 lines and a shift of -2, i is 2, 3 and 4.
    count = len(source.length)
    first = max(0, -shift)
    last = max(first, count - max(0, shift))
    lines = Lines(*(x[first:last] for x in source))
    return slice(first, last), lines, Lines(*(x[first + shift : last + shift] for x in target))


def _features(model: Model, s: Lines, t: Lines) -> list[np.ndarray]:
    """Returns the bin of lengths, of last marks and of numbers, of each pair of s and t."""
    deviations = deviation(s.length, t.length, model.ratio) / model.spread
    bins = np.clip(np.rint(2 * deviations) + NUM_BINS // 2, 0, NUM_BINS - 1).astype(np.int8)
    # A pair of marks is one index: source mark * NUM_ENDINGS + target mark.
    endings = s.ending * np.uint8(NUM_ENDINGS) + t.ending
    # 0: neither line has numbers, 1: equal ones, 2: only one line has some, 3: different ones.
    one_sided = (s.numbers != 0) != (t.numbers != 0)
    numbers = np.where(s.numbers == t.numbers, s.numbers != 0, np.where(one_sided, 2, 3))
    return [bins, endings, numbers.astype(np.int8)]


def deviation(source: np.ndarray, target: np.ndarray, ratio: float) -> np.ndarray:
    """Returns the deviation of each target's length from the expected length, in standard units.

    Gale and Church (1993), equation 1: the variance is proportional to the length.
    """
    return (target - ratio * source) / np.sqrt((target + ratio * source) / 2 + 1)


def _counts(model: Model, source: Lines, target: Lines, shift: int) -> list[np.ndarray]:
    """Returns how often each value of each feature occurs at a shift."""
    sizes = NUM_BINS, NUM_ENDINGS**2, 4
    _, *lines = _paired(source, target, shift)
    features = _features(model, *lines)
    return [np.bincount(x, minlength=size) for x, size in zip(features, sizes, strict=True)]


def _smoothed(counts: np.ndarray) -> np.ndarray:
    """Returns probabilities with 5 added to each count, so that a new value is not proof."""
    return (counts + 5) / (counts + 5).sum()
