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
    """Source lines `start` to `stop`, counted from 0 and without `stop`, go with target lines that
    are `shift` lines later, or, where that is None, with none of those near them."""

    start: int
    stop: int
    shift: int | None


class Model(NamedTuple):
    """The evidence of each value of each feature that two lines are a pair, in nats."""

    ratio: float  # characters of the target for one of the source
    spread: float  # of the deviation of a pair's lengths
    weights: Sequence[np.ndarray]  # of each feature
    unrelated: float  # the expected evidence of lines that are no pair, at most 0


def find(source: Lines, target: Lines, model: Model, difference: int = 0) -> list[Misaligned]:
    """Returns the runs of misaligned lines, in their order.

    `difference` is how many lines the target has more than the source; a shift by that many lines
    is searched, too.
    """
    shifts = {*range(-SHIFTS, SHIFTS + 1), difference} - {0}
    found, ranges = [], [(0, len(source.length))]
    while ranges:
        first, last = ranges.pop()
        part = Lines(*(x[first:last] for x in source)), Lines(*(x[first:last] for x in target))
        if run := _likeliest(model, *part, sorted(d for d in shifts if abs(d) < last - first)):
            start, stop = first + run.start, first + run.stop
            found.append(Misaligned(start, stop, run.shift))
            ranges += [(first, start), (stop, last)]  # there may be others, beside it
    return sorted(found)


def learn(source: Lines, target: Lines) -> Model:
    """Learns the evidence of lengths, last marks and numbers from the corpus itself.

    Pairs are taken at the shift at which the features of both sides depend on each other most, so
    that a corpus that is misaligned from the start does not pass for a good one.
    """
    both = (source.length > 0) & (target.length > 0)
    ratio = target.length[both].sum() / max(1, source.length[both].sum())
    deviations = np.abs(deviation(source.length, target.length, ratio))
    model = Model(float(ratio), float(np.median(deviations[both]) * 1.4826 + 1e-9), (), 0.0)
    # Nearer than any that is searched would be wrong: some of these may be pairs.
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

    It is 0 where one of them is blank or does not exist. None stands for lines that go with none:
    pairs have more than half of the evidence that is expected of unrelated lines, even pairs of
    another kind than most, and unrelated lines have less.
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
    """Returns the run of lines that gains most by one of the shifts, or None if none gains much."""
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
        # It goes with lines at another shift; the longer rest, before or after it, is kept.
        before, after = start + part[1], start + part[2]
        start, stop = (start, before) if before - start > stop - after else (after, stop)
    if evidence(model, source, target, shift)[start:stop].sum() <= 0:
        shift = None  # no pairs at this shift either, but by chance more of them than at none
    return Misaligned(start, stop, shift)


def _run(gains: np.ndarray) -> tuple[float, int, int]:
    """Returns (gain, start, stop) of the run of lines that gains most."""
    sums = np.concatenate([[0.0], np.cumsum(gains, dtype=np.float64)])
    excess = sums - np.minimum.accumulate(sums)
    end = int(excess.argmax())
    start = end - int(sums[: end + 1][::-1].argmin())  # the last minimum before it
    return float(excess[end]), start, end


def _range(count: int, shift: int) -> tuple[int, int]:
    """Returns the range of source lines i of `count` with a line i + shift: 5, -2 gives 2, 5."""
    first = max(0, -shift)
    return first, max(first, count - max(0, shift))


def _features(model: Model, source: Lines, target: Lines, shift: int) -> list[np.ndarray]:
    """Returns a number for each feature of the pairs (i, i + shift)."""
    first, last = _range(len(source.length), shift)
    s = Lines(*(x[first:last] for x in source))
    t = Lines(*(x[first + shift : last + shift] for x in target))
    deviations = deviation(s.length, t.length, model.ratio) / model.spread
    bins = np.clip(np.rint(2 * deviations) + NUM_BINS // 2, 0, NUM_BINS - 1).astype(np.int8)
    endings = s.ending * np.uint8(NUM_ENDINGS) + t.ending
    one = (s.numbers != 0) != (t.numbers != 0)
    numbers = np.where(s.numbers == t.numbers, s.numbers != 0, np.where(one, 2, 3)).astype(np.int8)
    return [bins, endings, numbers]


def deviation(source: np.ndarray, target: np.ndarray, ratio: float) -> np.ndarray:
    """Returns how much longer each target is than expected, in units of the root of its length.

    Gale and Church (1993), equation 1: the variance grows in proportion to the length.
    """
    return (target - ratio * source) / np.sqrt((target + ratio * source) / 2 + 1)


def _counts(model: Model, source: Lines, target: Lines, shift: int) -> list[np.ndarray]:
    sizes = NUM_BINS, NUM_ENDINGS**2, 4
    features = _features(model, source, target, shift)
    return [np.bincount(x, minlength=size) for x, size in zip(features, sizes, strict=True)]


def _smoothed(counts: np.ndarray) -> np.ndarray:
    """Returns probabilities; a value that was never seen is no proof."""
    return (counts + 5) / (counts + 5).sum()
