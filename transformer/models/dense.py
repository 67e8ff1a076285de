"""Matrix products and dropout in the forms that compile to the fastest programs."""

import functools
import math
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp

Array = jax.Array


glorot_uniform = nn.initializers.xavier_uniform()


def dot_general(x: Array, y: Array, dimensions: Any, **_: Any) -> Array:
    """`jax.lax.dot_general`, summed in float32 and rounded once, whatever the operands are.

    Accelerators do so anyway; for bfloat16 on CPUs it is what makes their matrix units be used.
    """
    (of_x, of_y), (batch, _) = dimensions
    count = len(of_x)
    last, first = tuple(range(x.ndim - count, x.ndim)), tuple(range(count))
    if batch or (tuple(of_x), tuple(of_y)) != (last, first):
        return _product(x, y, dimensions, x.dtype)
    # A dense layer, as a product of matrices: the gradient of y sums over one dimension then, and
    # XLA on CPUs does not have to transpose x and the output's gradient first.
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
    # That of a product whose result is of the operands' type: the other's gradient, float32, would
    # have both products of the backward pass multiply float32.
    backward = jax.vjp(lambda x, y: jax.lax.dot_general(x, y, dimensions), *operands)[1]
    return backward(gradient.astype(operands[0].dtype))


_product.defvjp(_product_forward, _product_backward)


class Dropout(nn.Module):
    """Sets numbers to zero at random and makes up for it (Srivastava et al. 2014; paper 5.4).

    Half a random word decides on a number, so `rate` is kept to 2^-17. Random words are a fifth of
    a training step's time on a CPU if a whole one is drawn for each, as flax's module does.
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
        halves = jax.lax.bitcast_convert_type(words, jnp.uint16).reshape(*shape[:-1], -1)
        scaled = (x.astype(jnp.float32) * (2**16 / kept)).astype(x.dtype)
        return jnp.where(halves[..., : x.shape[-1]] < kept, scaled, 0)


def logits(x_BTD: Array, matrix_VD: Array) -> Array:
    """What the softmax over the vocabulary is of (paper 3.4): [B, T, V] in float32."""
    matrix_VD = matrix_VD.astype(x_BTD.dtype)
    if x_BTD.shape[0] * x_BTD.shape[1] <= 8 and x_BTD.dtype == jnp.float32:
        # A sentence's beams: reading the matrix is the work. CPUs do it twice as fast this way.
        return jnp.moveaxis(jnp.einsum("VD,BTD->VBT", matrix_VD, x_BTD), 0, -1)
    # einsum("BTD,VD->BTV")
    return _product(x_BTD, matrix_VD, (((2,), (1,)), ((), ())), jnp.float32)
