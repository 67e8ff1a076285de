"""Runs of misaligned lines, in which line i of one side goes with line i + d of the other, or none.

How well two lines go together is judged by three features: their lengths, as Gale and Church (1993)
align sentences by them; the marks that they end with; and their numbers. The evidence of a feature
is log P(feature | a pair of the corpus) - log P(feature | lines that are near each other, but no
pair), both counted in the corpus itself: where neighbouring lines look alike, as in a corpus sorted
by length, it is about zero and nothing is claimed. A shift d is then searched by CUSUM (Page 1954):
the sum of evidence(i, i + d) - evidence(i, i) over a run of lines exceeds a threshold only if the
run is misaligned. As a sum of log likelihood ratios it exceeds h in n lines of good pairs with a
probability of about n exp(-h).
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from transformer.tools.audit.line_measures import ENDINGS, Lines

SHIFTS = 10  # lines that one side may be shifted by
# Nats, besides log(lines x shifts): features of neighbouring pairs are not quite independent.
THRESHOLD = 30.0
NUM_BINS, NUM_ENDINGS = 17, 1 + max(ENDINGS.values())


class Misaligned(NamedTuple):
    """Holds a run of source lines, [start, stop) from 0, and where their target lines are.

    (2, 5, 1): the source lines 2, 3, 4 belong to the target lines 3, 4, 5. With `shift` None they
    belong to no target line nearby.
    """

    start: int
    stop: int
    shift: int | None


class Model(NamedTuple):
    """Holds how much each value of each feature says that two lines are a pair, in nats."""

    ratio: float  # target characters per source character
    spread: float  # of the deviation of a pair's lengths
    weights: Sequence[np.ndarray]  # of each feature
    unrelated: float  # the expected evidence of lines that are not a pair, at most 0


def find(source: Lines, target: Lines, model: Model, difference: int = 0) -> list[Misaligned]:
    """Returns the runs of misaligned lines, sorted.

    `difference` is the number of target lines minus that of source lines; a shift by so many lines
    is searched as well.
    """
    shifts = {*range(-SHIFTS, SHIFTS + 1), difference} - {0}
    misaligned, ranges = [], [(0, len(source.length))]
    while ranges:
        first, last = ranges.pop()
        part = Lines(*(x[first:last] for x in source)), Lines(*(x[first:last] for x in target))
        if run := _likeliest(model, *part, sorted(d for d in shifts if abs(d) < last - first)):
            start, stop = first + run.start, first + run.stop
            misaligned.append(Misaligned(start, stop, run.shift))
            ranges += [(first, start), (stop, last)]  # search on both sides of the run
    return sorted(misaligned)


def learn(source: Lines, target: Lines) -> Model:
    """Learns the evidence of lengths, last marks and numbers from the corpus itself.

    Pairs are taken at the shift at which the features of both sides depend on each other most, so
    that a corpus that is misaligned from the start does not pass for a good one.
    """
    both = (source.length > 0) & (target.length > 0)
    ratio = target.length[both].sum() / max(1, source.length[both].sum())
    deviations = np.abs(deviation(source.length, target.length, ratio))
    model = Model(float(ratio), float(np.median(deviations[both]) * 1.4826 + 1e-9), (), 0.0)
    # Beyond all shifts that are searched: nearer lines could be pairs of a misaligned corpus.
    far = [_counts(model, source, target, sign * (SHIFTS + d)) for sign in (1, -1) for d in (1, 2)]
    unrelated = [_smoothed(np.mean(counts, 0)) for counts in zip(*far, strict=True)]
    candidates = []
    for shift in range(-SHIFTS, SHIFTS + 1):
        related = list(map(_smoothed, _counts(model, source, target, shift)))
        weights = [np.log(p / q) for p, q in zip(related, unrelated, strict=True)]
        divergence = sum((p * w).sum() for p, w in zip(related, weights, strict=True))
        candidates.append((divergence, -abs(shift), weights))
    *_, weights = max(candidates, key=lambda x: x[:2])
    expected = sum((q * w).sum() for q, w in zip(unrelated, weights, strict=True))
    return model._replace(weights=weights, unrelated=float(expected))


def evidence(model: Model, source: Lines, target: Lines, shift: int | None) -> np.ndarray:
    """Returns the evidence that source line i and target line i + shift are a pair, [lines].

    It is 0 if one of the lines is blank or does not exist. `shift` None, a line without a partner,
    has half of the evidence expected of unrelated lines: pairs, even unusual ones, lie above it,
    and unrelated lines below.
    """
    if shift is None:
        return np.full(len(source.length), model.unrelated / 2, np.float32)
    first, last = _range(len(source.length), shift)
    total = np.zeros(len(source.length), np.float32)
    for weights, values in zip(model.weights, _features(model, source, target, shift), strict=True):
        total[first:last] += weights[values].astype(np.float32)
    blank = (source.length[first:last] == 0) | (target.length[first + shift : last + shift] == 0)
    total[first:last][blank] = 0
    return total


def _likeliest(
    model: Model, source: Lines, target: Lines, shifts: Sequence[int]
) -> Misaligned | None:
    """Returns the run of lines that gains most by a shift, or None if below the threshold."""
    threshold = THRESHOLD + np.log(max(1, len(source.length) * len(shifts)))

    def best(shift: int | None, start: int, stop: int | None) -> tuple:
        """Returns (gain, start, stop, other shift) of the run that gains most over `shift`."""
        here = evidence(model, source, target, shift)[start:stop]
        runs = (
            (*_run(evidence(model, source, target, other)[start:stop] - here), other)
            for other in (0, None, *shifts)
        )
        return max(runs, key=lambda run: run[0])

    gain, start, stop, shift = best(0, 0, None)
    if gain < threshold:
        return None
    while (part := best(shift, start, stop))[0] >= threshold:
        # Part of the run fits yet another shift: cut it out, and keep the longer of the two rests.
        before, after = start + part[1], start + part[2]
        start, stop = (start, before) if before - start > stop - after else (after, stop)
    if evidence(model, source, target, shift)[start:stop].sum() <= 0:
        shift = None  # no pairs at this shift either, but by chance more of them than at none
    return Misaligned(start, stop, shift)


def _run(gains: np.ndarray) -> tuple[float, int, int]:
    """Returns (gain, start, stop) of the run of lines that gains most."""
    # CUSUM: gains -1 2 3 -4 have sums 0 -1 1 4 0; the largest rise gives (5, 1, 3).
    sums = np.concatenate([[0.0], np.cumsum(gains, dtype=np.float64)])
    excess = sums - np.minimum.accumulate(sums)
    end = int(excess.argmax())
    start = end - int(sums[: end + 1][::-1].argmin())  # the last minimum before it
    return float(excess[end]), start, end


def _range(count: int, shift: int) -> tuple[int, int]:
    """Returns the range of i for which line i + shift exists, of `count`: 5, -2 gives (2, 5)."""
    first = max(0, -shift)
    return first, max(first, count - max(0, shift))


def _features(model: Model, source: Lines, target: Lines, shift: int) -> list[np.ndarray]:
    """Returns the bin of lengths, of last marks and of numbers, of each pair (i, i + shift)."""
    first, last = _range(len(source.length), shift)
    s = Lines(*(x[first:last] for x in source))
    t = Lines(*(x[first + shift : last + shift] for x in target))
    deviations = deviation(s.length, t.length, model.ratio) / model.spread
    bins = np.clip(np.rint(2 * deviations) + NUM_BINS // 2, 0, NUM_BINS - 1).astype(np.int8)
    # A pair of marks is one index: source mark * NUM_ENDINGS + target mark.
    endings = s.ending * np.uint8(NUM_ENDINGS) + t.ending
    # 0: neither line has numbers, 1: equal ones, 2: only one line has some, 3: different ones.
    one_sided = (s.numbers != 0) != (t.numbers != 0)
    numbers = np.where(s.numbers == t.numbers, s.numbers != 0, np.where(one_sided, 2, 3))
    return [bins, endings, numbers.astype(np.int8)]


def deviation(source: np.ndarray, target: np.ndarray, ratio: float) -> np.ndarray:
    """Returns how far each target's length is from the expected one, in standard units.

    Gale and Church (1993), equation 1: the variance is proportional to the length.
    """
    return (target - ratio * source) / np.sqrt((target + ratio * source) / 2 + 1)


def _counts(model: Model, source: Lines, target: Lines, shift: int) -> list[np.ndarray]:
    sizes = NUM_BINS, NUM_ENDINGS**2, 4
    features = _features(model, source, target, shift)
    return [np.bincount(x, minlength=size) for x, size in zip(features, sizes, strict=True)]


def _smoothed(counts: np.ndarray) -> np.ndarray:
    """Returns probabilities with 5 added to each count: a value never seen is not proof."""
    return (counts + 5) / (counts + 5).sum()
