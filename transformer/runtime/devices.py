"""Data sheets of accelerators: peak FLOP/s, memory, bandwidths of memory and interconnect."""

from typing import NamedTuple


class Hardware(NamedTuple):
    """Speed, memory and interconnect of one device; 0 means unknown.

    An island is a set of devices with fast links (NVLink, ICI) among them.
    """

    peak: float = 0.0  # dense bfloat16 FLOP/s
    memory_bytes: float = 0.0
    memory_bandwidth: float = 0.0  # bytes/s
    link_bandwidth: float = 0.0  # bytes/s one way, the sum of a device's fast links
    devices_per_island: int = 1
    network_bandwidth: float = 0.0  # bytes/s one way, per device to other islands
    clock: float = 0.0  # cycles/s: the peak over what the matrix units do in a cycle


# Substring of `jax.Device.device_kind` -> hardware (vendors' data sheets and
# cloud.google.com/tpu/docs). The first match counts, so 'GB200' stands before 'B200'. 'MIG' and
# 'NVL' come first, because they occur beside other names. The links of PCIe cards depend on the
# machine.
HARDWARE = {
    "MIG": Hardware(),  # a slice of a GPU
    "NVL": Hardware(835e12),
    "H100 PCIe": Hardware(756e12, 80e9, 2.0e12),
    "H100": Hardware(989e12, 80e9, 3.35e12, 450e9, 8, 50e9),  # SXM: NVLink 4, 400 Gb/s a GPU
    "GH200": Hardware(989e12),
    "GB200": Hardware(2500e12),
    "B200": Hardware(2250e12, 180e9, 8.0e12, 900e9, 8, 50e9),  # NVLink 5
    "H200": Hardware(989e12, 141e9, 4.8e12, 450e9, 8, 50e9),
    "A100-SXM4-80GB": Hardware(312e12, 80e9, 2.04e12, 300e9, 8, 25e9),
    "A100-PCIE": Hardware(312e12, 40e9, 1.555e12),
    "A100 80GB PCIe": Hardware(312e12, 80e9, 1.935e12),
    "A100": Hardware(312e12, 40e9, 1.555e12, 300e9, 8, 25e9),  # NVLink 3, 200 Gb/s a GPU
    "TPU v4 lite": Hardware(138e12),
    "TPU v4": Hardware(275e12, 32 * 2**30, 1.228e12, 270e9, 4096),
    "TPU v5 lite": Hardware(197e12, 16e9, 819e9, 200e9, 256, 3.125e9, 1.5e9),
    "TPU v5e": Hardware(197e12, 16e9, 819e9, 200e9, 256, 3.125e9, 1.5e9),
    "TPU v5": Hardware(459e12, 95 * 2**30, 2.765e12, 600e9, 8960, 6.25e9),  # v5p
    "TPU v6 lite": Hardware(918e12, 32e9, 1.638e12, 448e9, 256, 12.5e9, 1.75e9),  # v6e
}


def hardware(device_kind: str) -> Hardware:
    """Returns the first entry of HARDWARE whose name is part of a device's kind, or zeros."""
    return next((sheet for name, sheet in HARDWARE.items() if name in device_kind), Hardware())
