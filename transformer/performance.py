"""How fast training could be, and where its time goes: FLOPs, peaks of devices, traces."""

import contextlib
import logging
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import flax.linen as nn
import jax

from transformer import storage
from transformer.models.translation import Transformer

Tree = Any

WARM_UP = 10  # steps before a trace: the first ones compile

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


def least_seconds(model: nn.Module, rows: int, length: int) -> float:
    """How long a step would take at the peak of all devices; 0 if that is not known.

    A batch has `rows` of `length` positions a side. Only the Transformer's FLOPs are known.
    """
    devices = jax.devices()
    flops = len(devices) * peak(devices[0].device_kind)
    if not flops or not isinstance(model, Transformer):
        return 0.0
    return step_flops(model, rows, length, length) / flops


def step_flops(model: Transformer, rows: int, source_length: int, target_length: int) -> int:
    """The FLOPs of one training step, a multiply-add counted as two.

    Only products of matrices count, attention between all positions of a row; the backward pass is
    two of the forward pass, and recomputation is no work.
    """
    B, S, T = rows, source_length, target_length
    D, F, L, V = model.d_model, model.d_ff, model.num_layers, model.target_vocab_size
    K, C = (
        model.num_heads * (size or D // model.num_heads)
        for size in (model.key_size, model.value_size)
    )

    def attention(queries: int, keys: int) -> int:
        projections = queries * D * (K + C) + keys * D * (K + C)
        return 2 * B * (projections + queries * keys * (K + C))

    network = 2 * B * 2 * D * F
    encoder = attention(S, S) + S * network
    decoder = attention(T, T) + attention(T, S) + T * network
    return 3 * (L * (encoder + decoder) + 2 * B * T * D * V)


@contextlib.contextmanager
def traced(first: int, count: int, folder: Path) -> Iterator[Callable[[int, Tree], None]]:
    """A function to tell each finished step of a run that began at `first`, and its state.

    It traces `count` steps (0: none) into the folder. They end with the context, if it ends before.
    """
    begin, running = first + WARM_UP, False

    def stop(place: Path) -> None:
        jax.profiler.stop_trace()
        if place != folder:
            for file in filter(Path.is_file, place.rglob("*")):
                storage.write_file(folder / file.relative_to(place), file.read_bytes())
        logging.info("a trace of up to %d steps is in %s (docs/performance.md)", count, folder)

    def finished(step: int, state: Tree) -> None:
        nonlocal running
        if count and step in (begin, begin + count) and jax.process_index() == 0:
            jax.block_until_ready(state)
            running = step == begin
            if running:
                jax.profiler.start_trace(str(place), create_perfetto_trace=True)
            else:
                stop(place)

    with tempfile.TemporaryDirectory() as scratch:  # JAX writes traces on disks only
        place = Path(scratch) if storage.in_bucket(folder) else folder
        try:
            yield finished
        finally:
            if running:
                stop(place)
