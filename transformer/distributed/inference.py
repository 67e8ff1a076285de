"""Replicated params and rows of a batch on one process's devices, for validation and decoding."""

from typing import Any

import jax
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

from transformer.distributed.layout import AXIS, Layout, own

Tree = Any


def gathered(parameters: Tree, layout: Layout) -> Tree:
    """The parameters that are trained, as decoding and evaluation want them."""
    if layout.strategy == "jit":
        parameters = jax.jit(_same, out_shardings=layout.whole)(parameters)
    return own(parameters)


def num_devices(parameters: Tree) -> int:
    """How many devices such parameters are on: rows have to be a multiple of it."""
    leaf = jax.tree.leaves(parameters)[0]
    return len(leaf.sharding.device_set) if isinstance(leaf, jax.Array) else 1


def by_rows(tree: Tree, parameters: Tree) -> Tree:
    """Arrays split by rows over the devices that the parameters are on; numbers on each."""
    if num_devices(parameters) == 1:
        return tree
    whole = jax.tree.leaves(parameters)[0].sharding
    rows = NamedSharding(whole.mesh, PartitionSpec(AXIS))
    return jax.device_put(tree, jax.tree.map(lambda x: rows if np.ndim(x) else whole, tree))


def _same(tree: Tree) -> Tree:
    return tree
