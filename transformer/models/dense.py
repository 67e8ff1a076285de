"""Matrix products and dropout, in the forms that compile to the fastest programs.

They compute what `jax.lax.dot_general` and `flax.linen.Dropout` do; docs/performance.md has the
measurements.
"""

import functools
import math
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp

Array = jax.Array

glorot_uniform = nn.initializers.xavier_uniform()
# Up to so many rows, about one step of a sentence's beams, `logits` is bound by reading its matrix.
FEW_ROWS = 8


def dot_general(x: Array, y: Array, dimensions: Any, **_: Any) -> Array:
    """Returns `jax.lax.dot_general`, summed in float32 and rounded once, to the type of x.

    Accelerators sum bfloat16 products in float32 anyway. On CPUs it is what uses the units for
    bfloat16: 1.5 to 2 times the rate of float32 with AVX-512, about 5 times with AMX. flax also
    passes `precision`, which is ignored.
    """
    (of_x, of_y), (batch, _) = dimensions
    count = len(of_x)
    last, first = tuple(range(x.ndim - count, x.ndim)), tuple(range(count))
    if batch or (tuple(of_x), tuple(of_y)) != (last, first):
        return _product(x, y, dimensions, x.dtype)
    # A dense layer: the last dimensions of x, here K, by the first of y. As a product of two
    # matrices, [B * T, K] x [K, H * C] for [B, T, K] x [K, H, C], the gradient of y is a sum over
    # one dimension, and XLA on CPUs need not transpose x and the output's gradient first. With
    # Dropout below, a step takes 0.46 instead of 0.57 s (small), 1.53 instead of 1.78 s (base).
    rows, columns = x.shape[:-count], y.shape[count:]
    x = x.reshape(math.prod(rows), -1)
    y = y.reshape(-1, math.prod(columns))
    return _product(x, y, (((1,), (0,)), ((), ())), x.dtype).reshape(*rows, *columns)


@functools.partial(jax.custom_vjp, nondiff_argnums=(2, 3))
def _product(x: Array, y: Array, dimensions: Any, dtype: jnp.dtype) -> Array:
    product = jax.lax.dot_general(x, y, dimensions, preferred_element_type=jnp.float32)
    return product.astype(dtype)


def _product_forward(
    x: Array, y: Array, dimensions: Any, dtype: jnp.dtype
) -> tuple[Array, tuple[Array, Array]]:
    return _product(x, y, dimensions, dtype), (x, y)


def _product_backward(
    dimensions: Any, dtype: jnp.dtype, operands: tuple[Array, Array], gradient: Array
) -> tuple[Array, Array]:
    # As if the result had the operands' type. Autodiff of a float32 result has a float32 gradient,
    # and both products of the backward pass would multiply float32.
    backward = jax.vjp(lambda x, y: jax.lax.dot_general(x, y, dimensions), *operands)[1]
    return backward(gradient.astype(operands[0].dtype))


_product.defvjp(_product_forward, _product_backward)


class Dropout(nn.Module):
    """Sets elements to zero with probability `rate`, scales the others by 1 / (1 - rate).

    Srivastava et al. 2014; paper 5.4. Half a random word, 16 bits, decides on an element, so the
    rate is right to 2^-17. A whole word each, as in flax's module, is a fifth of a training step's
    time on a CPU.
    """

    rate: float

    @nn.compact
    def __call__(self, x: Array, *, deterministic: bool) -> Array:
        kept = round((1 - self.rate) * 2**16)
        if deterministic or kept == 2**16:
            return x
        if not kept:
            return jnp.zeros_like(x)
        shape = (*x.shape[:-1], -(-x.shape[-1] // 2))
        words = jax.random.bits(self.make_rng("dropout"), shape, jnp.uint32)
        # [..., ceil(D / 2)] words are [..., ceil(D / 2), 2] halves: one too many where D is odd.
        halves = jax.lax.bitcast_convert_type(words, jnp.uint16).reshape(*shape[:-1], -1)
        scaled = (x.astype(jnp.float32) * (2**16 / kept)).astype(x.dtype)
        return jnp.where(halves[..., : x.shape[-1]] < kept, scaled, 0)


def logits(x_BTD: Array, matrix_VD: Array) -> Array:
    """Returns logits [B, T, V] in float32: einsum("BTD,VD->BTV") in the type of x."""
    matrix_VD = matrix_VD.astype(x_BTD.dtype)
    if x_BTD.shape[0] * x_BTD.shape[1] <= FEW_ROWS and x_BTD.dtype == jnp.float32:
        # CPUs read the matrix twice as fast if it is the left operand.
        return jnp.moveaxis(jnp.einsum("VD,BTD->VBT", matrix_VD, x_BTD), 0, -1)
    return _product(x_BTD, matrix_VD, (((2,), (1,)), ((), ())), jnp.float32)
