"""Peak FLOP/s of devices, profiles, and the time spent waiting for data."""

import gzip
import json
import types

import jax
import jax.numpy as jnp
import pytest
from helpers import tiny

from transformer.monitoring import devices
from transformer.monitoring.progress import Progress
from transformer.monitoring.trace import traced
from transformer.training import meters

B, S = 2, 6


@pytest.mark.parametrize(
    ("name", "teraflops"),
    [
        *(("NVIDIA H100 80GB HBM3", 989), ("NVIDIA H100 PCIe", 756), ("NVIDIA H200", 989)),
        *(("NVIDIA A100-SXM4-40GB", 312), ("TPU v4", 275), ("TPU v5 lite", 197)),
        *(("TPU v5p", 459), ("TPU v5", 459), ("TPU v6 lite", 918), ("cpu", 0)),
        *(("TPU v5e", 197), ("NVIDIA H100 NVL", 835), ("NVIDIA H100 80GB HBM3 MIG 1g.10gb", 0)),
    ],
)
def test_peaks_are_looked_up_by_device_kind(name, teraflops):
    assert devices.peak(name) == teraflops * 1e12


def test_least_seconds_are_flops_over_the_peak_of_all_devices(monkeypatch):
    model = tiny.model()
    assert meters.seconds_at_peak(model, B, S) == 0  # the peak of a CPU is unknown
    monkeypatch.setattr(jax, "devices", lambda: [types.SimpleNamespace(device_kind="TPU v4")] * 4)
    assert meters.seconds_at_peak(model, B, S) == pytest.approx(model.flops(B, S) / (4 * 275e12))
    assert meters.seconds_at_peak(object(), B, S) == 0  # without a method `flops`


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


def test_there_is_no_trace_of_0_steps(monkeypatch, tmp_path):
    monkeypatch.setattr(jax.profiler, "start_trace", None)
    with traced(0, 0, tmp_path) as trace:
        for number in range(30):
            trace(number, None)


def test_waiting_is_the_fraction_of_time_spent_waiting_for_batches(monkeypatch):
    now = [0.0]
    clock = types.SimpleNamespace(perf_counter=lambda: now[0])
    monkeypatch.setattr("transformer.monitoring.progress.time", clock)
    progress = Progress(0, 10)

    def run(computing):
        for _ in range(4):
            with progress.waiting(computing):
                now[0] += 1
            now[0] += 3
            progress.advance()

    run(lambda: False)
    assert progress.lap()["waiting"] == pytest.approx(0.25)
    busy = iter([True, False, True, True])  # is the device computing when the batch arrives?
    run(lambda: next(busy))
    assert progress.lap()["waiting"] == pytest.approx(1 / 16)
    progress.close()
