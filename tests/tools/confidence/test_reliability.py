"""Probabilities that are learnt agree with true ones; measures agree with their definitions."""

import itertools

import numpy as np

from transformer.tools.confidence import reliability
from transformer.tools.confidence.confidence import logistic


def test_known_probabilities_are_learnt():
    """P(good) = logistic(2 x - 1); further features say nothing, or fall with the quality."""
    random = np.random.default_rng(0)
    x_NF = random.normal(size=(8000, 3)) * (1, 50, 1) + (0, 1000, 0)
    x_NF[:, 2] -= x_NF[:, 0]
    true_N = logistic(2 * x_NF[:, 0] - 1)
    good_N = random.random(8000) < true_N
    weights, bias = reliability.fitted(x_NF[:4000], good_N[:4000])
    assert min(weights) >= 0
    predicted_N = logistic(x_NF @ np.array(weights) + bias)[4000:]
    assert np.abs(predicted_N - true_N[4000:]).max() < 0.05
    bins = reliability.bins(predicted_N, good_N[4000:])
    assert [count for *_, count in bins] == [400] * 10
    by_chance = reliability.error_by_chance(predicted_N)
    assert reliability.error(bins) < 1.5 * by_chance < 0.03
    # Predictions that are too low are found out.
    assert reliability.error(reliability.bins(predicted_N**2, good_N[4000:])) > 3 * by_chance
    # Lines that a feature divides without fault have finite weights.
    assert np.isfinite(reliability.fitted(x_NF[:, :1], x_NF[:, 0] > 0)[0])
    # Two lines do not decide for all that have their value of a feature.
    rare_N = np.arange(8000) < 2
    weights, _ = reliability.fitted(np.c_[x_NF[:, 0], ~rare_N], good_N & ~rare_N)
    assert weights[1] < 20


def test_the_area_under_roc_counts_pairs_and_flags_count_lines():
    random = np.random.default_rng(2)
    scores_N, good_N = random.integers(0, 9, 60) / 9, random.random(60) < 0.5
    pairs = [*itertools.product(scores_N[good_N], scores_N[~good_N])]
    expected = np.mean([(a > b) + (a == b) / 2 for a, b in pairs])
    np.testing.assert_allclose(reliability.auc(scores_N, good_N), expected)
    for threshold, *found in reliability.flagged(scores_N, good_N):
        below = good_N[scores_N < threshold].tolist()
        bad = below.count(False)
        assert found == [len(below) / 60, bad / len(below), bad / (~good_N).sum()]
