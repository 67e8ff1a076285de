"""How long a step computes and communicates."""

import pytest
from ml_collections import ConfigDict

from transformer.tools.plan import step_time
from transformer.tools.plan.collectives import Collective
from transformer.tools.plan.program import Cost
from transformer.tools.plan.step_time import LAUNCH, Work


@pytest.mark.parametrize(
    ("device", "group", "expected"),
    [
        ("H100", range(8), 450e9),
        ("H100", range(16), 400e9),  # eight network adapters at each end
        ("H100", range(0, 64, 8), 50e9),
        ("H100", range(0, 64, 4), 100e9),
        ("TPU v5e", range(256), 200e9),
        ("TPU v5e", range(0, 512, 256), 3.125e9),
        ("TPU v4", range(8192), 0),
        ("cpu", range(8), 0),
        ("NVIDIA H100 PCIe", range(8), 0),
    ],
)
def test_a_group_sends_as_fast_as_its_slowest_link(device, group, expected):
    assert step_time.group_bandwidth(device, tuple(group)) == expected


def test_a_step_takes_the_longer_of_computation_and_communication():
    options = ConfigDict({"share_of_peak": 0.5, "bandwidth": 0.0})
    # A ring of two sends half of the array twice; a TPU v5e has 197e12 FLOP/s and sends 200e9 B/s.
    work = Work(int(197e12), [Collective("all-reduce", int(1e11), (0, 1), 4)], 2, "TPU v5e")
    times = step_time.times(work, options, 3)
    assert times["compute_seconds"] == pytest.approx(1.0)
    assert times["communication_seconds"] == pytest.approx(2.0)
    assert (times["bound_by"], times["step_seconds"]) == ("communication", pytest.approx(2.0))
    assert times["run_seconds"] == pytest.approx(6.0)
    options.bandwidth = 1e12
    times = step_time.times(work, options, 3)
    assert (times["bound_by"], times["step_seconds"]) == ("compute", pytest.approx(1.0))
    times = step_time.times(work, options, 3, {"bound_seconds": 3.0})
    assert (times["bound_by"], times["step_seconds"]) == ("program", 3.0)
    assert step_time.times(work._replace(flops=None), options, 3)["step_seconds"] is None


@pytest.mark.parametrize(
    ("moved", "cycles", "seconds"), [(819e9, 3e9, 2.0), (3 * 819e9, 3e9, 3.0)], ids=["slow", "wide"]
)
def test_a_program_takes_its_instructions_or_memory_and_what_it_waits_for(moved, cycles, seconds):
    # Each sends 1e11 bytes in half a second: the first while instructions take half a second, the
    # second while they take a fifth of one.
    meanwhile = [Cost(10, int(0.75e9), 1), Cost(int(819e9) // 5, 0, 1), Cost()]
    sent = [Collective("all-reduce", int(1e11), (0, 1), 1, cost) for cost in meanwhile]
    work = Work(int(197e12), sent, 2, "TPU v5e")
    times = step_time.program_times(work, Cost(moved, cycles), 0.0)
    assert times["instruction_seconds"] == pytest.approx(2.0)
    assert times["memory_seconds"] == pytest.approx(moved / 819e9)
    assert times["launch_seconds"] is None
    assert times["waiting_seconds"] == pytest.approx(0.3 + 0.5)
    assert times["bound_seconds"] == pytest.approx(seconds + 0.8)
    assert times["attainable_share"] == pytest.approx(0.5 / (seconds + 0.8))


@pytest.mark.parametrize(
    ("flops", "cost", "seconds"),
    [
        (2 * 989e12, Cost(kernels=10), 1.0),
        (2, Cost(moved=int(2 * 3.35e12)), 2.0),
        (2, Cost(kernels=10**6), 1e6 * LAUNCH),
    ],
    ids=["computing", "memory", "launches"],
)
def test_a_gpus_program_is_bound_by_what_takes_longest(flops, cost, seconds):
    times = step_time.program_times(Work(flops, [], 2, "NVIDIA H100 80GB HBM3"), cost, 0.0)
    assert times["bound_seconds"] == pytest.approx(seconds)
    assert times["attainable_share"] == pytest.approx(flops / 2 / 989e12 / seconds)
    assert times["instruction_seconds"] is None


def test_a_program_of_an_unknown_device_has_no_times():
    times = step_time.program_times(Work(3, [], 1, "cpu"), Cost(1, 2), 0.0)
    assert times["bytes_moved"] == 1
    assert times["bound_seconds"] is times["memory_seconds"] is times["attainable_share"] is None
