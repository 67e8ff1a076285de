"""One device -> many: the only file that knows that there are many.

A train step is written once, `train_step(state, batch, *, axis=None)`. 'pmap' runs it on every
device with its part of the batch, and the step sums over the mapped `axis` itself; 'jit' runs it as
one global program whose batch is sharded, and XLA finds the sums. Either can go on where the other
stopped: the state is the same.
"""

import functools
from collections.abc import Callable
from typing import Any

import jax
from jax.sharding import (
    AxisType,
    Mesh,
    NamedSharding,
    PartitionSpec,
    Sharding,
    SingleDeviceSharding,
)

Tree = Any

STRATEGIES = ("pmap", "jit")
AXIS = "data"


def data_mesh(num_devices: int = 0) -> Mesh:
    """All devices in a row (or the first `num_devices`), along the batch."""
    devices = jax.devices()[: num_devices or None]
    return jax.make_mesh((len(devices),), (AXIS,), axis_types=(AxisType.Auto,), devices=devices)


def replicated(mesh: Mesh) -> NamedSharding:
    """The sharding of the state under both strategies: whole on every device."""
    return NamedSharding(mesh, PartitionSpec())


def one_device() -> Sharding:
    """Whole on the first device that this process has."""
    return SingleDeviceSharding(jax.local_devices()[0])


def compile_step(train_step: Callable, strategy: str, mesh: Mesh) -> Callable:
    """The compiled (state, batch) -> (state, metrics); it reuses the memory of the state."""
    if strategy == "pmap":
        return jax.pmap(
            functools.partial(train_step, axis=AXIS),
            axis_name=AXIS,
            in_axes=(None, 0),
            out_axes=None,
            donate_argnums=0,
            devices=list(mesh.devices.flat),
        )
    if strategy == "jit":
        whole, rows = replicated(mesh), NamedSharding(mesh, PartitionSpec(AXIS))
        return jax.jit(
            train_step, in_shardings=(whole, rows), out_shardings=whole, donate_argnums=0
        )
    raise ValueError(f"config.parallel.strategy is one of {STRATEGIES}, found {strategy!r}")


def padded_rows(num_rows: int, mesh: Mesh, accumulate: int) -> int:
    """`num_rows` and the empty rows it takes for every device and micro-batch to get as many."""
    parts = mesh.size * accumulate
    return -(-num_rows // parts) * parts


def host_rows(num_rows: int) -> tuple[int, int]:
    """The rows (start, stop) of the global batch that this process has to load."""
    share = num_rows // jax.process_count()
    return jax.process_index() * share, (jax.process_index() + 1) * share


def place(batch: Tree, strategy: str, mesh: Mesh) -> Tree:
    """This process's rows, as the compiled step wants them."""
    if strategy == "pmap":
        devices = len(mesh.local_devices)
        return jax.tree.map(lambda x: x.reshape(devices, -1, *x.shape[1:]), batch)
    rows = NamedSharding(mesh, PartitionSpec(AXIS))
    return jax.tree.map(lambda x: jax.make_array_from_process_local_data(rows, x), batch)


def micro_batches(batch: Tree, accumulate: int) -> Tree:
    """[rows, ...] -> [accumulate, rows / accumulate, ...], each part from every device's rows."""
    return jax.tree.map(lambda x: x.reshape(-1, accumulate, *x.shape[1:]).swapaxes(0, 1), batch)


def random_per_device(rng: jax.Array, axis: str | None) -> jax.Array:
    """A mapped step's own key: with one for all, every device would drop the same units."""
    return rng if axis is None else jax.random.fold_in(rng, jax.lax.axis_index(axis))


def sum_over_devices(tree: Tree, axis: str | None) -> Tree:
    """The sum over the mapped axis; the global program's sums are global already."""
    return tree if axis is None else jax.lax.psum(tree, axis)


def on_one_device(tree: Tree) -> Tree:
    """A replicated tree as arrays of this process's first device."""
    return jax.tree.map(lambda x: jax.device_put(x.addressable_data(0), one_device()), tree)
