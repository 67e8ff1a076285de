"""A file that is shifted at line N is found to be shifted at about N."""

import random

import numpy as np
import pytest
from tools.audit import parallel

from transformer.tools.audit import alignment


def misaligned(source, target, difference=0):
    sides = parallel.scanned(list(zip(source, target, strict=True)))
    model = alignment.learn(*sides)
    return alignment.find(*sides, model, difference)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("shift", [1, -1, 2, -5, 10])
def test_a_shift_is_found_where_it_begins(seed, shift):
    """`shift` lines are put into the target, or into the source, before line `start`."""
    pairs, extra = parallel.pairs(1000, seed), parallel.pairs(10, seed + 100)
    start = random.Random(seed).randrange(50, 930)
    sides = [[pair[side] for pair in pairs] for side in (0, 1)]
    inserted = 1 if shift > 0 else 0
    sides[inserted][start:start] = [pair[inserted] for pair in extra[: abs(shift)]]
    [run] = misaligned(*(side[:1000] for side in sides))
    assert run.shift == shift
    assert abs(run.start - start) <= max(6, abs(shift))
    assert run.stop > 990


@pytest.mark.parametrize("seed", range(4))
def test_aligned_text_is_not_misaligned(seed):
    assert misaligned(*zip(*parallel.pairs(3000, seed), strict=True)) == []


def test_text_of_equal_lines_is_not_misaligned():
    """Where neighbours look alike there is no evidence, for a shift or against it."""
    assert misaligned(["a b c."] * 500, ["d e f."] * 500) == []


@pytest.mark.parametrize("seed", range(3))
def test_text_sorted_by_length_is_not_misaligned(seed):
    pairs = sorted(parallel.pairs(3000, seed), key=lambda pair: len(pair[0]))
    assert misaligned(*zip(*pairs, strict=True)) == []


def test_two_shifts_are_found():
    """One line more in the target from 200 on, and two from 400 on, which gain more."""
    pairs, extra = parallel.pairs(1000), parallel.pairs(2, 7)
    target = [pair[1] for pair in pairs]
    for start, (_, line) in zip((400, 200), extra, strict=True):
        target.insert(start, line)
    first, second = misaligned([pair[0] for pair in pairs], target[:1000])
    assert (first.shift, second.shift) == (1, 2)
    assert abs(first.start - 200) <= 6
    assert first.stop == second.start
    assert abs(first.stop - 400) <= 6
    assert second.stop > 990


def test_a_shift_that_ends_and_another_after_it():
    """A line more from 200 on and one less at 500; a line less from 700 on."""
    pairs = parallel.pairs(1001)
    target = [pair[1] for pair in pairs]
    target[200:500] = target[199:499]
    target[700:] = target[701:]
    found = misaligned([pair[0] for pair in pairs[:1000]], target[:1000])
    assert [run.shift for run in found] == [1, -1]
    for run, ends in zip(found, ((200, 500), (700, 1000)), strict=True):
        assert abs(run.start - ends[0]) <= 6
        assert abs(run.stop - ends[1]) <= 6


@pytest.mark.parametrize("seed", range(3))
def test_lines_in_another_order_are_no_shift(seed):
    pairs = parallel.pairs(3000, seed)
    source, target = ([pair[side] for pair in pairs] for side in (0, 1))
    shuffled = target[1000:1040]
    random.Random(seed).shuffle(shuffled)
    [run] = misaligned(source, [*target[:1000], *shuffled, *target[1040:]])
    assert run.shift is None
    assert abs(run.start - 1000) <= 6
    assert abs(run.stop - 1040) <= 6


def test_a_shift_by_more_lines_than_are_searched_is_no_shift():
    pairs = parallel.pairs(1012)
    target = [*[pair[1] for pair in pairs[:500]], *[pair[1] for pair in pairs[512:]]]
    [run] = misaligned([pair[0] for pair in pairs[:1000]], target)
    assert run.shift is None
    assert abs(run.start - 500) <= 6
    assert run.stop > 980


@pytest.mark.parametrize("first", [0, 1])
def test_a_block_of_another_kind_of_pairs_is_not_misaligned(first):
    """Its targets are twice as long, and half of them have no mark at the end."""
    kinds = (
        parallel.pairs(2000),
        [
            [a, f"{b.rstrip('.!?')} {b if len(a) % 2 else b.rstrip('.!?')}"]
            for a, b in parallel.pairs(600, 3)
        ],
    )
    pairs = kinds[0][:1000] + kinds[1] + kinds[0][1000:] if first == 0 else kinds[1] + kinds[0]
    assert misaligned(*zip(*pairs, strict=True)) == []


def test_a_file_that_is_shifted_from_the_start():
    pairs = parallel.pairs(1001)
    [run] = misaligned([pair[0] for pair in pairs[1:]], [pair[1] for pair in pairs[:-1]])
    assert run.shift == 1
    assert run.start <= 3


def test_as_many_lines_as_one_side_lacks_may_be_the_shift():
    pairs = parallel.pairs(1000)
    source, target = ([pair[side] for pair in pairs] for side in (0, 1))
    del target[300:360]
    target += [""] * 60
    [run] = misaligned(source, target, -60)
    assert run.shift == -60
    assert 294 <= run.start <= 366  # from line 300 on the target is gone, from 360 on it is shifted


@pytest.mark.parametrize("count", [1, 2, 5])
def test_few_lines(count):
    assert misaligned(*zip(*parallel.pairs(count), strict=True)) == []


def test_evidence_of_pairs_is_positive_and_of_neighbours_negative():
    """Relative entropies are not negative: log p/q has a mean of D(p|q) in pairs."""
    sides = parallel.scanned(parallel.pairs(2000))
    model = alignment.learn(*sides)
    assert alignment.evidence(model, *sides, 0).mean() > 0.5
    for shift in (1, -2):
        assert alignment.evidence(model, *sides, shift).mean() < -0.5


def test_deviation_is_that_of_gale_and_church():
    """100 and 130 characters at a ratio of 1.1: 20 more than expected, over the root of 121."""
    value = alignment.deviation(np.array([100]), np.array([130]), 1.1)
    np.testing.assert_allclose(value, 20 / np.sqrt(121))
