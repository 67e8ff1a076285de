"""The vector of a text from those of its tokens."""

import jax
import jax.numpy as jnp

Array = jax.Array


def mean(x_BSD: Array, real_BS: Array) -> Array:
    """Returns the mean over the real positions, [B, D]; zeros for a row of padding."""
    count_B1 = jnp.maximum(real_BS.sum(axis=1, keepdims=True), 1)
    return jnp.einsum("BSD,BS->BD", x_BSD, real_BS.astype(x_BSD.dtype)) / count_B1
