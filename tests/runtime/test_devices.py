"""Peak FLOP/s, memory and interconnect of devices."""

import types

import jax
import pytest
from helpers import tiny

from transformer.runtime import devices
from transformer.training import meters

B, S = 2, 6


@pytest.mark.parametrize(
    ("name", "teraflops"),
    [
        *(("NVIDIA H100 80GB HBM3", 989), ("NVIDIA H100 PCIe", 756), ("NVIDIA H200", 989)),
        *(("NVIDIA GH200 480GB", 989), ("NVIDIA A100-SXM4-40GB", 312)),
        *(("NVIDIA A100-SXM4-80GB", 312), ("NVIDIA A100 80GB PCIe", 312)),
        *(("TPU v4", 275), ("TPU v5 lite", 197)),
        *(("TPU v5p", 459), ("TPU v5", 459), ("TPU v6 lite", 918), ("cpu", 0)),
        *(("TPU v5e", 197), ("NVIDIA H100 NVL", 835), ("NVIDIA H100 80GB HBM3 MIG 1g.10gb", 0)),
    ],
)
def test_peaks_are_looked_up_by_device_kind(name, teraflops):
    assert devices.peak(name) == teraflops * 1e12


def test_seconds_at_peak_are_flops_over_the_peak_of_all_devices(monkeypatch):
    model = tiny.model()
    assert meters.seconds_at_peak(model, B, S) == 0  # the peak of a CPU is unknown
    monkeypatch.setattr(jax, "devices", lambda: [types.SimpleNamespace(device_kind="TPU v4")] * 4)
    assert meters.seconds_at_peak(model, B, S) == pytest.approx(model.flops(B, S) / (4 * 275e12))
    assert meters.seconds_at_peak(object(), B, S) == 0  # without a method `flops`


@pytest.mark.parametrize(
    ("name", "gigabytes", "links"),
    [
        *(("NVIDIA A100-SXM4-40GB", 40, True), ("NVIDIA A100-SXM4-80GB", 80, True)),
        *(("NVIDIA A100-PCIE-40GB", 40, False), ("NVIDIA A100 80GB PCIe", 80, False)),
        *(("NVIDIA H100 80GB HBM3", 80, True), ("NVIDIA H100 PCIe", 80, False)),
        *(("NVIDIA H200", 141, True), ("TPU v5e", 16, True)),
    ],
)
def test_memory_and_links_are_those_of_the_variant(name, gigabytes, links):
    """The links of a PCIe card are unknown."""
    device = devices.hardware(name)
    assert device.memory_bytes == gigabytes * 1e9
    assert (device.link_bandwidth > 0) == (device.devices_per_island > 1) == links


@pytest.mark.parametrize("name", ["cpu", "NVIDIA H100 80GB HBM3 MIG 1g.10gb", "NVIDIA GH200 480GB"])
def test_hardware_that_a_name_does_not_decide_is_unknown(name):
    assert devices.hardware(name) is None
