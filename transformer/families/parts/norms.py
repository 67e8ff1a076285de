"""RMSNorm instead of LayerNorm, and no normalisation."""

from collections.abc import Callable

import flax.linen as nn
import jax
import jax.numpy as jnp

from transformer.errors import check_value


def rms(dtype: jnp.dtype, name: str | None = None, epsilon: float = 1e-6) -> nn.Module:
    """Returns RMSNorm (Zhang and Sennrich 2019): LayerNorm without the mean and the bias."""
    check_value("model.norm.epsilon", epsilon, "above 0")
    return nn.RMSNorm(epsilon=epsilon, dtype=dtype, name=name)


def no_norm(name: str | None = None) -> Callable[[jax.Array], jax.Array]:
    """Returns the identity."""
    return lambda x: x
