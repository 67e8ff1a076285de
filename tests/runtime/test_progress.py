"""Progress: a bar on a terminal, plain lines in a log."""

import logging
import re
import sys
import time
import types

import pytest
from tqdm.contrib.logging import logging_redirect_tqdm

from transformer.runtime.progress import counter, waiting
from transformer.runtime.progress import progress as with_progress


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
    caplog, capsys, monkeypatch, options, every, steps, expected
):
    """A line every so many seconds: pytest's standard error is not a terminal."""
    caplog.set_level(logging.INFO)
    now = [100.0]
    clock = types.SimpleNamespace(perf_counter=lambda: now[0])
    monkeypatch.setattr("transformer.runtime.progress.time", clock)
    monkeypatch.setattr("transformer.runtime.progress.REPORT_SECONDS", every)
    with counter("score", **options) as advance:
        now[0] += 0 if steps else 1
        for seconds, count in steps:
            now[0] += seconds
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


def test_progress_is_a_bar_on_a_terminal(open_terminal, caplog, capsys):
    shown, _ = open_terminal()
    list(with_progress(range(3), "translate", total=3))
    assert re.match(r"\rtranslate:   0%\| +\| 0/3 \[", shown())
    [line] = [record.getMessage() for record in caplog.records]
    assert line.startswith("translate: 3 lines in ")
    assert capsys.readouterr().out == ""


def test_a_terminal_that_is_gone_ends_nothing(open_terminal):
    _, hang_up = open_terminal()
    with logging_redirect_tqdm(), counter("translate", total=3) as advance:
        hang_up()
        with pytest.raises(OSError, match="Input/output error"):
            print("into the void", file=sys.stderr, flush=True)
        for _ in range(3):
            time.sleep(0.15)  # tqdm shows a bar every tenth of a second
            advance(1)


def test_a_wait_is_named_on_a_terminal(open_terminal, caplog):
    shown, _ = open_terminal()
    with waiting("compile"):
        assert shown().startswith("\rcompile ...")
    assert not caplog.records


def test_a_wait_is_nothing_in_a_log(caplog, capsys):
    caplog.set_level(logging.INFO)
    with pytest.raises(KeyError), waiting("compile"):
        raise KeyError
    assert not caplog.records
    assert capsys.readouterr() == ("", "")
