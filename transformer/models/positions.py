"""Positional encodings (paper 3.5)."""

import flax.linen as nn
import jax
import jax.numpy as jnp

Array = jax.Array


class PositionEncoding(nn.Module):
    """Adds an encoding of each position: sinusoids of a layout, or 'learned' vectors."""

    kind: str
    max_positions: int  # how many positions are learned; sinusoids have no limit

    @nn.compact
    def __call__(self, x_BTD: Array, positions_BT: Array) -> Array:
        D = x_BTD.shape[-1]
        if self.kind != "learned":
            return x_BTD + sinusoids(positions_BT, D, self.kind)
        normal = nn.initializers.normal(D**-0.5)
        table_PD = self.param("embedding", normal, (self.max_positions, D))
        # Padding may have positions beyond the learned ones.
        return x_BTD + jnp.take(table_PD, jnp.minimum(positions_BT, self.max_positions - 1), axis=0)


def sinusoids(positions_BT: Array, d_model: int, layout: str) -> Array:
    """Returns sinusoidal position encodings [B, T, D] in float32, of any positions.

    'interleaved' is the paper's: PE(pos, 2i) = sin(pos / 10000^(2i/D)), PE(pos, 2i+1) = cos of the
    same. 'concatenated' is from tensor2tensor (the authors' code, get_timing_signal_1d): all sines,
    then all cosines, of pos / 10000^(i/(D/2-1)).
    """
    half = d_model // 2
    if layout == "interleaved":
        exponents = jnp.arange(half) / half
    else:
        exponents = jnp.arange(half) / (half - 1)
    angles = positions_BT[..., None].astype(jnp.float32) * 10000.0**-exponents
    waves = [jnp.sin(angles), jnp.cos(angles)]
    if layout == "interleaved":
        return jnp.stack(waves, axis=-1).reshape(*positions_BT.shape, d_model)
    return jnp.concatenate(waves, axis=-1)
