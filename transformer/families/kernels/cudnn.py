"""config.kernels='cudnn': 'tuned', and in training fused kernels for NVIDIA GPUs.

Attention takes the arrays of the einsums in models/attention.py, and returns no weights.
residual.py has the other kernel.
"""

import functools
import importlib.util
from collections.abc import Callable

import jax
import jax.numpy as jnp

from transformer.errors import UserError
from transformer.families.kernels import residual
from transformer.families.kernels.tuned import TUNED
from transformer.models import positions
from transformer.models.attention import MultiHeadAttention
from transformer.models.layer_options import head_sizes

Array = jax.Array


def fused_attention(layer: MultiHeadAttention) -> Callable[..., Array]:
    """Returns `by_cudnn`; UserError for a layer that the kernel does not support."""
    options = layer.options
    key_size, value_size = head_sizes(options)
    if not (
        (options.score, options.attention_dropout_rate) == ("scaled_dot", 0)
        and not positions.overrides(type(layer.positions), "scores", "context")
        and key_size == value_size <= 128
        and key_size % 8 == 0
    ):
        raise UserError(
            "config.kernels='cudnn' needs config.model.score='scaled_dot', heads of one size (8, "
            "16, ... 128), attention_dropout_rate=0 and positions that change no scores, found "
            f"{options.score!r}, {key_size} and {value_size}, {options.attention_dropout_rate} and "
            f"{options.positions!r}: set config.kernels='tuned'"
        )
    return by_cudnn


def by_cudnn(q_BTHK: Array, keys_values: tuple[Array, Array], mask_BTS: Array) -> Array:
    """Returns context_BTHC by cuDNN's kernel, or by XLA's form on a CPU.

    UserError without a CUDA plugin, because JAX traces the kernel for every device.
    """
    T, S, dtype = q_BTHK.shape[1], keys_values[1].shape[2], q_BTHK.dtype
    installed = any(map(importlib.util.find_spec, ("jax_cuda13_plugin", "jax_cuda12_plugin")))
    if dtype != jnp.bfloat16 or T % 2 or S % 2 or not installed:
        raise UserError(
            "config.kernels='cudnn' needs config.model.dtype='bfloat16', an even number of "
            f"positions and jax[cuda13], found {dtype}, {T} queries, {S} keys and "
            f"{'its' if installed else 'no'} CUDA plugin: set config.kernels='tuned'"
        )
    fused_by = lambda name: functools.partial(fused, implementation=name)
    return jax.lax.platform_dependent(
        q_BTHK, keys_values, mask_BTS, cuda=fused_by("cudnn"), default=fused_by("xla")
    )


def fused(
    q_BTHK: Array, keys_values: tuple[Array, Array], mask_BTS: Array, implementation: str
) -> Array:
    """Returns context_BTHC of scaled dot products, by jax.nn.dot_product_attention.

    'cudnn' is a fused kernel, which writes no scores to memory. A query without any visible key,
    which is padding, gets the mean of all values.
    """
    k_BHKS, v_BHSC = keys_values
    # XLA cancels these transpositions with those of `project`.
    k_BSHK, v_BSHC = k_BHKS.transpose(0, 3, 1, 2), v_BHSC.swapaxes(1, 2)
    (B, T), S = q_BTHK.shape[:2], k_BSHK.shape[1]
    mask_BHTS = jnp.broadcast_to(mask_BTS, (B, T, S))[:, None]  # from [B, 1, S] if queries share it
    return jax.nn.dot_product_attention(
        q_BTHK, k_BSHK, v_BSHC, mask=mask_BHTS, implementation=implementation
    )


CUDNN = TUNED._replace(fused_attention=fused_attention, fused_residual=residual.fused_residual)
