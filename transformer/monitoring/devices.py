"""How fast training could be, and where its time goes: FLOPs, peaks of devices, traces."""

from typing import Any, NamedTuple

Tree = Any


# Dense bfloat16 FLOP/s of one device, by a part of its name in JAX (vendors' data sheets).
PEAKS = {
    "MIG": 0.0,  # a part of a card
    "NVL": 835e12,
    "H100 PCIe": 756e12,
    "H100": 989e12,
    "H200": 989e12,
    "A100": 312e12,
    "TPU v4 lite": 138e12,
    "TPU v4": 275e12,
    "TPU v5 lite": 197e12,
    "TPU v5e": 197e12,
    "TPU v5": 459e12,
    "TPU v6 lite": 918e12,
}


class Surroundings(NamedTuple):
    """What is around the cores of one device; bytes, and bytes/s in one direction."""

    memory: float
    inside: float  # over all of its links at once, to the devices of its island
    island: int  # how many devices these links join
    outside: float  # to all others; 0: not known


# By the names in PEAKS (vendors' data sheets and cloud.google.com/tpu/docs).
SURROUNDINGS = {
    "H100": Surroundings(80e9, 450e9, 8, 50e9),  # SXM: NVLink 4, one 400 Gb/s adapter a card
    "H200": Surroundings(141e9, 450e9, 8, 50e9),
    "A100": Surroundings(40e9, 300e9, 8, 25e9),  # NVLink 3, one 200 Gb/s adapter a card
    "TPU v4": Surroundings(32 * 2**30, 270e9, 4096, 0.0),
    "TPU v5 lite": Surroundings(16e9, 200e9, 256, 3.125e9),
    "TPU v5e": Surroundings(16e9, 200e9, 256, 3.125e9),
    "TPU v5": Surroundings(95 * 2**30, 600e9, 8960, 6.25e9),  # v5p
}


def peak(device_kind: str) -> float:
    """A device's FLOP/s; 0 if they are not known."""
    return PEAKS.get(_known(device_kind), 0.0)


def surroundings(device_kind: str) -> Surroundings | None:
    """A device's memory and links, if they are known."""
    return SURROUNDINGS.get(_known(device_kind))


def _known(device_kind: str) -> str:
    return next((name for name in PEAKS if name in device_kind), "")
