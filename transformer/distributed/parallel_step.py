"""The compiled training step on a layout, and the parts that depend on its strategy."""

import collections
import functools
from collections.abc import Callable
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

from transformer.distributed.layout import AXES, PMAP_AXIS, ROW_AXES, Layout, Tree

# The batch.


def rows_for_devices(num_rows: int, parts: int) -> int:
    """Returns `num_rows` rounded up to a multiple of `parts`; the caller pads with empty rows."""
    return -(-num_rows // parts) * parts


def shard_batch(load_rows: Callable[[int, int], Tree], num_rows: int, layout: Layout) -> Tree:
    """Loads a global batch of `num_rows` rows, sharded for the compiled step.

    `load_rows(start, stop)` returns rows `start` to `stop`; it is called once per shard of this
    process's devices. Example: of 8 rows on 4 devices, process 1 of 2 loads (4, 6) and (6, 8).
    Returns once the rows are on the devices, so that a step need not wait for them.
    """
    indices = layout.batch_sharding.addressable_devices_indices_map((num_rows,))
    ranges = {device: index[0].indices(num_rows)[:2] for device, index in indices.items()}
    # Devices that differ only in 'tensor' hold the same rows; load them once.
    shards = {rows: load_rows(*rows) for rows in sorted(set(ranges.values()))}
    if layout.strategy == "pmap":  # [local devices, rows of a device, ...]
        in_order = [shards[ranges[device]] for device in layout.mesh.local_devices]
        batch = jax.tree.map(lambda *x: np.stack(x), *in_order)
        if jax.process_count() > 1:  # pmap takes local arrays
            return batch
        return jax.block_until_ready(jax.device_put(batch, layout.batch_sharding))

    def global_array(*arrays: np.ndarray) -> jax.Array:
        array_of_rows = dict(zip(shards, arrays, strict=True))
        shape = num_rows, *arrays[0].shape[1:]
        local = lambda index: array_of_rows[index[0].indices(num_rows)[:2]]
        return jax.make_array_from_callback(shape, layout.batch_sharding, local)

    return jax.block_until_ready(jax.tree.map(global_array, *shards.values()))


# Compiling the step.


def compile_step(train_step: Callable, layout: Layout, state: Tree) -> Callable:
    """Returns the compiled step, (state, batch) -> (state, metrics), which donates its state.

    The step is compiled at its first call. Under 'jit' its state has the shardings of `state`,
    which may be abstract; 'pmap' ignores `state`. Calls of the step are collective.
    """
    if layout.strategy == "pmap":
        return jax.pmap(
            functools.partial(train_step, axis=PMAP_AXIS),
            axis_name=PMAP_AXIS,
            in_axes=(None, 0),
            out_axes=None,
            donate_argnums=0,
            devices=list(layout.mesh.devices.flat),
        )

    def global_step(state: Tree, batch: Tree) -> tuple[Tree, Tree]:
        with nn.intercept_methods(functools.partial(_keep_rows_sharded, layout)):
            return train_step(state, batch)

    shardings = jax.tree.map(lambda x: x.sharding, state)
    inputs, outputs = (shardings, layout.batch_sharding), (shardings, layout.replicated)
    return jax.jit(global_step, in_shardings=inputs, out_shardings=outputs, donate_argnums=0)


def _keep_rows_sharded(
    layout: Layout, method: Callable, args: tuple, kwargs: dict, _: object
) -> Tree:
    """Constrains a Flax module's outputs to be sharded by rows; XLA chooses other dimensions.

    Otherwise, with params sharded over 'fsdp', XLA shards some activations by features, and moves
    them between devices instead of the smaller params.
    """

    def constrain(x: Any) -> Any:
        # Activations are [rows, positions, features, ...]. XLA decides on scalars, [B, T] outputs,
        # and arrays whose first dimension the row axes do not divide.
        if getattr(x, "ndim", 0) < 3 or x.shape[0] % layout.num_row_shards:
            return x
        spec = PartitionSpec(ROW_AXES, *[PartitionSpec.UNCONSTRAINED] * (x.ndim - 1))
        return jax.lax.with_sharding_constraint(x, NamedSharding(layout.mesh, spec))

    return jax.tree.map(constrain, method(*args, **kwargs))


# Inside the step. `axis` is the mapped axis under pmap, and None in a global program.


def random_per_device(rng: jax.Array, axis: str | None) -> jax.Array:
    """Folds the device's index into a mapped step's key, so that dropout differs by device."""
    return rng if axis is None else jax.random.fold_in(rng, jax.lax.axis_index(axis))


def sum_over_devices(tree: Tree, axis: str | None) -> Tree:
    """Sums over the mapped axis; a global program's sums are global already."""
    if axis is None or jax.lax.axis_size(axis) == 1:  # a sum over one device would copy
        return tree
    return jax.lax.psum(tree, axis)


# Beside the step.


def make_any_process(layout: Layout) -> Callable[[bool], bool]:
    """Returns a function by which processes agree whether any of them wants to stop.

    The function takes this process's flag after each step, and returns the same in all processes.
    With one process, it returns the flag. With several, it returns whether any flag was set two
    steps earlier, so that no process waits for its devices. Collective.
    """
    sums = collections.deque()  # of the latest steps' flags, still being computed
    one_per_device = NamedSharding(layout.mesh, PartitionSpec(AXES))
    sum_flags = jax.jit(jnp.sum, out_shardings=layout.replicated)

    def any_process(flag: bool) -> bool:
        if jax.process_count() == 1:
            return flag
        local = lambda _: np.array([flag], np.int32)
        flags = jax.make_array_from_callback((layout.mesh.size,), one_per_device, local)
        sums.append(sum_flags(flags))
        # After step 9, the queue holds the sums of steps 7, 8 and 9; read that of 7.
        return len(sums) > 2 and bool(sums.popleft())

    return any_process
