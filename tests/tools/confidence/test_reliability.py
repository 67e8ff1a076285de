"""Probabilities that are learnt agree with true ones; measures agree with their definitions."""

import itertools

import numpy as np

from transformer.tools.confidence import reliability
from transformer.tools.confidence.confidence import logistic


def drawn(count, seed):
    """Features of lines, and which are good: P(good) = logistic(2 x - 1) of the first feature x."""
    random = np.random.default_rng(seed)
    x_NF = random.normal(size=(count, 2)) * (1, 50) + (0, 1000)
    true_N = logistic(2 * x_NF[:, 0] - 1)
    return x_NF, true_N, random.random(count) < true_N


def test_known_probabilities_are_learnt():
    """A feature that says nothing gets no weight, and one on another scale does not disturb."""
    x_NF, _, good_N = drawn(4000, seed=0)
    weights, bias = reliability.fitted(x_NF, good_N)
    np.testing.assert_allclose([weights[0], bias + 1000 * weights[1]], [2, -1], atol=0.2)
    x_NF, true_N, good_N = drawn(4000, seed=1)
    predicted_N = logistic(x_NF @ np.array(weights) + bias)
    assert np.abs(predicted_N - true_N).max() < 0.05
    bins = reliability.bins(predicted_N, good_N)
    assert [count for *_, count in bins] == [400] * 10
    error, by_chance = reliability.error(bins), reliability.error_by_chance(predicted_N)
    assert error < 1.5 * by_chance < 0.03
    # Predictions that are too sure are found out.
    assert reliability.error(reliability.bins(predicted_N**2, good_N)) > 3 * by_chance


def test_no_weight_is_negative_and_all_are_finite():
    """Even where a feature falls with the quality, or divides the lines without fault."""
    x_N = np.arange(100.0)
    weights, bias = reliability.fitted(np.c_[-x_N, x_N], x_N >= 40)
    assert weights[0] == 0
    assert 0 < weights[1] < 10
    assert np.isfinite(bias)
    np.testing.assert_array_equal(logistic(x_N * weights[1] + bias) > 0.5, x_N >= 40)


def test_the_area_under_roc_counts_pairs_and_flags_count_lines():
    random = np.random.default_rng(2)
    scores_N, good_N = random.integers(0, 9, 60) / 9, random.random(60) < 0.5
    pairs = [*itertools.product(scores_N[good_N], scores_N[~good_N])]
    expected = np.mean([(a > b) + (a == b) / 2 for a, b in pairs])
    np.testing.assert_allclose(reliability.auc(scores_N, good_N), expected)
    for threshold, share, precision, recall in reliability.flagged(scores_N, good_N):
        below = [
            bool(good) for score, good in zip(scores_N, good_N, strict=True) if score < threshold
        ]
        assert share == len(below) / 60
        assert precision == below.count(False) / len(below)
        assert recall == below.count(False) / (~good_N).sum()
