"""Data sheets of accelerators: peak FLOP/s, memory, bandwidth of memory and interconnect."""

from typing import NamedTuple

# Substring of `jax.Device.device_kind` -> dense bfloat16 FLOP/s of one device (vendors' data
# sheets). The first match counts, so a longer name stands before those that it contains ('GH200'
# before 'H200'), and 'MIG' and 'NVL', which stand beside other names, before all.
PEAKS = {
    "MIG": 0.0,  # a slice of a GPU: unknown
    "NVL": 835e12,
    "H100 PCIe": 756e12,
    "H100": 989e12,
    "GH200": 989e12,
    "H200": 989e12,
    "A100-SXM4-80GB": 312e12,
    "A100-PCIE": 312e12,
    "A100 80GB PCIe": 312e12,
    "A100": 312e12,
    "TPU v4 lite": 138e12,
    "TPU v4": 275e12,
    "TPU v5 lite": 197e12,
    "TPU v5e": 197e12,
    "TPU v5": 459e12,
    "TPU v6 lite": 918e12,
}


class Hardware(NamedTuple):
    """Memory and interconnect of one device; a bandwidth or a clock of 0 is unknown.

    An island is a set of devices with fast links (NVLink, ICI) among them.
    """

    memory_bytes: float
    memory_bandwidth: float  # bytes/s
    link_bandwidth: float  # bytes/s one way, of all of a device's fast links together
    devices_per_island: int
    network_bandwidth: float  # bytes/s one way, of a device to other islands
    clock: float = 0.0  # cycles/s: the peak over what the matrix units do in a cycle


# Name in PEAKS -> hardware (vendors' data sheets and cloud.google.com/tpu/docs). The links of PCIe
# cards depend on the machine: unknown, 0.
HARDWARE = {
    "H100": Hardware(80e9, 3.35e12, 450e9, 8, 50e9),  # SXM: NVLink 4, one 400 Gb/s adapter a GPU
    "H100 PCIe": Hardware(80e9, 2.0e12, 0.0, 1, 0.0),
    "H200": Hardware(141e9, 4.8e12, 450e9, 8, 50e9),
    "A100-SXM4-80GB": Hardware(80e9, 2.04e12, 300e9, 8, 25e9),
    "A100-PCIE": Hardware(40e9, 1.555e12, 0.0, 1, 0.0),
    "A100 80GB PCIe": Hardware(80e9, 1.935e12, 0.0, 1, 0.0),
    "A100": Hardware(40e9, 1.555e12, 300e9, 8, 25e9),  # NVLink 3, one 200 Gb/s adapter a GPU
    "TPU v4": Hardware(32 * 2**30, 1.228e12, 270e9, 4096, 0.0),
    "TPU v5 lite": Hardware(16e9, 819e9, 200e9, 256, 3.125e9, 1.5e9),
    "TPU v5e": Hardware(16e9, 819e9, 200e9, 256, 3.125e9, 1.5e9),
    "TPU v5": Hardware(95 * 2**30, 2.765e12, 600e9, 8960, 6.25e9),  # v5p
    "TPU v6 lite": Hardware(32e9, 1.638e12, 448e9, 256, 12.5e9, 1.75e9),  # v6e
}


def peak(device_kind: str) -> float:
    """Returns a device's peak bfloat16 FLOP/s; 0 if unknown."""
    return PEAKS.get(_table_key(device_kind), 0.0)


def hardware(device_kind: str) -> Hardware | None:
    """Returns a device's memory and interconnect; None if unknown."""
    return HARDWARE.get(_table_key(device_kind))


def _table_key(device_kind: str) -> str:
    """Returns the first name in PEAKS that a device's kind contains, "" if it contains none."""
    return next((name for name in PEAKS if name in device_kind), "")
