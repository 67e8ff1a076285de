"""Replicated params and rows of a batch on one process's devices, for validation and decoding."""

from typing import Any

import jax
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

from transformer.distributed.layout import AXIS, Layout, local_replicas

Tree = Any


def gather_params(params: Tree, layout: Layout) -> Tree:
    """The params that are trained, as decoding and evaluation want them."""
    if layout.strategy == "jit":
        params = jax.jit(_same, out_shardings=layout.replicated)(params)
    return local_replicas(params)


def num_devices(params: Tree) -> int:
    """How many devices such params are on: rows have to be a multiple of it."""
    leaf = jax.tree.leaves(params)[0]
    return len(leaf.sharding.device_set) if isinstance(leaf, jax.Array) else 1


def shard_rows(tree: Tree, params: Tree) -> Tree:
    """Arrays split by rows over the devices that the params are on; numbers on each."""
    if num_devices(params) == 1:
        return tree
    replicated = jax.tree.leaves(params)[0].sharding
    rows = NamedSharding(replicated.mesh, PartitionSpec(AXIS))
    return jax.device_put(tree, jax.tree.map(lambda x: rows if np.ndim(x) else replicated, tree))


def _same(tree: Tree) -> Tree:
    return tree
