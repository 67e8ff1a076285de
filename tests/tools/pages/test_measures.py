"""Scores in words, and their intervals against a loop and a formula."""

import numpy as np
import pytest
from sacrebleu.metrics import BLEU, CHRF

from transformer.tools.pages import measures

REFERENCES = [" ".join(f"w{i + j}" for j in range(3 + i % 9)) for i in range(60)]


def test_scores_are_said_in_order():
    line = {"step": 3, "loss": 1.0, "odd": 0.5, "nats_per_token": 2.0, "chrf": 60.123, "bleu": 37.0}
    assert measures.in_words(line) == "BLEU 37.00, chrF 60.12, loss 1.0000, odd 0.5000"
    assert measures.in_words(line, "odd").startswith("odd 0.5000, BLEU 37.00")
    assert measures.in_words(line, "nats_per_token").startswith("BLEU 37.00")  # it is not shown
    interval = measures.Interval(98.86, 97.5, 100.0)
    assert measures.in_words({"bleu": interval}) == "BLEU 98.86\u00a0[97.50,\u00a0100.00]"
    assert measures.in_words({"ter": 53.9, "ter_ci": 1.4}) == "TER 53.90\u00a0±\u00a01.40"
    titles = {"chrf": "chrF", "macro_f1": "macro F1", "loss": "Loss", "odd_one": "Odd one"}
    assert {key: measures.title(key) for key in titles} == titles


@pytest.mark.parametrize("metric", [BLEU(), CHRF()])
def test_the_interval_of_an_almost_perfect_translation_ends_at_100(metric):
    """Half its width, as sacreBLEU returns it, would go beyond."""
    score, low, high = measures.bootstrap(metric, [*REFERENCES[:-1], "x"], [REFERENCES])
    assert low < score < high == pytest.approx(100)
    half = metric.corpus_score([*REFERENCES[:-1], "x"], [REFERENCES], n_bootstrap=1000)._ci
    assert score + half > 100
    assert high - low == pytest.approx(2 * half)


@pytest.mark.parametrize(("right", "count"), [(5, 10), (198, 200), (0, 20), (5, 5)])
def test_wilsons_bounds_are_1_96_deviations_from_the_share(right, count):
    """Each bound is a p with |share - p| = z sqrt(p (1 - p) / count), z = 1.95996."""
    share, *bounds = measures.wilson(right, count)
    assert share == right / count
    for p in bounds:
        assert 0 <= p <= 1
        assert abs(share - p) == pytest.approx(1.959964 * np.sqrt(p * (1 - p) / count), abs=1e-7)
