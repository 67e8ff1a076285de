"""Pairs are packed into rows that are well filled, or sorted into few lengths; rows are cached."""

import numpy as np
from helpers.corpora import LENGTH, Source

from transformer.data import packing


def test_static_lengths_double_up_to_the_longest():
    assert packing.static_lengths(64, 20) == [8, 16, 32, 64]
    assert packing.static_lengths(64, 65) == [8, 16, 32, 64, 128]
    assert packing.static_lengths(64, 1000) == [8, 16, 32, 64, 128, 256, 512, 1024]
    assert packing.static_lengths(24, 24) == [3, 6, 12, 24]
    assert packing.static_lengths(1, 1) == [1]


def test_packing_is_cached_by_all_it_depends_on(tokenised, monkeypatch):
    tokens = tokenised(Source(0))
    pairs = packing.select_trainable(tokens.lengths, LENGTH)
    given = [(pairs, LENGTH, 0), (pairs, LENGTH, 1), (pairs, LENGTH + 1, 0), (pairs[1:], LENGTH, 0)]
    first = [packing.pack(tokens.lengths, *x, tokens.directory) for x in given]
    monkeypatch.setattr(packing, "best_fit", None)
    again = [packing.pack(tokens.lengths, *x, tokens.directory) for x in given]
    for old, new in zip(first, again, strict=True):
        np.testing.assert_array_equal(np.concatenate(old[1:]), np.concatenate(new[1:]))
    assert len(list(tokens.directory.glob("packed-*"))) == 4
    assert not list(tokens.directory.glob("*draft*"))


def wmt_lengths(count):
    """Lengths like those of WMT's pairs: 26 and 27 on average, deviation 12, correlation 0.8."""
    draws = np.random.default_rng(0)
    length = draws.gamma(6.0, 4.43, count)
    sides = [length * draws.lognormal(-0.02, 0.18, count) * mean for mean in (1.0, 1.03)]
    return [np.clip(side, 2, 128).astype(np.int64) for side in sides]


def test_rows_are_full_of_unlike_lengths_at_those_of_wmt():
    lengths = wmt_lengths(50_000)
    means, deviations = np.mean(lengths, axis=1), np.std(lengths, axis=1)
    np.testing.assert_allclose(means, (26, 27), atol=0.5)
    np.testing.assert_allclose(deviations, (12, 12.5), atol=0.5)
    rows = packing.best_fit(lengths, 128, seed=0)
    positions = 128 * (rows.max() + 1)
    source, target = (side.sum() / positions for side in lengths)
    assert source > 0.955
    assert target > 0.985
    for side in lengths:
        # The correlation of the lengths of two items of a row, over all such twos.
        z = (side - side.mean()) / side.std()
        counts, sums, squares = (np.bincount(rows, x) for x in (np.ones(len(z)), z, z * z))
        correlation = (sums**2 - squares).sum() / (counts * (counts - 1)).sum()
        assert abs(correlation) < 0.1  # 1.0 if items are sorted by length first


def test_best_fit_is_a_function_of_lengths_and_seed_that_overfills_no_row():
    lengths = wmt_lengths(3000)
    rows = packing.best_fit(lengths, 128, seed=3)
    assert set(rows) == set(range(rows.max() + 1))
    assert max(np.bincount(rows, side).max() for side in lengths) <= 128
    np.testing.assert_array_equal(rows, packing.best_fit(lengths, 128, seed=3))
    assert (rows != packing.best_fit(lengths, 128, seed=4)).any()


def test_the_worked_example_of_best_fit():
    order = np.random.default_rng(7).permutation(4)
    source, target, expected = np.zeros((3, 4), np.int64)
    source[order], target[order], expected[order] = (5, 6, 2, 4), (4, 5, 3, 6), (0, 1, 1, 0)
    np.testing.assert_array_equal(packing.best_fit((source, target), 10, seed=7), expected)


def test_one_side_is_packed_as_well():
    lengths = np.random.default_rng(0).integers(1, 30, 5000)
    rows = packing.best_fit((lengths,), 64, seed=0)
    assert np.bincount(rows, lengths).max() == 64
    assert lengths.sum() / (64 * (rows.max() + 1)) > 0.99
