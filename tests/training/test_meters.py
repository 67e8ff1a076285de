"""What is logged of a step, and when: metrics, rates and times, read two steps late."""

import contextlib
import logging
import re
import types
from unittest.mock import Mock

import jax.numpy as jnp
import numpy as np
import pytest
from helpers.runs import FINAL_KEYS, TRAIN_KEYS, VALIDATION_KEYS

from transformer.errors import UserError
from transformer.training import meters
from transformer.workdir.log import read


def test_log_lines_have_all_keys(tiny_run):
    lines = read(tiny_run.workdir)
    kinds = [(line["kind"], line["step"]) for line in lines]
    expected = [("train", step) for step in range(10, 170, 10)]
    expected.insert(8, ("validation", 80))
    assert kinds == [*expected, ("validation", 160), ("test", 160)]
    keys = {"train": TRAIN_KEYS, "validation": VALIDATION_KEYS, "test": FINAL_KEYS}
    for line in lines:
        assert line.keys() == keys[line["kind"]]
        numbers = [value for value in line.values() if isinstance(value, int | float)]
        assert np.isfinite(numbers).all()


def test_log_lines_say_what_happened(tiny_run):
    lines = read(tiny_run.workdir)
    training = [line for line in lines if line["kind"] == "train"]
    for line in training:
        assert line["perplexity"] == pytest.approx(np.exp(line["nats_per_token"]))
        assert 0 <= line["padding"] < 0.3
        expected = 0.5 * 32**-0.5 * min(line["step"] ** -0.5, line["step"] * 40**-1.5)
        assert line["learning_rate"] == pytest.approx(expected, rel=1e-5)
        left = (160 - line["step"]) * line["step_seconds"]
        assert line["seconds_left"] == pytest.approx(left)
        assert 0.7 * 1024 < line["tokens_per_second"] * line["step_seconds"] <= 1024
    assert any(line["padding"] for line in training)
    assert training[-1]["loss"] < 0.8 * training[0]["loss"]
    assert training[-1]["accuracy"] > training[0]["accuracy"]


RATES = {"gradient_norm": 1.0, "learning_rate": 0.1, "finite": True, "skipped": 0}


def opened(write, means=(), **options):
    """Meters of a task that counts tokens, with a log that is the function `write`."""
    task = types.SimpleNamespace(model=None, unit="token", summarise=lambda _: dict(means))
    return contextlib.closing(meters.Meters(task, types.SimpleNamespace(write=write), **options))


def logged(lag, every=1, weight=lambda step: 6, **more):
    """{step: values} after five steps, of `lag` or of what gives it for a step."""
    lines = {}
    write = lambda kind, step, values: lines.update({step: values})
    with opened(write, step=0, num_steps=9, every=every) as adding:
        for step in range(1, 6):
            sums = {"loss": jnp.float32(12), "weight": jnp.float32(weight(step)), **more}
            late = lag(step) if callable(lag) else lag
            adding.add(step, sums | RATES, shape=(4, 2), lag=late)
    return lines


def test_a_step_is_logged_two_steps_late_or_at_once():
    assert list(logged(lag=2)) == [1, 2, 3]
    lines = logged(lag=0)
    assert list(lines) == [1, 2, 3, 4, 5]
    assert "padding" not in lines[5]  # of a task whose weight is of anything, such as images


def test_steps_that_are_read_at_once_share_their_time(clock):
    """Steps end 10 s apart; the second to the fourth are read at once, 10 s after the first."""

    def lag(step):
        clock[0] += 10
        return 2 if step < 4 else 0

    def laps(every):
        """Returns the seconds and the tokens of a lap's mean step, for each line."""
        lines = logged(lag=lag, every=every, weight=lambda step: 10 * step).values()
        seconds = [values["step_seconds"] for values in lines]
        return seconds, [x["tokens_per_second"] * s for x, s in zip(lines, seconds, strict=True)]

    seconds, tokens = laps(every=1)
    assert seconds == pytest.approx([30, 10 / 3, 10 / 3, 10 / 3, 10])
    assert tokens == pytest.approx([10, 30, 30, 30, 50])
    # The lap that the line of step 2 ends has the steps 1 to 4; the line of step 4 repeats it.
    seconds, tokens = laps(every=2)
    assert seconds == pytest.approx([10, 10])
    assert tokens == pytest.approx([25, 25])


def test_means_are_over_tokens_and_padding_over_positions():
    values = logged(lag=0, filled=jnp.float32(7))[5]
    assert values["loss"] == 2.0  # a sum of 12 over 6 tokens
    assert values["padding"] == 0.125  # 7 of 8 positions
    assert values["tokens_per_second"] == pytest.approx(6 / values["step_seconds"])
    assert "mfu" not in values  # the peak of a CPU is unknown


def test_rates_are_of_all_steps_since_the_last_line(monkeypatch):
    """Of batches of two lengths, the last one says nothing of the others."""
    seconds = iter([4.0, 9.0, 9.0, 9.0, 4.0])
    at_peak = lambda model, rows, length: rows * length * next(seconds)
    monkeypatch.setattr(meters, "seconds_at_peak", at_peak)
    values = logged(lag=0, every=5, weight=lambda step: 60 if step == 5 else 10)[5]
    assert values["tokens_per_second"] == pytest.approx(20 / values["step_seconds"])
    assert values["mfu"] == pytest.approx(8 * 7 / values["step_seconds"])


@pytest.fixture
def clock(monkeypatch):
    """The time in seconds, as the meters and their bar read it: a list of one number."""
    now = [100.0]
    monkeypatch.setattr(meters, "time", types.SimpleNamespace(perf_counter=lambda: now[0]))
    monkeypatch.setattr("tqdm.std.time", lambda: now[0])
    return now


class Loss(float):
    """A loss that is computed, or not yet."""

    def __new__(cls, is_computed):
        loss = super().__new__(cls, 1.0)
        loss.is_ready = lambda: is_computed
        return loss


def test_waiting_is_the_time_without_a_batch_on_an_idle_device_and_pauses_are_none(clock):
    """Steps of 4 s, of which 1 s is for the batch; the device is idle in half of the steps."""
    lines = []
    write = lambda kind, step, values: lines.append(values)
    with opened(write, step=0, num_steps=9, every=4) as adding:
        for step, is_computed in enumerate([True, False, False, True], start=1):
            with adding.waiting_for_data():
                clock[0] += 1
            clock[0] += 3
            sums = {"loss": Loss(is_computed), "weight": 10, **RATES}
            adding.add(step, sums, shape=(4, 2), lag=0 if step == 4 else 2)
            with adding.paused():
                clock[0] += 7200
    [values] = lines
    assert values["step_seconds"] == pytest.approx(4)
    assert values["waiting"] == pytest.approx(2 / 16)


def test_training_is_shown_in_80_columns(open_terminal, caplog, clock):
    """Lines of losses and, below them, one bar with the time left and the rate."""
    shown, _ = open_terminal()
    means = {"loss": 3.709, "accuracy": 0.3, "nats_per_token": 3.5}
    sums = {"loss": 3709.0, "weight": 1000.0, "filled": 7.6, **RATES}
    with opened(Mock(), means, step=99_990, num_steps=100_000, every=1) as adding:
        clock[0] += 0.5
        adding.add(99_991, sums, shape=(4, 2), lag=0)
    [line] = [record.getMessage() for record in caplog.records]
    assert len("06:51:20 ") + len(line) < 80
    assert line == "step 99991/100000: loss 3.709, tokens per second 2,000, 4 s left"
    bar = shown().rstrip().rpartition("\r")[2]
    assert len(bar) < 80
    end = re.escape("| 99991/100000 [00:00<00:04,  2.00step/s]")
    assert re.fullmatch(r"train: 100%\|█{20,}." + end, bar)


# Skipped updates and jumps of the loss.


def sums(loss, skipped=0, gradient_norm=1.0, finite=None):
    values = {"loss": 10 * loss, "weight": 10.0, "learning_rate": 1e-3}
    finite = np.isfinite(loss + gradient_norm) if finite is None else finite
    return {**values, "skipped": skipped, "gradient_norm": gradient_norm, "finite": finite}


def test_ten_skipped_updates_in_a_row_end_the_run(caplog):
    watching = meters.Anomalies()
    for t in range(1, 40):  # nine non-finite in a row, then a finite one, and so on
        assert watching.applied(t, sums(np.nan if t % 10 else 2.0, skipped=t)) == (t % 10 == 0)
    cause = "loss nan, gradient norm 1.0, learning rate 0.001"
    assert f"step 9: non-finite update skipped ({cause}); 9 skipped in total" in caplog.text
    watching.applied(40, sums(2.0))
    for t in range(41, 50):
        assert not watching.applied(t, sums(2.0, gradient_norm=np.inf))
    words = r"\Astep 50: 10 non-finite .*loss 2.0, gradient norm inf, .*Delete .*step 40 and later"
    with pytest.raises(UserError, match=words):
        watching.applied(50, sums(2.0, gradient_norm=np.inf))


def test_a_batch_without_tokens_has_no_numbers():
    assert not meters.Anomalies().applied(1, {**sums(np.nan), "weight": 0.0})


def test_an_infinite_learning_rate_is_named(caplog):
    infinite = {**sums(2.0, skipped=1, finite=False), "learning_rate": np.inf}
    assert not meters.Anomalies().applied(1, infinite)
    assert "skipped (loss 2.0, gradient norm 1.0, learning rate inf)" in caplog.text


def test_jumps_of_the_loss_are_said_and_nothing_else(caplog):
    watching = meters.Anomalies()
    random = np.random.default_rng(0)
    with caplog.at_level(logging.WARNING):
        for t in range(1, 400):
            watching.applied(t, sums(2 + 5 * np.exp(-t / 60) + 0.02 * random.standard_normal()))
        assert not caplog.records
        watching.applied(400, sums(2.9))
        watching.applied(401, sums(2.0))
    assert [r.getMessage().partition(" jumps")[0] for r in caplog.records] == [
        "step 400: loss 2.900"
    ]
