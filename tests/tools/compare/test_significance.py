"""Intervals and p-values: against sacreBLEU's own, by hand, and what they are of equal runs."""

import math

import numpy as np
import pytest
import sacrebleu
from sacrebleu.significance import PairedTest
from scipy import stats
from tools.compare.evaluated_runs import REFERENCES, worse

from transformer.tools.compare import kinds
from transformer.tools.compare.evaluated import Evaluated
from transformer.tools.pages.measures import wilson

LABELS = ["a", "b", "c", "a"] * 50


def runs(reference, *outputs):
    """Runs on one test set, as far as their scores need them."""
    result = {"signature": "nrefs:1|tok:13a"}
    return [Evaluated(None, result, {"reference": reference, "output": x}) for x in outputs]


def test_a_translation_has_sacrebleus_score_interval_and_p_value():
    hypotheses = [worse(REFERENCES, share, seed) for seed, share in enumerate((0.5, 0.45, 0.9))]
    second = worse(REFERENCES, 0.5, 7)
    metrics = {"bleu": sacrebleu.BLEU(), "chrf": sacrebleu.CHRF()}
    named = [(str(i), lines) for i, lines in enumerate(hypotheses)]
    signatures, results = PairedTest(named, metrics, [REFERENCES, second], "bs", n_samples=200)()
    del results["System"]
    evaluated = runs(REFERENCES, *hypotheses)
    for run in evaluated:
        run.sides["reference2"] = second
        run.result["columns"] = {"reference": "first", "reference2": "second"}
    for measure, title in zip(kinds.translations(evaluated, 200).values(), results, strict=True):
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


def translations(first, second):
    lines = [worse(REFERENCES, first), worse(REFERENCES, second)]
    return kinds.translations(runs(REFERENCES, *lines), 200)


def classifications(first, second, seed=0, resamples=200):
    predictions = wrong(first, seed), wrong(second, seed and 99 + seed)
    return kinds.classifications(runs(LABELS, *predictions), resamples)


def texts(first, second):
    draws = np.random.default_rng(0)
    lines = ["x" * int(n) for n in draws.integers(5, 50, 200)]
    nats = np.array([len(line) for line in lines]) * (1.0 + 0.1 * draws.standard_normal(200))
    worse_nats = nats * (1 + (second - first)) + (second != first) * draws.standard_normal(200)
    sides = [{"input": lines, "measure": [str(x) for x in y]} for y in (nats, worse_nats)]
    return kinds.texts([Evaluated(None, {}, x) for x in sides], 200)


@pytest.mark.parametrize("kind", [translations, classifications, texts])
def test_equal_runs_do_not_differ_and_clearly_better_ones_do(kind):
    for measure in kind(0.4, 0.4).values():
        assert [score.p for score in measure.scores] == [1.0, 1.0]
        assert measure.scores[0] == measure.scores[1]
        _, low, high = measure.scores[0].interval
        assert low < high
    different = kind(0.7, 0.1)
    for measure in different.values():
        assert measure.scores[1].p < 0.01
    assert kind(0.7, 0.1) == different  # the same draws each time


def test_chance_is_rarely_taken_for_a_difference():
    """Of runs that are equally good, about a twentieth have p below a twentieth, but not more."""
    compared = [classifications(0.3, 0.3, seed, resamples=100) for seed in range(1, 61)]
    for name in ("accuracy", "macro_f1"):
        seen = sum(measures[name].scores[1].p < 0.05 for measures in compared)
        assert seen <= stats.binom.ppf(0.995, 60, 0.05)


def test_mcnemars_test_by_hand():
    """Of 10 items that only one run has right, the first has 1: 2 (1 + 10) / 2^10."""
    first = np.array([True] + [False] * 9 + [True] * 5 + [False] * 5)
    second = np.array([False] + [True] * 9 + [True] * 5 + [False] * 5)
    assert kinds.mcnemar(first, second) == pytest.approx(22 / 1024)
    assert kinds.mcnemar(second, first) == pytest.approx(22 / 1024)
    assert kinds.mcnemar(second, second) == 1.0


def test_the_scores_of_labels():
    scores = kinds.classifications(runs(LABELS, ["a"] * 200), 100)
    assert scores["accuracy"].scores[0].interval == wilson(100, 200)
    value, low, high = scores["macro_f1"].scores[0].interval
    assert value == pytest.approx((2 / 3) / 3)
    assert low < value < high
    # Almost always right is not better than always: the interval of macro F1 is that of the
    # percentiles, not half their width around it.
    for measure in kinds.classifications(runs(LABELS, ["d", *LABELS[1:]]), 1000).values():
        value, low, high = measure.scores[0].interval
        assert low < value < high <= 1


def test_bits_per_character_by_hand():
    """Of a line and its line break: 2 and 6 characters."""
    nats = [str(x * math.log(2)) for x in (1.0, 3.0)]
    run = Evaluated(None, {}, {"input": ["a", "bcdef"], "measure": nats})
    [score] = kinds.texts([run], 100)["bits_per_character"].scores
    assert (*score.interval, score.p) == pytest.approx((0.5, 0.5, 0.5, 1.0))
