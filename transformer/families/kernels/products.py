"""Matrix products and linear maps with their own gradients, faster than autodiff's on CPUs."""

import functools
import math
import string
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp

Array = jax.Array

# Up to so many rows, about one step of a sentence's beams, `logits` is bound by reading its matrix.
FEW_ROWS = 8


def dot_general(x: Array, y: Array, dimensions: Any, *_: Any, **__: Any) -> Array:
    """Returns `jax.lax.dot_general`, summed in float32 and rounded once, to the type of x.

    Accelerators sum bfloat16 products in float32 anyway. (On a 'tensor' mesh each device sums its
    part.) CPUs need this form to use their bfloat16 units: 1.5 to 2 times the rate of float32 with
    AVX-512, about 5 times with AMX. The precision and dtype that flax and einsum pass are ignored.
    """
    return _product(x, y, dimensions, x.dtype)


@functools.partial(jax.custom_vjp, nondiff_argnums=(2, 3))
def _product(x: Array, y: Array, dimensions: Any, dtype: jnp.dtype) -> Array:
    product = functools.partial(jax.lax.dot_general, dimension_numbers=dimensions)
    in_float32 = lambda x, y: product(x, y, preferred_element_type=jnp.float32).astype(dtype)
    if dtype == jnp.float32:
        return in_float32(x, y)
    # Accelerators sum in float32 anyway. If asked for float32, they would also write some products
    # to memory in float32.
    in_dtype = functools.partial(product, preferred_element_type=dtype)
    return jax.lax.platform_dependent(x, y, cpu=in_float32, default=in_dtype)


def _product_backward(
    dimensions: Any, dtype: jnp.dtype, operands: tuple[Array, Array], gradient: Array
) -> tuple[Array, Array]:
    # Multiply one dtype and sum in float32, as in the forward pass. Autodiff of a product of
    # bfloat16 would multiply float32 if the result is float32, and otherwise sum bfloat16, which
    # XLA on CPUs has no fast product for.
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
    """Returns einsum's letters of x, y and their product: 'abc', 'cB' and 'abB' for x_BTD, y_DF."""
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

    The result has the shape and dtype of `product`. Example: x_BTD and y_BTHK become [B * T, D] and
    [B * T, H * K]. With a single dimension to sum, XLA on CPUs need not transpose both operands. A
    step takes 0.46 instead of 0.57 s (small), 1.53 instead of 1.78 s (base).
    """
    summed = (x.ndim + y.ndim - product.ndim) // 2
    rows = math.prod(x.shape[:summed])
    x, y = x.reshape(rows, -1), y.reshape(rows, -1)
    D, F = x.shape[1], y.shape[1]
    # For F < D, CPUs multiply float32 [F, N] x [N, D] up to 1.8 times as fast as [D, N] x [N, F].
    # From a few hundred rows on, that pays for the transpose. In bfloat16 it avoids transposing x,
    # whose columns are often 4,096 bytes apart, and so in the same few lines of the cache.
    narrows = D >= 2 * F and F % 2 == 0 and rows >= 512
    if narrows:
        x, y = y, x
    contracted = 0
    if x.dtype == jnp.bfloat16 and rows % 2 == 0:
        # CPUs multiply bfloat16 [D, N] x [N, F] three times as fast as [N, D] x [N, F].
        x = _transposed(x)
        contracted = 1
    dimensions = ((contracted,), (0,)), ((), ())
    matrix = jax.lax.dot_general(x, y, dimensions, preferred_element_type=jnp.float32)
    matrix = matrix.astype(product.dtype)
    return (_transposed(matrix) if narrows else matrix).reshape(product.shape)


def _transposed(matrix: Array) -> Array:
    """Transposes a matrix with an even number of rows, as two halves.

    XLA on CPUs would fuse a plain transpose with the product before or after it.
    """
    rows, columns = matrix.shape
    return matrix.reshape(2, rows // 2, columns).transpose(2, 0, 1).reshape(columns, rows)


def _unchanged(x: Array, y: Array, product: Array) -> Array:
    """Returns the product over two dimensions.

    A TPU stores heads of 64 features in another order, and would copy them for a reshape. On eight
    TPUs that is 4.2 of base's 22.8 ms, by the compiler's estimate.
    """
    return product


_product.defvjp(lambda x, y, *static: (_product(x, y, *static), (x, y)), _product_backward)


class Dense(nn.Dense):
    """flax's Dense, with a faster gradient of the bias."""

    @nn.compact
    def __call__(self, x: Array) -> Array:
        kernel = self.param("kernel", self.kernel_init, (x.shape[-1], self.features))
        x, kernel = nn.dtypes.promote_dtype(x, kernel, dtype=self.dtype)
        y = self.dot_general(x, kernel, (((x.ndim - 1,), (0,)), ((), ())))
        if self.use_bias:
            bias_F = self.param("bias", self.bias_init, (self.features,))
            y = _add_bias(y, bias_F.astype(y.dtype))
        return y


@jax.custom_vjp
def _add_bias(y: Array, bias_F: Array) -> Array:
    return y + bias_F


def _add_bias_backward(_: None, gradient: Array) -> tuple[Array, Array]:
    """Returns the gradients; the bias's is the sum of all rows.

    In bfloat16 on CPUs it is a product with ones, because XLA would sum the rows by a slow
    `reduce-window`.
    """

    summed = lambda gradient: gradient.sum(axis=tuple(range(gradient.ndim - 1)))

    def multiplied(gradient: Array) -> Array:
        rows = gradient.reshape(-1, gradient.shape[-1])
        ones = jnp.ones(len(rows), gradient.dtype)
        return jnp.matmul(ones, rows, preferred_element_type=jnp.float32).astype(gradient.dtype)

    if gradient.dtype == jnp.float32:
        return gradient, summed(gradient)
    return gradient, jax.lax.platform_dependent(gradient, cpu=multiplied, default=summed)


_add_bias.defvjp(lambda y, bias_F: (_add_bias(y, bias_F), None), _add_bias_backward)


def logits(x_BTD: Array, matrix_VD: Array, dtype: jnp.dtype) -> Array:
    """Returns logits [B, T, V] in `dtype`: einsum("BTD,VD->BTV") of operands of one dtype."""
    if x_BTD.shape[0] * x_BTD.shape[1] <= FEW_ROWS and x_BTD.dtype == jnp.float32:
        # CPUs read the matrix twice as fast if it is the left operand.
        return jnp.moveaxis(jnp.einsum("VD,BTD->VBT", matrix_VD, x_BTD), 0, -1).astype(dtype)
    return _product(x_BTD, matrix_VD, (((2,), (1,)), ((), ())), dtype)
