"""Intervals and p-values: against sacreBLEU's own, by hand, and what they are of equal runs."""

import math

import numpy as np
import pytest
import sacrebleu
from helpers.evaluated_runs import REFERENCES, worse
from sacrebleu.significance import PairedTest
from scipy import stats

from transformer.tools.compare import significance
from transformer.tools.pages.measures import wilson

OPTIONS = {"tokenize": "13a", "resamples": 200}
LABELS = ["a", "b", "c", "a"] * 50


def test_a_translation_has_sacrebleus_score_interval_and_p_value():
    hypotheses = [worse(REFERENCES, share, seed) for seed, share in enumerate((0.5, 0.45, 0.9))]
    metrics = {"bleu": sacrebleu.BLEU(), "chrf": sacrebleu.CHRF()}
    named = [(str(i), lines) for i, lines in enumerate(hypotheses)]
    signatures, results = PairedTest(named, metrics, [REFERENCES], "bs", n_samples=200)()
    del results["System"]
    measures = significance.translations(hypotheses, REFERENCES, **OPTIONS)
    for measure, title in zip(measures.values(), results, strict=True):
        assert measure.how == f"sacreBLEU's paired bootstrap, {signatures[title]}"
        for score, expected in zip(measure.scores, results[title], strict=True):
            value, low, high = score.interval
            assert value == expected.score
            assert high - low == pytest.approx(2 * expected.ci, rel=1e-6)
            assert low < value < high
        assert [x.p for x in measure.scores[1:]] == [x.p_value for x in results[title][1:]]
        assert 0.01 < measure.scores[1].p < 0.99


def wrong(share, seed=0):
    draws = np.random.default_rng(seed)
    return [label if draws.random() > share else "d" for label in LABELS]


def of_translations(first, other):
    lines = [worse(REFERENCES, first), worse(REFERENCES, other)]
    return significance.translations(lines, REFERENCES, **OPTIONS)


def of_labels(first, other):
    return significance.classifications([wrong(first), wrong(other)], LABELS, resamples=200)


def of_texts(first, other):
    draws = np.random.default_rng(0)
    lengths = draws.integers(5, 50, 200)
    nats = lengths * (1.0 + 0.1 * draws.standard_normal(200))
    other_nats = nats * (1 + (other - first)) + (other != first) * draws.standard_normal(200)
    return significance.texts([nats, other_nats], lengths, resamples=200)


KINDS = [of_translations, of_labels, of_texts]


@pytest.mark.parametrize("kind", KINDS)
def test_equal_runs_do_not_differ(kind):
    for measure in kind(0.4, 0.4).values():
        assert [score.p for score in measure.scores] == [1.0, 1.0]
        assert measure.scores[0] == measure.scores[1]
        _, low, high = measure.scores[0].interval
        assert low < high


@pytest.mark.parametrize("kind", KINDS)
def test_a_clearly_better_run_is_seen(kind):
    for measure in kind(0.7, 0.1).values():
        assert measure.scores[1].p < 0.01


@pytest.mark.parametrize("kind", KINDS)
def test_a_comparison_is_deterministic(kind):
    assert kind(0.5, 0.4) == kind(0.5, 0.4)


def test_chance_is_rarely_taken_for_a_difference():
    """Of runs that are equally good, about a twentieth have p below a twentieth, but not more."""
    compared = [
        significance.classifications([wrong(0.3, i), wrong(0.3, 99 + i)], LABELS, resamples=100)
        for i in range(60)
    ]
    for name in ("accuracy", "macro_f1"):
        seen = sum(measures[name].scores[1].p < 0.05 for measures in compared)
        assert seen <= stats.binom.ppf(0.995, 60, 0.05)


def test_mcnemars_test_by_hand():
    """Of 10 items that only one run has right, the first has 1: 2 (1 + 10) / 2^10."""
    correct = np.array([True] + [False] * 9 + [True] * 5 + [False] * 5)
    other = np.array([False] + [True] * 9 + [True] * 5 + [False] * 5)
    assert significance.mcnemar(correct, other) == pytest.approx(22 / 1024)
    assert significance.mcnemar(other, correct) == pytest.approx(22 / 1024)
    assert significance.mcnemar(other, other) == 1.0


def test_the_scores_of_labels():
    predictions = ["a"] * 200
    scores = significance.classifications([predictions], LABELS, resamples=100)
    assert scores["accuracy"].scores[0].interval == wilson(100, 200)
    value, low, high = scores["macro_f1"].scores[0].interval
    assert value == pytest.approx((2 / 3) / 3)
    assert low < value < high


def test_a_classifier_that_is_almost_always_right_is_not_better_than_always():
    """The interval of macro F1 is that of the percentiles, not half their width around it."""
    predictions = ["d", *LABELS[1:]]
    measures = significance.classifications([predictions], LABELS, resamples=1000)
    for measure in measures.values():
        value, low, high = measure.scores[0].interval
        assert low < value < high <= 1


def test_bits_per_character_by_hand():
    measure = significance.texts(
        [np.array([1.0, 3.0]) * math.log(2)], np.array([2, 6]), resamples=100
    )["bits_per_character"]
    assert measure.scores == [((0.5, 0.5, 0.5), 1.0)]
