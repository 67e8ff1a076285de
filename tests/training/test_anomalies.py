"""Skipped updates and jumps of the loss are logged; ten skipped updates in a row end the run."""

import logging

import numpy as np
import pytest

from transformer.training import anomalies


def sums(loss, skipped=0, gradient_norm=1.0, finite=None):
    values = {"loss": 10 * loss, "weight": 10.0, "learning_rate": 1e-3}
    finite = np.isfinite(loss + gradient_norm) if finite is None else finite
    return {**values, "skipped": skipped, "gradient_norm": gradient_norm, "finite": finite}


def test_ten_skipped_updates_in_a_row_end_the_run(caplog):
    watching = anomalies.Anomalies(lambda: 1500)
    for t in range(1, 40):  # nine non-finite in a row, then a finite one, and so on
        assert watching.check(t, sums(np.nan if t % 10 else 2.0, skipped=t)) == (t % 10 == 0)
    cause = "loss nan, gradient norm 1.0, learning rate 0.001"
    assert f"step 9: non-finite update skipped ({cause}); 9 skipped in total" in caplog.text
    watching.check(40, sums(2.0))
    for t in range(41, 50):
        assert not watching.check(t, sums(2.0, gradient_norm=np.inf))
    words = (
        r"\Astep 50: 10 non-finite .*loss 2.0, gradient norm inf, .* is of step 1500\. To set .*\Z"
    )
    with pytest.raises(FloatingPointError, match=words):
        watching.check(50, sums(2.0, gradient_norm=np.inf))


def test_a_batch_without_tokens_has_no_numbers():
    assert not anomalies.Anomalies(lambda: None).check(1, {**sums(np.nan), "weight": 0.0})


def test_an_infinite_learning_rate_is_named(caplog):
    infinite = {**sums(2.0, skipped=1, finite=False), "learning_rate": np.inf}
    assert not anomalies.Anomalies(lambda: None).check(1, infinite)
    assert "skipped (loss 2.0, gradient norm 1.0, learning rate inf)" in caplog.text


def test_jumps_of_the_loss_are_said_and_nothing_else(caplog):
    watching = anomalies.Anomalies(lambda: None)
    random = np.random.default_rng(0)
    with caplog.at_level(logging.WARNING):
        for t in range(1, 400):
            watching.check(t, sums(2 + 5 * np.exp(-t / 60) + 0.02 * random.standard_normal()))
        assert not caplog.records
        watching.check(400, sums(2.9))
        watching.check(401, sums(2.0))
    assert [r.getMessage().partition(" jumps")[0] for r in caplog.records] == [
        "step 400: loss 2.900"
    ]
