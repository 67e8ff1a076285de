"""A file that is shifted at line N is found to be shifted at about N."""

import random

import numpy as np
import pytest
from tools.audit import parallel

from transformer.tools.audit import alignment

COUNT = 1000


def misaligned(source, target, difference=0):
    sides = parallel.scanned(list(zip(source, target, strict=True)))
    return alignment.find(*sides, alignment.learn(*sides), difference)


def two_sides(count=COUNT, seed=0):
    return [list(side) for side in zip(*parallel.pairs(count, seed), strict=True)]


def assert_runs(found, expected):
    """Runs are as expected; their ends to a few lines."""
    assert [run.shift for run in found] == [shift for *_, shift in expected]
    for run, (start, stop, shift) in zip(found, expected, strict=True):
        assert abs(run.start - start) <= max(6, abs(shift or 0))
        assert abs(run.stop - stop) <= (20 if stop == COUNT else 6)


@pytest.mark.parametrize(("shift", "seed"), [(1, 0), (-1, 1), (2, 2), (-5, 0), (10, 1)])
def test_a_shift_is_found_where_it_begins(shift, seed):
    """`shift` lines are put into the target, or into the source, before line `start`."""
    sides, extra = two_sides(seed=seed), two_sides(10, seed + 100)
    start = random.Random(seed).randrange(50, 930)
    inserted = 1 if shift > 0 else 0
    sides[inserted][start:start] = extra[inserted][: abs(shift)]
    assert_runs(misaligned(*(side[:COUNT] for side in sides)), [(start, COUNT, shift)])


# {name: (lines of the target in another order, as ranges, and the runs to find)}
ORDERS = {
    "two shifts, of which the second gains more": (
        [range(200), [1001], range(200, 400), [1002], range(400, 998)],
        [(200, 401, 1), (401, COUNT, 2)],
    ),
    "a shift that ends, and another after it": (
        [range(200), range(199, 499), range(500, 700), range(701, 1001)],
        [(200, 500, 1), (700, COUNT, -1)],
    ),
    "by more lines than are searched": ([range(500), range(512, 1012)], [(500, COUNT, None)]),
    "from the start": ([[1001], range(999)], [(0, COUNT, 1)]),
    "shuffled": (
        [range(1000), random.Random(1).sample(range(1000, 1040), 40), range(1040, 3000)],
        [(1000, 1040, None)],
    ),
}


@pytest.mark.parametrize(("order", "runs"), ORDERS.values(), ids=ORDERS)
def test_runs_are_found(order, runs):
    lines = [line for part in order for line in part]
    source, target = two_sides(max(1012, len(lines)))
    assert_runs(misaligned(source[: len(lines)], [target[line] for line in lines]), runs)


def test_as_many_lines_as_one_side_lacks_may_be_the_shift():
    source, target = two_sides()
    del target[300:360]
    [run] = misaligned(source, target + [""] * 60, -60)
    assert run.shift == -60
    assert 294 <= run.start <= 366  # from line 300 on the target is gone, from 360 on it is shifted


def other_kind(pairs):
    """Targets twice as long, of which half have no mark at the end."""
    for source, target in pairs:
        bare = target.rstrip(".!?")
        yield [source, f"{bare} {target if len(source) % 2 else bare}"]


# Where neighbours look alike there is no evidence, for a shift or against it.
ALIGNED = {
    **{f"{count} pairs": parallel.pairs(count, count) for count in (1, 2, 5, 2999, 3000)},
    "equal lines": [["a b c.", "d e f."]] * 500,
    "sorted by length": sorted(parallel.pairs(3000), key=lambda pair: len(pair[0])),
    "another kind of pairs in the middle": [
        *parallel.pairs(1000),
        *other_kind(parallel.pairs(600, 3)),
        *parallel.pairs(1000, 4),
    ],
    "another kind of pairs at the start": [
        *other_kind(parallel.pairs(600, 3)),
        *parallel.pairs(2000),
    ],
}


@pytest.mark.parametrize("pairs", ALIGNED.values(), ids=ALIGNED)
def test_aligned_text_is_not_misaligned(pairs):
    assert misaligned(*zip(*pairs, strict=True)) == []


def test_deviation_is_that_of_gale_and_church():
    """100 and 130 characters at a ratio of 1.1: 20 more than expected, over the root of 121."""
    value = alignment.deviation(np.array([100]), np.array([130]), 1.1)
    np.testing.assert_allclose(value, 20 / np.sqrt(121))
