"""config.kernels='tuned': the loss's sums, the update's branch, the gradient's norm, random bits.

Matrix products are in products.py. `advise` names the dtype in which they are fastest.
"""

import functools
import logging
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from transformer.families.kernels import products
from transformer.models import kernels
from transformer.runtime import startup

Array = jax.Array
Tree = Any


def class_sums(logits_BTV: Array, targets_BT: Array) -> tuple[Array, Array, Array, Array]:
    """Returns log normaliser, gold logit, sum and maximum over the classes, [B, T] in float32."""
    logits_BTV = logits_BTV.astype(jnp.float32)
    plain = kernels.PLAIN.class_sums
    return jax.lax.platform_dependent(logits_BTV, targets_BT, cpu=plain, default=in_one_pass)


def in_one_pass(logits_BTV: Array, targets_BT: Array) -> tuple[Array, Array, Array, Array]:
    """Returns `class_sums` of float32 logits, reading each logit few times."""
    # All sums are over logits minus the highest, which takes one pass. The gradient of an index
    # would be a scatter into zeros [B, T, V], 15 of the 127 GB that a step of base moved.
    V = logits_BTV.shape[-1]
    highest_BT = jax.lax.stop_gradient(logits_BTV.max(axis=-1))
    logits_BTV -= highest_BT[..., None]
    is_gold_BTV = jnp.arange(V) == targets_BT[..., None]
    gold_BT = jnp.where(is_gold_BTV, logits_BTV, 0.0).sum(axis=-1)
    gold_BT = jnp.where((targets_BT >= 0) & (targets_BT < V), gold_BT, jnp.nan)  # as by index
    log_normaliser_BT = jnp.log(jnp.exp(logits_BTV).sum(axis=-1))
    sum_BT = logits_BTV.sum(axis=-1) + V * highest_BT
    return log_normaliser_BT + highest_BT, gold_BT + highest_BT, sum_BT, highest_BT


def cond(finite: Array, update: Callable, keep: Callable, *operands: Tree) -> Tree:
    """Returns update(*operands) or keep(*operands), as `jax.lax.cond`.

    CPUs branch. With `where`, XLA computes Adam's moments twice, from copies of the old moments,
    and a step of base takes 1.05 times as long. On TPUs the branch is slower by as much, by the
    compiler's estimate. GPUs were not measured.
    """
    update = jax.jit(update)  # traced once, for both platforms

    def select(*operands: Tree) -> Tree:
        choose = lambda new, old: jnp.where(finite, new, old)
        return jax.tree.map(choose, update(*operands), keep(*operands))

    branch = functools.partial(jax.lax.cond, finite, update, keep)
    return jax.lax.platform_dependent(*operands, cpu=branch, default=select)


def norm(tree: Tree, axis: str | None) -> Array:
    """Returns the square root of the sum of all squares."""
    if axis is None:  # because concatenation would move sharded arrays
        return kernels.PLAIN.norm(tree, axis)
    squares = [jnp.square(x) for x in jax.tree.leaves(tree)]
    rows = [x.sum(axis=-1).ravel() if x.ndim > 1 else x.ravel() for x in squares]
    # Without a barrier XLA sums each array separately, in 180 of base's kernels on a GPU.
    return jnp.sqrt(jax.lax.optimization_barrier(jnp.concatenate(rows)).sum())


def random_words(key: Array, shape: tuple[int, ...]) -> Array:
    """Returns random uint32; on NVIDIA's GPUs by `hashed`, else by JAX's generator."""
    hashes = functools.partial(hashed, shape=shape)
    bits = functools.partial(jax.random.bits, shape=shape)
    return jax.lax.platform_dependent(key, cuda=hashes, default=bits)


def hashed(key: Array, shape: tuple[int, ...]) -> Array:
    """Returns hashes of each element's row and column, uint32.

    A GPU computes them in the kernel that drops, once more in the backward pass, and stores
    nothing: by the compiler's program a step of base moves 91.2 instead of 95.4 GB. The twenty
    rounds of threefry do not fit into that kernel. A CPU takes as long for either.
    """
    rows = jnp.arange(math.prod(shape[:-1]), dtype=jnp.uint32).reshape(*shape[:-1], 1)
    columns = jnp.arange(shape[-1], dtype=jnp.uint32)
    # Threefry's keys have two words, rbg's four.
    return words(jax.random.key_data(key)[:2], rows, columns)


def words(key: Array, rows: Array, columns: Array) -> Array:
    """Returns the hashes of rows and columns, whose shapes broadcast; a key has two words."""
    # Columns are mixed once more, so that words (r, c) and (c, r) differ for equal halves of a key.
    return mixed(mixed(rows ^ key[0]) + mixed(mixed(columns ^ key[1])))


def mixed(x: Array) -> Array:
    """Returns a permutation of uint32 of which each input bit flips about half of the output's.

    Its constants are those of Wellons's lowbias32 (2018).
    """
    for shift, factor in ((16, 0x7FEB352D), (15, 0x846CA68B), (16, 1)):
        x = (x ^ (x >> shift)) * jnp.uint32(factor)
    return x


def advise(dtype: str | None) -> None:
    """Logs that bfloat16 is faster than float32 on a CPU with AMX, Intel's matrix units.

    Measured on two cores of a Xeon by `benchmarks.decode --model small --batch 32`: 6,228 target
    tokens/s in bfloat16, 3,735 in float32; with `--batch 1` 613 and 758.
    """
    is_cpu = jax.default_backend() == "cpu"
    if dtype == "float32" and is_cpu and "amx_bf16" in startup.cpu_features():
        logging.info(
            "this CPU has AMX, and the model computes in float32: --config.model.dtype=bfloat16 "
            "translates faster (a small model: 1.67 times with 32 lines a batch, 0.81 with one)"
        )


TUNED = kernels.PLAIN._replace(
    dot_general=products.dot_general,
    dense=products.Dense,
    logits=products.logits,
    class_sums=class_sums,
    cond=cond,
    norm=norm,
    random_words=random_words,
    advise=advise,
)
