"""Peak FLOP/s, memory and interconnect of devices."""

import types

import jax
import pytest
from helpers import tiny

from transformer.runtime import devices
from transformer.training import meters

B, S = 2, 6


@pytest.mark.parametrize(
    ("name", "teraflops", "gigabytes", "links"),
    [
        ("NVIDIA H100 80GB HBM3", 989, 80, True),
        ("NVIDIA H100 PCIe", 756, 80, False),
        ("NVIDIA H100 NVL", 835, 0, False),
        ("NVIDIA H100 80GB HBM3 MIG 1g.10gb", 0, 0, False),
        ("NVIDIA B200", 2250, 180, True),
        ("NVIDIA GB200", 2500, 0, False),
        ("NVIDIA H200", 989, 141, True),
        ("NVIDIA GH200 480GB", 989, 0, False),
        ("NVIDIA A100-SXM4-40GB", 312, 40, True),
        ("NVIDIA A100-SXM4-80GB", 312, 80, True),
        ("NVIDIA A100-PCIE-40GB", 312, 40, False),
        ("NVIDIA A100 80GB PCIe", 312, 80, False),
        ("TPU v4", 275, 34.359738368, True),
        ("TPU v5 lite", 197, 16, True),
        ("TPU v5e", 197, 16, True),
        ("TPU v5", 459, 102.005473280, True),
        ("TPU v6 lite", 918, 32, True),
        ("cpu", 0, 0, False),
    ],
)
def test_a_device_is_looked_up_by_its_kind(name, teraflops, gigabytes, links):
    """The links of a PCIe card are unknown; so is all but the peak where a name leaves it open."""
    device = devices.hardware(name)
    assert device.peak == teraflops * 1e12
    assert device.memory_bytes == gigabytes * 1e9
    assert (device.link_bandwidth > 0) == (device.devices_per_island > 1) == links


def test_seconds_at_peak_are_flops_over_the_peak_of_all_devices(monkeypatch):
    model = tiny.model()
    assert meters.seconds_at_peak(model, B, S) == 0  # the peak of a CPU is unknown
    monkeypatch.setattr(jax, "devices", lambda: [types.SimpleNamespace(device_kind="TPU v4")] * 4)
    assert meters.seconds_at_peak(model, B, S) == pytest.approx(model.flops(B, S) / (4 * 275e12))
    assert meters.seconds_at_peak(object(), B, S) == 0  # without a method `flops`
