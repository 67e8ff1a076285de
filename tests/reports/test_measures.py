"""Scores in words, and their intervals against a loop and a formula."""

import numpy as np
import pytest
from sacrebleu.metrics import BLEU, CHRF

from transformer.reports import measures

REFERENCES = [" ".join(f"w{i + j}" for j in range(3 + i % 9)) for i in range(60)]
HYPOTHESES = [line.replace("w1", "x") for line in REFERENCES]


def test_scores_are_said_in_order():
    line = {"step": 3, "loss": 1.0, "odd": 0.5, "nats_per_token": 2.0, "chrf": 60.123, "bleu": 37.0}
    assert measures.in_words(line) == "BLEU 37.00, chrF 60.12, loss 1.0000, odd 0.5000"
    assert measures.spelt("length_ratio") == "length ratio"


@pytest.mark.parametrize("metric", [BLEU(), CHRF()])
def test_the_interval_is_that_of_resampled_sentences(metric):
    score, half = measures.bootstrap(metric, HYPOTHESES, REFERENCES)
    assert score == pytest.approx(metric.corpus_score(HYPOTHESES, [REFERENCES]).score)
    random = np.random.default_rng(0)
    resampled = []
    for _ in range(300):
        chosen = random.integers(0, 60, 60)
        sides = ([side[i] for i in chosen] for side in (HYPOTHESES, REFERENCES))
        hypotheses, references = sides
        resampled.append(metric.corpus_score(hypotheses, [references]).score)
    low, high = np.quantile(resampled, [0.025, 0.975])
    assert half == pytest.approx((high - low) / 2, rel=0.2)


@pytest.mark.parametrize(("share", "count"), [(0.5, 10), (0.99, 200), (0.0, 20), (1.0, 5)])
def test_wilsons_bounds_are_1_96_deviations_from_the_share(share, count):
    """Each bound is a p with |share - p| = 1.96 sqrt(p (1 - p) / count)."""
    for p in measures.wilson(share, count):
        assert -1e-12 <= p <= 1 + 1e-12
        assert abs(share - p) == pytest.approx(1.96 * np.sqrt(abs(p * (1 - p)) / count), abs=1e-7)


def test_a_score_of_0_has_no_width():
    metric = BLEU()
    assert measures.bootstrap(metric, ["a b", "c"], ["x y", "z"], 20) == (0, 0)
