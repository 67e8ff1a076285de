"""Matrix products, dropout, GELU, sums over blocks, in forms that are fast or take little memory.

The first three compute what `jax.lax.dot_general`, `flax.linen.Dropout` and `flax.linen.gelu` do;
docs/performance.md has the measurements.
"""

import functools
import math
import string
from collections.abc import Callable
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

    Accelerators sum bfloat16 products in float32 anyway (on a 'tensor' mesh each device its part).
    On CPUs it is what uses the units for bfloat16: 1.5 to 2 times the rate of float32 with AVX-512,
    about 5 times with AMX. flax also passes `precision`, which is ignored.
    """
    return _product(x, y, dimensions, x.dtype)


@functools.partial(jax.custom_vjp, nondiff_argnums=(2, 3))
def _product(x: Array, y: Array, dimensions: Any, dtype: jnp.dtype) -> Array:
    def in_float32(x: Array, y: Array) -> Array:
        product = jax.lax.dot_general(x, y, dimensions, preferred_element_type=jnp.float32)
        return product.astype(dtype)

    if dtype == jnp.float32:
        return in_float32(x, y)
    # Accelerators sum in float32 anyway; asked for float32, they would write some products in it.
    as_it_is = functools.partial(
        jax.lax.dot_general, dimension_numbers=dimensions, preferred_element_type=dtype
    )
    return jax.lax.platform_dependent(x, y, cpu=in_float32, default=as_it_is)


def _product_forward(
    x: Array, y: Array, dimensions: Any, dtype: jnp.dtype
) -> tuple[Array, tuple[Array, Array]]:
    return _product(x, y, dimensions, dtype), (x, y)


def _product_backward(
    dimensions: Any, dtype: jnp.dtype, operands: tuple[Array, Array], gradient: Array
) -> tuple[Array, Array]:
    # Of operands of one type, summed in float32, as in the forward pass. Autodiff of a product of
    # bfloat16 to float32 would multiply float32, that of one to bfloat16 would sum bfloat16, for
    # which XLA on CPUs has no fast product.
    x, y = operands
    gradient = gradient.astype(x.dtype)
    x_letters, y_letters, product_letters = _letters(x.ndim, y.ndim, dimensions)
    product = functools.partial(jnp.einsum, preferred_element_type=jnp.float32)
    x_gradient = product(f"{product_letters},{y_letters}->{x_letters}", gradient, y).astype(x.dtype)
    y_gradient = product(f"{x_letters},{product_letters}->{y_letters}", x, gradient).astype(y.dtype)
    (contracted, _), (batch, _) = dimensions
    last = x_letters[-len(contracted) :]
    if not batch and y_letters.startswith(last):  # a dense layer, x_BTD and y_DF
        pair = x, gradient
    elif not batch and y_letters.endswith(last):  # the logits, x_BTD and y_VD
        pair = gradient, x
    else:
        return x_gradient, y_gradient
    y_gradient = jax.lax.platform_dependent(*pair, y_gradient, cpu=_as_matrices, default=_unchanged)
    return x_gradient, y_gradient


def _letters(x_ndim: int, y_ndim: int, dimensions: Any) -> tuple[str, str, str]:
    """Returns einsum's letters for the dimensions of x, of y and of their product.

    Example: 'abc', 'cB' and 'abB' for x_BTD and y_DF.
    """
    (contracted_x, contracted_y), (batch_x, batch_y) = dimensions
    x_letters = string.ascii_lowercase[:x_ndim]
    same = dict(zip((*contracted_y, *batch_y), (*contracted_x, *batch_x), strict=True))
    y_letters = "".join(
        x_letters[same[i]] if i in same else string.ascii_uppercase[i] for i in range(y_ndim)
    )
    contracted = {x_letters[i] for i in contracted_x}
    batch = "".join(x_letters[i] for i in batch_x)
    x_rest = "".join(c for c in x_letters if c not in contracted and c not in batch)
    y_rest = "".join(c for c in y_letters if c not in x_letters)
    return x_letters, y_letters, batch + x_rest + y_rest


def _as_matrices(x: Array, y: Array, product: Array) -> Array:
    """Sums over the first dimensions of x and y, as a product of two matrices.

    The result has the shape and type of `product`. Example: x_BTD and y_BTHK become [B * T, D] and
    [B * T, H * K]. With one dimension to sum over, XLA on CPUs need not transpose both first. With
    Dropout below, a step takes 0.46 instead of 0.57 s (small), 1.53 instead of 1.78 s (base).
    """
    summed = (x.ndim + y.ndim - product.ndim) // 2
    rows = math.prod(x.shape[:summed])
    x, y = x.reshape(rows, -1), y.reshape(rows, -1)
    D, F = x.shape[1], y.shape[1]
    if x.dtype == jnp.float32 and D >= 2 * F and F % 2 == 0 and rows >= 512:
        # CPUs multiply float32 [F, N] x [N, D] up to 1.8 times as fast as [D, N] x [N, F], if F is
        # the smaller. From a few hundred rows on that pays for the transpose.
        matrix = jax.lax.dot_general(y, x, (((0,), (0,)), ((), ())))
        return _transposed(matrix).reshape(product.shape)
    contracted = 0
    if x.dtype == jnp.bfloat16 and rows % 2 == 0:
        # CPUs multiply bfloat16 [D, N] x [N, F] three times as fast as [N, D] x [N, F].
        x, contracted = _transposed(x), 1
    dimensions = ((contracted,), (0,)), ((), ())
    matrix = jax.lax.dot_general(x, y, dimensions, preferred_element_type=jnp.float32)
    return matrix.astype(product.dtype).reshape(product.shape)


def _transposed(matrix: Array) -> Array:
    """Transposes a matrix of an even number of rows, as two halves.

    XLA on CPUs would make a plain transpose a part of the product before or behind it.
    """
    rows, columns = matrix.shape
    return matrix.reshape(2, rows // 2, columns).transpose(2, 0, 1).reshape(columns, rows)


def _unchanged(x: Array, y: Array, product: Array) -> Array:
    """Returns the product over two dimensions.

    A TPU keeps heads of 64 features in another order, and would copy them for a reshape: 4.2 ms of
    base's 22.8 on eight of them, by its compiler's estimate (docs/scaling.md).
    """
    del x, y
    return product


_product.defvjp(_product_forward, _product_backward)


def linear(
    dtype: jnp.dtype, kind: Callable[..., nn.Module] = nn.Dense, **options: Any
) -> Callable[..., nn.Module]:
    """Returns the constructor of linear maps, `kind`, by `dot_general` and with Glorot's values."""
    return functools.partial(
        kind, kernel_init=glorot_uniform, dtype=dtype, dot_general=dot_general, **options
    )


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
        # The low halves of all words, then the high ones, and one too many where D is odd. Low and
        # high in turn (a bitcast) is a layout that TPUs and CPUs must first bring into this one.
        halves = jnp.concatenate([words & 0xFFFF, words >> 16], axis=-1)[..., : x.shape[-1]]
        scaled = (x.astype(jnp.float32) * (2**16 / kept)).astype(x.dtype)
        return jnp.where(halves < kept, scaled, 0)


# Checkpointed: to compute it again in the backward pass costs less than to read it from memory.
@jax.checkpoint
def gelu(x: Array) -> Array:
    """Returns x times the probability that a standard normal number is below x.

    Hendrycks and Gimpel 2016. It is right to 1e-6, and 0 below -5.5, where flax's has all digits
    and takes CPUs twice as long.
    """
    wide = x.astype(jnp.float32)  # 1 + erf would lose a bfloat16's few digits
    return (0.5 * wide * (1 + jax.lax.erf(wide * 0.5**0.5))).astype(x.dtype)


def logits(x_BTD: Array, matrix_VD: Array, dtype: jnp.dtype = jnp.float32) -> Array:
    """Returns logits [B, T, V] in `dtype`: einsum("BTD,VD->BTV") in the type of x."""
    matrix_VD = matrix_VD.astype(x_BTD.dtype)
    if x_BTD.shape[0] * x_BTD.shape[1] <= FEW_ROWS and x_BTD.dtype == jnp.float32:
        # CPUs read the matrix twice as fast if it is the left operand.
        return jnp.moveaxis(jnp.einsum("VD,BTD->VBT", matrix_VD, x_BTD), 0, -1).astype(dtype)
    return _product(x_BTD, matrix_VD, (((2,), (1,)), ((), ())), dtype)


def split(array: Array, blocks: int) -> Array:
    """Returns [B, T, ...] as [n, B, T / n, ...], with n = gcd(blocks, T) blocks.

    They are equally long: 4 blocks of 32 for T = 128, 2 blocks of 33 for T = 66.
    """
    # The axis of the blocks goes first, because lax.map and lax.scan loop over the first axis. T is
    # the axis that is divided, because B is sharded.
    B, T, *rest = array.shape
    blocks = math.gcd(blocks, T)
    return array.reshape(B, blocks, T // blocks, *rest).swapaxes(0, 1)


# The forward pass computes the gradient too, while a block's logits are in memory; the backward
# pass only scales it by the cotangent. jax.checkpoint would compute the logits twice, which costs
# 11 % of a step of the base model.
@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def sum_over_blocks(
    loss: Callable, x_blocks: Array, matrices: list, targets: Array, weights: Array
) -> dict[str, Array]:
    """Returns the sums over all blocks of loss(x, matrices, targets, weights) -> (loss, sums).

    `x_blocks` is [blocks, B, T / blocks, D]; targets and weights are [blocks, B, T / blocks]. Only
    sums["loss"], which is the loss, has a gradient, with respect to x and the matrices.
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

    # The sums and the matrices' gradients are added up; each block has its own gradient of x.
    _, sums = jax.eval_shape(loss, x_blocks[0], matrices, targets[0], weights[0])
    zeros = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), (sums, matrices))
    (sums, gradients), x_gradients = jax.lax.scan(add, zeros, (x_blocks, targets, weights))
    return sums, (x_gradients, gradients)


def _sum_over_blocks_backward(loss: Callable, gradients: tuple, cotangents: dict) -> tuple:
    scale = lambda gradient: (gradient * cotangents["loss"]).astype(gradient.dtype)
    return (*jax.tree.map(scale, gradients), None, None)  # targets and weights have no gradient


sum_over_blocks.defvjp(_sum_over_blocks_forward, _sum_over_blocks_backward)
