"""Learns P(good | features), and measures probabilities on lines that are known to be good or not.

A logistic regression, whose weights are few, because a validation text has few lines.
"""

from collections.abc import Sequence

import numpy as np
import scipy.optimize
import scipy.stats

from transformer.tools.confidence.confidence import logistic

BINS, THRESHOLDS, RESAMPLES = 10, (0.1, 0.3, 0.5, 0.7, 0.9), 200


def fitted(features_NF: np.ndarray, good_N: np.ndarray) -> tuple[list[float], float]:
    """Returns the weights of the features, none negative, and the bias.

    A penalty keeps the weights finite if the features separate good from bad lines perfectly. A
    standard deviation counts as 0.1 or more, because a feature that hardly varies would get a huge
    weight from a few lines.
    """
    mean_F, std_F = features_NF.mean(axis=0), np.maximum(features_NF.std(axis=0), 0.1)
    x_NF = np.c_[(features_NF - mean_F) / std_F, np.ones(len(features_NF))]

    def loss(weights_F: np.ndarray) -> tuple[float, np.ndarray]:
        logits_N = x_NF @ weights_F
        decay_F = weights_F * (np.arange(len(weights_F)) < len(mean_F))
        nats = np.logaddexp(0, logits_N) - good_N * logits_N
        gradient_F = x_NF.T @ (logistic(logits_N) - good_N) + decay_F
        return nats.sum() + decay_F @ weights_F / 2, gradient_F

    bounds = [(0, None)] * len(mean_F) + [(None, None)]
    *weights_F, bias = scipy.optimize.minimize(
        loss, np.zeros(len(bounds)), jac=True, method="L-BFGS-B", bounds=bounds
    ).x
    weights_F = np.array(weights_F) / std_F
    return weights_F.tolist(), float(bias - weights_F @ mean_F)


def bins(predicted_N: np.ndarray, good_N: np.ndarray) -> list[list[float]]:
    """Returns [mean prediction, good lines, lines] of bins of equal size, from low to high."""
    parts = np.array_split(np.argsort(predicted_N, kind="stable"), BINS)
    return [[float(predicted_N[x].mean()), int(good_N[x].sum()), len(x)] for x in parts if len(x)]


def error(bins: Sequence[Sequence[float]]) -> float:
    """Returns the expected calibration error, the mean |share of good lines - prediction|."""
    return sum(abs(good - mean * count) for mean, good, count in bins) / sum(x[2] for x in bins)


def error_by_chance(predicted_N: np.ndarray) -> float:
    """Returns the mean error of lines that are good with just these probabilities."""
    draws = np.random.default_rng(0).random((RESAMPLES, len(predicted_N))) < predicted_N
    return float(np.mean([error(bins(predicted_N, good_N)) for good_N in draws]))


def auc(scores_N: np.ndarray, good_N: np.ndarray) -> float:
    """Returns the area under ROC: how often a good line has a higher score than one that is not."""
    # U counts the pairs of a good and another line in which the good one is higher; a tie is half.
    pairs = scipy.stats.mannwhitneyu(scores_N[good_N], scores_N[~good_N]).statistic
    return float(pairs / (good_N.sum() * (~good_N).sum()))


def flagged(predicted_N: np.ndarray, good_N: np.ndarray) -> list[list[float]]:
    """Returns [threshold, share flagged, precision (1 for none), recall] of each threshold."""
    rows = []
    for threshold in THRESHOLDS:
        below_N = predicted_N < threshold
        below, bad = int(below_N.sum()), int((below_N & ~good_N).sum())
        recall = bad / int((~good_N).sum())
        rows.append([threshold, below / len(good_N), bad / below if below else 1.0, recall])
    return rows
