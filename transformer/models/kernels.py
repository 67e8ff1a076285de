"""Kernels: functions with faster forms for some platforms, here in their plain form.

`config.kernels` is a name in registry.KERNELS. Plain forms run anywhere and define the results, of
random words the distribution. Faster forms are in families/kernels, with their measurements.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax

from transformer import registry

Array = jax.Array


class Kernels(NamedTuple):
    """A set of kernels, one implementation of each function."""

    dot_general: Callable  # as jax.lax.dot_general, in the dtype of x; of linear maps and attention
    dense: type[nn.Module]  # nn.Dense, whose bias may have another gradient
    logits: Callable[[Array, Array, jnp.dtype], Array]  # (x_BTD, matrix_VD, dtype) -> logits_BTV
    # (logits_BTV, targets_BT) -> log normaliser, gold logit, sum, maximum: [B, T] in float32
    class_sums: Callable[[Array, Array], tuple[Array, Array, Array, Array]]
    # (MultiHeadAttention) -> None, or a replacement for its `attend` in training that has no
    # weights: (q_BTHK, (keys_BHKS, values_BHSC), mask_BTS) -> context_BTHC. UserError for a layer
    # that it does not support.
    fused_attention: Callable[[Any], Callable | None]
    # (PostNorm) -> None, or a replacement for its sum, dropout and norm in training:
    # (x_BTD, y_BTD of the sub-layer) -> the output [B, T, D]
    fused_residual: Callable[[Any], Callable | None]
    cond: Callable  # as jax.lax.cond
    # (tree, axis) -> global norm; axis as in `train_step`: if None, arrays may be sharded
    norm: Callable[[Any, str | None], Array]
    # (key, shape) -> uint32, random bits for dropout
    random_words: Callable[[Array, tuple[int, ...]], Array]
    # (config.model.dtype) -> None; logs if another dtype translates faster on this machine
    advise: Callable[[str | None], None]


def logits(x_BTD: Array, matrix_VD: Array, dtype: jnp.dtype) -> Array:
    """Returns the logits in `dtype`."""
    return jnp.einsum("BTD,VD->BTV", x_BTD, matrix_VD, preferred_element_type=dtype)


def class_sums(logits_BTV: Array, targets_BT: Array) -> tuple[Array, Array, Array, Array]:
    """Returns log normaliser, gold logit, sum and maximum over the classes."""
    logits_BTV = logits_BTV.astype(jnp.float32)
    # gold_BT[b, t] = logits_BTV[b, t, targets_BT[b, t]]
    gold_BT = jnp.take_along_axis(logits_BTV, targets_BT[..., None], axis=-1)[..., 0]
    log_normaliser_BT = jax.nn.logsumexp(logits_BTV, axis=-1)
    return log_normaliser_BT, gold_BT, logits_BTV.sum(axis=-1), logits_BTV.max(axis=-1)


PLAIN = Kernels(
    dot_general=jax.lax.dot_general,
    dense=nn.Dense,
    logits=logits,
    class_sums=class_sums,
    fused_attention=lambda layer: None,
    fused_residual=lambda layer: None,
    cond=jax.lax.cond,
    norm=lambda tree, axis: optax.tree.norm(tree),
    random_words=jax.random.bits,
    advise=lambda dtype: None,
)

# Part of the key of JAX's caches, so that other kernels trace a function again.
_name = jax.make_user_context("plain")


def use(name: str) -> None:
    """Chooses the kernels of all functions traced from now on, by a name in registry.KERNELS."""
    _name.set_global(name)


def chosen() -> Kernels:
    """Returns the kernels of the last `use`, by default the plain ones."""
    return registry.load(registry.KERNELS[_name.value])
