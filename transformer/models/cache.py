"""The KV cache of a decoder."""

import jax
import jax.numpy as jnp

from transformer.models import attention

Array = jax.Array


def write_at(
    kept: attention.KeysValues, place: Array, new: attention.KeysValues
) -> attention.KeysValues:
    """The keys_BHKS and values_BHSC kept, with new ones from `place` on."""

    def write(old: Array, new: Array, axis: int) -> Array:
        if old.dtype != jnp.bfloat16:
            return jax.lax.dynamic_update_slice_in_dim(old, new, place, axis)
        # As bits: XLA on CPUs would turn all that is kept to float32 and back.
        old, new = (jax.lax.bitcast_convert_type(x, jnp.uint16) for x in (old, new))
        written = jax.lax.dynamic_update_slice_in_dim(old, new, place, axis)
        return jax.lax.bitcast_convert_type(written, jnp.bfloat16)

    return write(kept[0], new[0], 3), write(kept[1], new[1], 2)
