"""Params replicated on one process's devices, and rows sharded over them, for inference.

In evaluation and decoding each process works by itself, on its own share of the data.
"""

from typing import Any

import jax
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

from transformer.distributed.layout import PMAP_AXIS, Layout, local_replicas

Tree = Any


def gather_params(params: Tree, layout: Layout) -> Tree:
    """Returns a training state's params, replicated on this process's devices. Collective."""
    if layout.strategy == "jit":
        # The all-gather of sharded params: an identity whose output is replicated.
        params = jax.jit(_identity, out_shardings=layout.replicated)(params)
    return local_replicas(params)


def num_devices(params: Tree) -> int:
    """Returns how many devices hold the params.

    `shard_rows` takes arrays whose number of rows is a multiple of this.
    """
    leaf = jax.tree.leaves(params)[0]
    return len(leaf.sharding.device_set) if isinstance(leaf, jax.Array) else 1


def shard_rows(tree: Tree, params: Tree) -> Tree:
    """Shards arrays by their first dimension over the params' devices, and replicates scalars."""
    if num_devices(params) == 1:
        return tree
    replicated = jax.tree.leaves(params)[0].sharding
    by_rows = NamedSharding(replicated.mesh, PartitionSpec(PMAP_AXIS))
    shardings = jax.tree.map(lambda x: by_rows if np.ndim(x) else replicated, tree)
    return jax.device_put(tree, shardings)


def _identity(tree: Tree) -> Tree:  # one function, so that jit compiles it once
    return tree
