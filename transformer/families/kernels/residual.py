"""LayerNorm(x + Dropout(y)) in one pass over memory, and its gradients: two kernels of GPUs.

They read and write the activations of a sub-layer about eight times: x, y, their sum and the
output, then the sum and the gradients of the output, x and y. XLA's kernels take about fourteen.
"""

import functools
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton

from transformer.distributed.layout import PMAP_AXIS
from transformer.families.kernels import tuned
from transformer.models import boxes, dense
from transformer.models.layers import PostNorm

Array = jax.Array
Ref = Any  # a block of an array in memory

ELEMENTS = 2**13  # of a block, 32 in each of 256 threads; with 128, registers do not suffice


def fused_residual(layer: PostNorm) -> Callable[[Array, Array], Array] | None:
    """Returns (x_BTD, y_BTD) -> the layer's output in training, or None to keep XLA's kernels.

    None for another norm, and for a d_model that is no power of two, as Triton's blocks have to be.
    None in a global program, whose rows XLA would gather.
    """
    [norm] = boxes.parse("norm", layer.options.norm)
    D, rate = layer.options.d_model, layer.options.dropout_rate
    if norm.name != "layer" or D < 2 or D & (D - 1) or not is_mapped():
        return None

    def fused(x_BTD: Array, y_BTD: Array) -> Array:
        key = jax.random.key_data(dense.Dropout(rate, name="dropout").make_rng("dropout"))[:2]
        as_rows = lambda x_BTD: x_BTD.reshape(-1, D).astype(layer.dtype)
        params = layer.variables["params"]["layer_norm"]
        operands = as_rows(x_BTD), as_rows(y_BTD), params["scale"], params["bias"], key
        return post_norm(rate, norm.fields["epsilon"], *operands).reshape(x_BTD.shape)

    return fused


def is_mapped() -> bool:
    """Returns whether each device has a program for its own rows, under pmap."""
    try:
        return bool(jax.lax.axis_size(PMAP_AXIS))
    except NameError:
        return False


@functools.partial(jax.custom_vjp, nondiff_argnums=(0, 1))
def post_norm(
    rate: float, epsilon: float, x_ND: Array, y_ND: Array, scale_D: Array, bias_D: Array, key: Array
) -> Array:
    """Returns LayerNorm(x + Dropout(y)) of N rows; `key` has the two words of `tuned.words`."""
    return _forward(rate, epsilon, x_ND, y_ND, scale_D, bias_D, key)[0]


def _forward(rate: float, epsilon: float, *operands: Array) -> tuple[Array, tuple]:
    kernel = functools.partial(_forward_block, rate, epsilon)
    x_ND, _, scale_D, _, key = operands
    out_ND, sum_ND = _call(kernel, operands, [jax.typeof(x_ND)] * 2)
    return out_ND, (sum_ND, scale_D, key)


def _backward(rate: float, epsilon: float, saved: tuple, gradient_ND: Array) -> tuple:
    kernel = functools.partial(_backward_block, rate, epsilon)
    N, D = gradient_ND.shape
    rows = jax.typeof(gradient_ND)
    sums = jax.ShapeDtypeStruct((N // block_rows(N, D), 2, D), jnp.float32)
    of_x_ND, of_y_ND, sums = _call(kernel, (gradient_ND, *saved), [rows, rows, sums])
    return of_x_ND, of_y_ND, *sums.sum(axis=0), None  # the key has no gradient


post_norm.defvjp(_forward, _backward)


def block_rows(N: int, D: int) -> int:
    """Returns the rows R of a block, which divide N."""
    return math.gcd(N, max(1, ELEMENTS // D))


def _call(kernel: Callable, operands: tuple, shapes: list) -> list[Array]:
    """Runs a kernel on blocks of R rows of the arrays [N, D], and on whole vectors."""
    (N, D), R = operands[0].shape, block_rows(*operands[0].shape)
    specs = {
        1: pl.BlockSpec(),
        2: pl.BlockSpec((R, D), lambda i: (i, 0)),
        3: pl.BlockSpec((None, 2, D), lambda i: (i, 0, 0)),  # sums, one pair of each block
    }
    compiled = functools.partial(
        pl.pallas_call,
        kernel,
        grid=N // R,
        in_specs=[specs[x.ndim] for x in operands],
        out_specs=[specs[x.ndim] for x in shapes],
        out_shape=shapes,
        compiler_params=triton.CompilerParams(num_warps=8),
    )
    # Elsewhere by XLA's operations, slowly.
    return jax.lax.platform_dependent(*operands, cuda=compiled(), default=compiled(interpret=True))


def _forward_block(
    rate: float, epsilon: float, x: Ref, y: Ref, scale: Ref, bias: Ref, key: Ref, *results: Ref
) -> None:
    out, total = results
    total[...] = sum_RD = x[...] + _dropped(rate, y[...], key)
    normal_RD, _ = _normal(epsilon, sum_RD)
    out[...] = (normal_RD * scale[...] + bias[...]).astype(out.dtype)


def _backward_block(
    rate: float, epsilon: float, of_out: Ref, total: Ref, scale: Ref, key: Ref, *results: Ref
) -> None:
    of_x, of_y, sums = results
    normal_RD, inverse_R1 = _normal(epsilon, total[...])
    g_RD = of_out[...].astype(jnp.float32)
    sums[0], sums[1] = (g_RD * normal_RD).sum(axis=0), g_RD.sum(axis=0)  # of scale and bias
    g_RD *= scale[...]
    mean = functools.partial(jnp.mean, axis=-1, keepdims=True)
    g_RD = (g_RD - mean(g_RD) - normal_RD * mean(g_RD * normal_RD)) * inverse_R1
    of_x[...] = g_RD = g_RD.astype(of_x.dtype)
    of_y[...] = _dropped(rate, g_RD, key)


def _normal(epsilon: float, x_RD: Array) -> tuple[Array, Array]:
    """Returns x - mean over its standard deviation, and one over that, in float32."""
    x_RD = x_RD.astype(jnp.float32)
    x_RD -= x_RD.mean(axis=-1, keepdims=True)
    inverse_R1 = jax.lax.rsqrt(jnp.square(x_RD).mean(axis=-1, keepdims=True) + epsilon)
    return x_RD * inverse_R1, inverse_R1


def _dropped(rate: float, y_RD: Array, key: Ref) -> Array:
    """Drops the elements that dense.Dropout drops with the words of `tuned.hashed`."""
    R, D = y_RD.shape
    iota = functools.partial(jax.lax.broadcasted_iota, jnp.uint32)
    rows, columns = pl.program_id(0).astype(jnp.uint32) * R + iota((R, 1), 0), iota((1, D), 1)
    # With D = 8, columns 1 and 5 have the low and the high half of word 1.
    words = tuned.words((key[0], key[1]), rows, columns % (D // 2))
    return dense.drop(y_RD, jnp.where(columns < D // 2, words & 0xFFFF, words >> 16), rate)
