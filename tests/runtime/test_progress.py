"""Progress: a bar on a terminal, plain lines in a log."""

import contextlib
import logging
import os
import re
import sys
import termios
import time
import types

import jax
import numpy as np
import pytest
from jax._src import compiler
from tqdm.contrib.logging import logging_redirect_tqdm

from transformer.runtime.progress import Progress, counter, waiting
from transformer.runtime.progress import progress as with_progress


@pytest.fixture
def clock(monkeypatch):
    """The time in seconds, as progress.py reads it: a list of one number."""
    now = [100.0]
    clock = types.SimpleNamespace(perf_counter=lambda: now[0])
    monkeypatch.setattr("transformer.runtime.progress.time", clock)
    return now


@pytest.mark.parametrize(
    ("options", "every", "steps", "expected"),
    [
        (
            {"total": 63},
            0,
            [(2, 1), (2, 1)],  # seconds and lines
            "1 line, 0.5 a second, 2 min 4 s left; 2 lines, 0.5 a second, 2 min 2 s left; "
            "2 lines in 4.0 s, 0.5 a second",
        ),
        (
            {"unit": "row"},  # without a total there is no time left
            0,
            [(2, 1), (2, 9)],
            "1 row, 0.5 a second; 10 rows, 2.5 a second; 10 rows in 4.0 s, 2.5 a second",
        ),
        (
            {"total": 9},  # nor before a line is done
            0,
            [(2, 0), (2, 4)],
            "0 lines, 0.0 a second; 4 lines, 1.0 a second, 5 s left; "
            "4 lines in 4.0 s, 1.0 a second",
        ),
        (
            {"total": 9, "note": lambda: "1 of 2 runs"},
            0,
            [(2, 4)],
            "4 lines, 2.0 a second, 2 s left, 1 of 2 runs; 4 lines in 2.0 s, 2.0 a second",
        ),
        (
            {"total": 200},  # the rate is that of all lines
            1.5,
            [(0.01, 1)] * 98 + [(1, 1), (0.02, 1)],
            "99 lines, 50 a second, 2 s left; 100 lines in 2.0 s, 50 a second",
        ),
        ({"total": 10}, 1000, [(2, 1)] * 10, "10 lines in 20.0 s, 0.5 a second"),
        ({"total": 7}, 0, [], "0 lines in 1.0 s, 0.0 a second"),
        ({"total": 0}, 0, [], "0 lines in 1.0 s, 0.0 a second"),
        ({}, 0, [], "0 lines in 1.0 s, 0.0 a second"),
    ],
)
def test_a_log_has_count_rate_and_time_left(
    caplog, capsys, clock, monkeypatch, options, every, steps, expected
):
    """A line every so many seconds: pytest's standard error is not a terminal."""
    caplog.set_level(logging.INFO)
    monkeypatch.setattr("transformer.runtime.progress.REPORT_SECONDS", every)
    with counter("score", **options) as advance:
        clock[0] += 0 if steps else 1
        for seconds, count in steps:
            clock[0] += seconds
            advance(count)
    lines = [f"score: {line}" for line in expected.split("; ")]
    assert [record.getMessage() for record in caplog.records] == lines
    assert capsys.readouterr() == ("", "")


def test_progress_is_lazy():
    taken = []
    items = (taken.append(number) or number for number in range(5))
    for number in with_progress(items, "translate"):
        assert taken == list(range(number + 1))
    assert taken == list(range(5))


@pytest.fixture
def open_terminal(monkeypatch, caplog):
    """A function that makes standard error a terminal of 80 columns; returns (shown, hang_up)."""
    master, slave = os.openpty()
    termios.tcsetwinsize(slave, (24, 80))
    ours = open(master, "rb", 0)  # noqa: SIM115 (closed below)
    theirs = open(slave, "w", encoding="utf-8")  # noqa: SIM115

    content = b""  # that `shown` has not returned yet

    def shown():
        nonlocal content
        print(end="END", file=theirs, flush=True)
        while b"END" not in content:  # behind it there may be what a thread has shown since
            content += ours.read(4096)
        result, _, content = content.partition(b"END")
        return result.decode()

    def open_it():  # called in the test itself: pytest sets standard error before it
        caplog.set_level(logging.INFO)
        monkeypatch.setattr(sys, "stderr", theirs)
        return shown, ours.close

    yield open_it
    ours.close()
    with contextlib.suppress(OSError):
        theirs.close()


def test_progress_is_a_bar_on_a_terminal(open_terminal, caplog, capsys):
    shown, _ = open_terminal()
    list(with_progress(range(3), "translate", total=3))
    assert re.match(r"\rtranslate:   0%\| +\| 0/3 \[", shown())
    with counter("score", note=lambda: "1 of 2 runs"):
        seen = ""
        while "1 of 2 runs" not in seen:
            seen += shown()
    caplog.records.pop()
    [line] = [record.getMessage() for record in caplog.records]
    assert line.startswith("translate: 3 lines in ")
    assert capsys.readouterr().out == ""


MEANS = {"loss": 3.709, "accuracy": 0.3, "nats_per_token": 3.5, "perplexity": 74.18}
SHOWN = {
    **{"learning_rate": 1e-3, "gradient_norm": 0.5, "padding": 0.05, "skipped": 0},
    **{"tokens_per_second": 112345.6, "step_seconds": 0.02, "waiting": 0.0, "seconds_left": 63.0},
}


def test_training_is_shown_in_80_columns(open_terminal, caplog, clock, monkeypatch):
    """Lines of losses and, below them, one bar with the time left and the rate."""
    monkeypatch.setattr("tqdm.std.time", lambda: clock[0])
    shown, _ = open_terminal()
    progress = Progress(99_990, 100_000)
    clock[0] += 0.25
    progress.advance()
    progress.show(MEANS, SHOWN, "token")
    progress.close()
    [line] = [record.getMessage() for record in caplog.records]
    assert line == "step 99991/100000: loss 3.709, accuracy 0.3, 112,346 tokens/s"
    assert len("06:51:20 ") + len(line) < 80
    bar = shown().rstrip().rpartition("\r")[2]
    assert len(bar) < 80
    end = re.escape("| 99991/100000 [00:00<00:02,  4.00step/s]")
    assert re.fullmatch(r"train: 100%\|█{20,}." + end, bar)


def test_a_logs_lines_break_between_metrics(caplog):
    """In a terminal of 120 columns, of which the time of day takes nine."""
    caplog.set_level(logging.INFO)
    Progress(0, 100_000).show({**MEANS, "tie": 2e-12}, SHOWN, "token")
    assert caplog.records[0].getMessage().split("\n") == [
        "step 0/100000: loss 3.709, accuracy 0.3, nats per token 3.5, perplexity 74.18, tie 2e-12,",
        "    learning rate 1.00e-03, gradient norm 0.50, padding 5.0%, 112,346 tokens/s,",
        "    0.020 s/step (0.0% waiting for data), 1 min 3 s left",
    ]


def test_the_bar_excludes_pauses_from_its_time_left(open_terminal, clock, monkeypatch):
    """Steps of a quarter of a second, after a validation of two hours."""
    monkeypatch.setattr("tqdm.std.time", lambda: clock[0])
    shown, _ = open_terminal()
    progress = Progress(0, 100)
    with progress.paused():
        clock[0] += 7200
    for _ in range(20):
        clock[0] += 0.25
        progress.advance()
    assert shown().endswith("| 20/100 [2:00:05<00:20,  4.00step/s]")


def test_a_terminal_that_is_gone_ends_nothing(open_terminal, clock, monkeypatch):
    monkeypatch.setattr("tqdm.std.time", lambda: clock[0])
    _, hang_up = open_terminal()
    progress = Progress(0, 100)
    with logging_redirect_tqdm(), counter("translate", total=3) as advance:
        hang_up()
        with pytest.raises(OSError, match="Input/output error"):
            print("into the void", file=sys.stderr, flush=True)
        for _ in range(3):
            clock[0] += 1
            advance(1)
            progress.advance()
            progress.show(MEANS, SHOWN, "token")
        progress.close()


def test_waiting_is_the_fraction_of_time_spent_waiting_for_batches(clock):
    progress = Progress(0, 10)

    def run(computing):
        for _ in range(4):
            with progress.waiting(computing):
                clock[0] += 1
            clock[0] += 3
            progress.advance()

    run(lambda: False)
    assert progress.lap()["waiting"] == pytest.approx(0.25)
    busy = iter([True, False, True, True])  # is the device computing when the batch arrives?
    run(lambda: next(busy))
    assert progress.lap()["waiting"] == pytest.approx(1 / 16)
    progress.close()


def wait_for(pattern, shown):
    """Waits until a terminal shows what is looked for; on a busy machine it may skip a second."""
    end = time.monotonic() + 60
    while not re.search(pattern, shown()):
        assert time.monotonic() < end
        time.sleep(0.1)


def test_a_wait_is_named_on_a_terminal_and_its_seconds_go_on(open_terminal, caplog):
    shown, _ = open_terminal()
    with waiting("compile"):
        assert shown().startswith("\rcompile [00:00]")
        wait_for(r"compile \[00:0[1-9]\]", shown)
    assert not caplog.records


def test_a_wait_is_nothing_in_a_log(caplog, capsys):
    caplog.set_level(logging.INFO)
    with pytest.raises(KeyError), waiting("compile"):
        raise KeyError
    assert not caplog.records
    assert capsys.readouterr() == ("", "")


def test_the_time_of_a_bar_goes_on_where_nothing_is_counted(open_terminal):
    shown, _ = open_terminal()
    with counter("translate", total=9):
        wait_for(r"\| 0/9 \[00:0[1-9]<", shown)


def test_a_bar_says_that_a_program_is_compiled(open_terminal, monkeypatch):
    """While it is, and no longer: the compilation lasts here until the bar says so."""
    shown, _ = open_terminal()
    compile_it = compiler.compile_or_get_cached

    def compile_slowly(*arguments, **options):
        wait_for(r"\| 0/9 \[[^]]*, compiling\]", shown)
        return compile_it(*arguments, **options)

    monkeypatch.setattr(compiler, "compile_or_get_cached", compile_slowly)
    with counter("translate", total=9):
        assert jax.jit(lambda x: x + 1)(np.int32(1)) == 2
        wait_for(r"\| 0/9 \[[^,]*,[^,]*\]", shown)
