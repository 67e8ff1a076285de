"""Linear maps, dropout, GELU, and sums over blocks that save memory.

Dropout and GELU are faster forms of `flax.linen.Dropout` and `flax.linen.gelu`;
docs/performance.md has the measurements.
"""

import functools
import math
from collections.abc import Callable

import flax.linen as nn
import jax
import jax.numpy as jnp

from transformer.models import kernels

Array = jax.Array


def _compiled(initialiser: Callable[..., Array]) -> Callable[..., Array]:
    """Returns an initialiser that compiles once and has the same bits inside and outside `jit`."""
    return jax.jit(initialiser, static_argnums=(1, 2))


@functools.cache
def normal(stddev: float) -> Callable[..., Array]:
    """Returns a normal initialiser."""
    return _compiled(nn.initializers.normal(stddev))


glorot_uniform = _compiled(nn.initializers.xavier_uniform())
# Embeddings of variance 1 / D, as in flax.
_unit_rows = nn.initializers.variance_scaling(1.0, "fan_in", "normal", out_axis=0)
embed = functools.partial(nn.Embed, embedding_init=_compiled(_unit_rows))


def linear(
    dtype: jnp.dtype, kind: Callable[..., nn.Module] | None = None, **options: object
) -> Callable[..., nn.Module]:
    """Returns the constructor of `kind`, by default nn.Dense, with Glorot's initial matrices.

    It computes by `kernels.chosen`.
    """
    options |= {"kernel_init": glorot_uniform, "dot_general": kernels.chosen().dot_general}
    return functools.partial(kind or kernels.chosen().dense, dtype=dtype, **options)


def einsum(letters: str, *operands: Array) -> Array:
    """Returns `jnp.einsum` in the operands' dtype, computed by `kernels.chosen`."""
    return jnp.einsum(letters, *operands, _dot_general=kernels.chosen().dot_general)


class Dropout(nn.Module):
    """Sets elements to zero with probability `rate`, and scales the rest by 1 / (1 - rate).

    Srivastava et al. 2014; paper 5.4. Each element takes 16 random bits, so the rate is right to
    2^-17. A 32-bit word per element, as in flax, is a fifth of a training step's time on a CPU.
    """

    rate: float

    @nn.compact
    def __call__(self, x: Array, *, deterministic: bool) -> Array:
        if deterministic or self.rate <= 2**-17:  # which keeps all 2^16 values of the bits
            return x
        shape = (*x.shape[:-1], -(-x.shape[-1] // 2))
        words = kernels.chosen().random_words(self.make_rng("dropout"), shape)
        # All low halves, then all high ones, and one too many if D is odd. TPUs and CPUs would
        # first have to convert the interleaved layout of a bitcast.
        halves = jnp.concatenate([words & 0xFFFF, words >> 16], axis=-1)[..., : x.shape[-1]]
        return drop(x, halves, self.rate)


def drop(x: Array, halves: Array, rate: float) -> Array:
    """Returns dropout of x for the 16 random bits of each element."""
    kept = round((1 - rate) * 2**16)
    scaled = (x.astype(jnp.float32) * (2**16 / max(kept, 1))).astype(x.dtype)
    return jnp.where(halves < kept, scaled, 0)


# Checkpointed, because the backward pass recomputes it in less time than reading it from memory.
@jax.checkpoint
def gelu(x: Array) -> Array:
    """Returns x times the probability that a standard normal variable is below x.

    Hendrycks and Gimpel 2016. It is right to 1e-6, and 0 below -5.5. flax's GELU has all digits and
    takes twice as long on CPUs.
    """
    wide = x.astype(jnp.float32)  # in bfloat16, 1 + erf would lose most digits
    return (0.5 * wide * (1 + jax.lax.erf(wide * 0.5**0.5))).astype(x.dtype)


def logits(x_BTD: Array, matrix_VD: Array, dtype: jnp.dtype = jnp.float32) -> Array:
    """Returns logits [B, T, V] in `dtype`: einsum("BTD,VD->BTV") of operands in the dtype of x."""
    return kernels.chosen().logits(x_BTD, matrix_VD.astype(x_BTD.dtype), dtype)


def split(array: Array, blocks: int) -> Array:
    """Returns [B, T, ...] as n = gcd(blocks, T) equal blocks, [n, B, T / n, ...].

    With blocks = 4, T = 128 gives 4 blocks of 32, and T = 66 gives 2 blocks of 33.
    """
    # Blocks are the first axis, because lax.map and lax.scan loop over it. T is divided, because B
    # is sharded.
    B, T, *rest = array.shape
    blocks = math.gcd(blocks, T)
    return array.reshape(B, blocks, T // blocks, *rest).swapaxes(0, 1)


# The forward pass also computes the gradient, while a block's logits are in memory. The backward
# pass only scales it by the cotangent. jax.checkpoint would compute the logits twice, at 11 % of a
# step of the base model.
@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def sum_over_blocks(
    loss: Callable, x_blocks: Array, matrices: list, targets: Array, weights: Array
) -> dict[str, Array]:
    """Returns the sums over all blocks of loss(x, matrices, targets, weights) -> (loss, sums).

    `x_blocks` is [blocks, B, T / blocks, D]; targets and weights are [blocks, B, T / blocks]. Only
    sums["loss"] has a gradient, with respect to x and the matrices.
    """
    return _sum_over_blocks_forward(loss, x_blocks, matrices, targets, weights)[0]


def _sum_over_blocks_forward(
    loss: Callable, x_blocks: Array, matrices: list, targets: Array, weights: Array
) -> tuple:
    gradient = jax.grad(loss, argnums=(0, 1), has_aux=True)

    def add(total: tuple, block: tuple) -> tuple:
        x_BTD, targets_BT, weights_BT = block
        (x_gradient, gradients), sums = gradient(x_BTD, matrices, targets_BT, weights_BT)
        return jax.tree.map(jnp.add, total, (sums, gradients)), x_gradient

    # Add up the sums and the matrices' gradients; each block has its own gradient of x.
    _, sums = jax.eval_shape(loss, x_blocks[0], matrices, targets[0], weights[0])
    zeros = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), (sums, matrices))
    (sums, gradients), x_gradients = jax.lax.scan(add, zeros, (x_blocks, targets, weights))
    return sums, (x_gradients, gradients)


def _sum_over_blocks_backward(loss: Callable, gradients: tuple, cotangents: dict) -> tuple:
    scale = lambda gradient: (gradient * cotangents["loss"]).astype(gradient.dtype)
    return (*jax.tree.map(scale, gradients), None, None)  # targets and weights have no gradient


sum_over_blocks.defvjp(_sum_over_blocks_forward, _sum_over_blocks_backward)
