"""The compiled training step on many devices: shard the batch, sum over devices, agree."""

import collections
import functools
from collections.abc import Callable
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

from transformer.distributed.layout import AXES, AXIS, ROWS, Layout

Tree = Any


# The step.


def compile_step(train_step: Callable, layout: Layout, state: Tree) -> Callable:
    """The compiled (state, batch) -> (state, metrics); it reuses the memory of the state.

    Of `state`, only shapes and shardings matter, which are those of the one that comes out.
    """
    if layout.strategy == "pmap":
        return jax.pmap(
            functools.partial(train_step, axis=AXIS),
            axis_name=AXIS,
            in_axes=(None, 0),
            out_axes=None,
            donate_argnums=0,
            devices=list(layout.mesh.devices.flat),
        )

    def spread_step(state: Tree, batch: Tree) -> tuple[Tree, Tree]:
        with nn.intercept_methods(functools.partial(_keep_rows_sharded, layout)):
            return train_step(state, batch)

    shardings = jax.tree.map(lambda x: x.sharding, state)
    return jax.jit(
        spread_step,
        in_shardings=(shardings, layout.batch_sharding),
        out_shardings=(shardings, layout.replicated),
        donate_argnums=0,
    )


def _keep_rows_sharded(
    layout: Layout, method: Callable, args: tuple, kwargs: dict, _: object
) -> Tree:
    """Keeps what a module gives out split by rows; its other dimensions are as XLA likes them.

    With parameters split over 'fsdp', XLA would otherwise split activations by features here and
    there, and send these instead of parameters.
    """

    def keep(x: Any) -> Any:
        if getattr(x, "ndim", 0) < 3 or x.shape[0] % layout.row_parts:
            return x
        others = [PartitionSpec.UNCONSTRAINED] * (x.ndim - 1)
        spec = PartitionSpec(ROWS, *others)
        return jax.lax.with_sharding_constraint(x, NamedSharding(layout.mesh, spec))

    return jax.tree.map(keep, method(*args, **kwargs))


def rows_for_devices(num_rows: int, parts: int) -> int:
    """`num_rows` rounded up to a multiple of `parts`: the rows added are empty."""
    return -(-num_rows // parts) * parts


def shard_batch(load: Callable[[int, int], Tree], num_rows: int, layout: Layout) -> Tree:
    """The batch of `num_rows` rows as the compiled step wants it.

    load(start, stop) gives the rows from `start` to `stop`; it is asked for those that this
    process's devices want.
    """
    wanted = layout.batch_sharding.addressable_devices_indices_map((num_rows,))
    ranges = {device: index[0].indices(num_rows)[:2] for device, index in wanted.items()}
    parts = {rows: load(*rows) for rows in sorted(set(ranges.values()))}
    if layout.strategy == "pmap":
        own = [parts[ranges[device]] for device in layout.mesh.local_devices]
        return jax.tree.map(lambda *x: np.stack(x), *own)

    def spread_rows(*of_parts: np.ndarray) -> jax.Array:
        found = dict(zip(parts, of_parts, strict=True))
        return jax.make_array_from_callback(
            (num_rows, *of_parts[0].shape[1:]),
            layout.batch_sharding,
            lambda index: found[index[0].indices(num_rows)[:2]],
        )

    return jax.tree.map(spread_rows, *parts.values())


def micro_batches(batch: Tree, accumulate: int) -> Tree:
    """[rows, ...] -> [accumulate, rows / accumulate, ...], each part from every device's rows."""
    return jax.tree.map(lambda x: x.reshape(-1, accumulate, *x.shape[1:]).swapaxes(0, 1), batch)


def random_per_device(rng: jax.Array, axis: str | None) -> jax.Array:
    """A mapped step's own key: with one for all, every device would drop the same units."""
    return rng if axis is None else jax.random.fold_in(rng, jax.lax.axis_index(axis))


def sum_over_devices(tree: Tree, axis: str | None) -> Tree:
    """The sum over the mapped axis; the global program's sums are global already."""
    return tree if axis is None else jax.lax.psum(tree, axis)


def agreement(layout: Layout) -> Callable[[bool], bool]:
    """A function to tell, after each step, whether this process asks for something.

    It says whether any of them does, to all of them after the same step, which is the second one
    after that: nobody waits.
    """
    flags = collections.deque()
    split = NamedSharding(layout.mesh, PartitionSpec(AXES))
    count = jax.jit(jnp.sum, out_shardings=layout.replicated)

    def agreed(asks: bool) -> bool:
        if jax.process_count() == 1:
            return asks
        flag = lambda _: np.array([asks], np.int32)
        flags.append(count(jax.make_array_from_callback((layout.mesh.size,), split, flag)))
        return len(flags) > 2 and bool(flags.popleft())

    return agreed
