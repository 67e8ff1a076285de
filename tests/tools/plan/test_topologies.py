"""Devices that are not there: their descriptions, and a plan by their own compilers."""

import os
from unittest import mock

import pytest
from tools.plan.programs import devices
from tools.plan.test_plan import PARAMETERS, planned

from transformer.errors import UserError
from transformer.runtime.devices import HARDWARE, hardware
from transformer.tools.plan import topologies


@pytest.mark.parametrize("name", topologies.GPUS)
def test_a_gpu_is_the_one_whose_data_sheet_times_are_from(name):
    gpu = topologies.GPUS[name]
    sheet = hardware(gpu.kind)
    assert sheet == HARDWARE["A100-SXM4-80GB" if name == "a100" else name.upper()]
    text = topologies.description(gpu)
    assert f"device_memory_size: {sheet.memory_bytes:.0f} " in text
    assert f"memory_bandwidth: {sheet.memory_bandwidth:.0f}\n" in text


@pytest.mark.parametrize(
    ("topology", "count", "processes"),
    [("a100:1", 1, 1), ("h100:6", 6, 1), ("h200:16", 16, 2), ("b200:64", 64, 8)],
)
def test_gpus_are_in_hosts_of_eight(topology, count, processes):
    found = devices(topology)
    assert [device.id for device in found] == list(range(count))
    assert {device.process_index for device in found} == set(range(processes))
    assert {device.device_kind for device in found} == {topologies.GPUS[topology[:4]].kind}


def test_a_slice_that_does_not_exist_is_refused():
    devices("v5e:2x4")  # skips without libtpu
    with pytest.raises(UserError, match=r"config.plan.topology=v5e:3x5 .*not divisible"):
        devices("v5e:3x5")


@pytest.mark.slow
def test_attention_by_cudnn_moves_less(use_kernels):
    """No scores are written: 24 rows of 128 in 2 heads of 64, in three attentions."""
    devices("h100:1")
    changes = {"data__row_length": 128, "data__batch_tokens": 24 * 128, "model__num_heads": 2}
    changes |= {"model__dtype": "bfloat16", "plan__topology": "h100:1", "plan__num_devices": 0}
    moved = {}
    with mock.patch.dict(os.environ):
        for name in ("tuned", "cudnn"):
            use_kernels(name)
            moved[name] = planned(**changes)["program"]["bytes_moved"]
    scores = 24 * 2 * 128 * 128 * 4  # bytes, in float32
    assert moved["tuned"] - moved["cudnn"] > 3 * 4 * scores


@pytest.mark.slow
@pytest.mark.parametrize("topology", ["h100:8", "v5e:2x4"])
def test_a_plan_by_the_compiler_of_its_devices(topology):
    """The training step: its gradient is summed once, and its bound is by its longest time."""
    kind = devices(topology)[0].device_kind
    with mock.patch.dict(os.environ):
        plan = planned(plan__topology=topology, plan__num_devices=0)
    assert (plan["device"], plan["devices"]) == (kind, 8)
    [gradient] = plan["collectives"]
    assert gradient["kind"] == "all-reduce"
    assert gradient["bytes"] == pytest.approx(4 * PARAMETERS, rel=0.01)
    program = plan["program"]
    # Adam reads and writes params and both moments; the small gradient can stay on a TPU.
    assert program["bytes_moved"] > 6 * 4 * PARAMETERS
    seconds = [program[f"{name}_seconds"] for name in ("peak", "memory", "instruction", "launch")]
    longest = max(filter(None, seconds))
    assert program["bound_seconds"] == pytest.approx(longest + program["waiting_seconds"])
    assert 0 < program["attainable_share"] < 1
    assert (program["launch_seconds"] is None) == (program["instruction_seconds"] is not None)
