"""A trace has the given number of steps, after those that compile."""

import gzip
import json
import types

import jax
import jax.numpy as jnp
import pytest

from transformer.runtime import paths, profiles
from transformer.runtime.profiles import WARM_UP, traced


def calls_traced(folder, count, steps):
    """Returns how often a function was called in a trace of `count` steps of a run from step 30."""
    function = jax.jit(lambda x: x @ x)
    x = function(jnp.ones((8, 8)))
    with traced(30, count, folder) as trace:
        for number in range(31, 31 + steps):
            x = function(x)
            trace(number, x)
            assert folder.exists() == (number >= 40 + count)
    [file] = folder.rglob("perfetto_trace.json.gz")
    events = json.loads(gzip.decompress(file.read_bytes()))["traceEvents"]
    return sum("PjitFunction" in str(event.get("name")) for event in events)


@pytest.mark.slow
def test_a_trace_has_the_given_number_of_steps(tmp_path):
    one = calls_traced(tmp_path / "one", 1, 20)
    assert one > 0
    assert calls_traced(tmp_path / "three", 3, 20) == 3 * one
    assert calls_traced(tmp_path / "cut", 50, 12) == 2 * one  # the run ends before the trace


def test_a_run_that_fails_within_its_trace_has_it(monkeypatch, tmp_path):
    """Also where the trace goes to a bucket, by way of a disk."""
    bucket = types.SimpleNamespace(in_bucket=lambda folder: True, write_file=paths.write_file)
    monkeypatch.setattr(profiles, "paths", bucket)

    def run():
        with traced(0, 5, tmp_path) as trace:
            trace(WARM_UP, None)
            raise InterruptedError

    with pytest.raises(InterruptedError):
        run()
    assert [*tmp_path.rglob("perfetto_trace.json.gz")]


def test_a_run_that_ends_before_its_trace_says_so(monkeypatch, tmp_path, caplog):
    """But not one without a trace: 0 steps."""
    monkeypatch.setattr(jax.profiler, "trace", None)
    for count, steps in ((0, 30), (3, WARM_UP - 1)):
        assert not caplog.text
        with traced(100, count, tmp_path / "profile") as trace:
            for number in range(101, 101 + steps):
                trace(number, None)
    assert "no trace: the run ended within 10 steps" in caplog.text
