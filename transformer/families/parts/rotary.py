"""Rotary positions (Su et al. 2021, "RoFormer: Enhanced Transformer with Rotary Position
Embedding")."""

import jax.numpy as jnp
from jax import Array

from transformer.errors import UserError
from transformer.models import boxes
from transformer.models.layer_options import head_sizes
from transformer.models.positions import Positions, waves


class Rotary(Positions):
    """Rotates queries and keys by their positions; keys are rotated before they are cached."""

    def setup(self) -> None:
        key_size, _ = head_sizes(self.options)
        if key_size % 2:
            raise UserError(
                f"config.model.positions='rotary' rotates pairs: the size of a head's keys must "
                f"be even, found {key_size} (config.model.key_size, or d_model / num_heads)"
            )
        [score] = boxes.parse("score", self.options.score)
        if not score.code.turns:
            raise UserError(
                f"config.model.score={self.options.score!r} does not go with positions='rotary': "
                "rotating a query and a key by the same angle changes this score"
            )

    def heads(self, x_BTHK: Array, positions_BT: Array) -> Array:
        return rotate(x_BTHK, positions_BT)


def rotate(x_BTHK: Array, positions_BT: Array) -> Array:
    """Rotates queries or keys by their positions (equation 34).

    Components 2i and 2i+1 are rotated by the sinusoids' angle pos / 10000^(2i/K). The product of a
    query at t and a key at s then depends on positions by s - t only.
    """
    half = x_BTHK.shape[-1] // 2
    # All heads share one angle per pair.
    sin, cos = (x[:, :, None] for x in waves(positions_BT, jnp.arange(half) / half))
    even, odd = x_BTHK[..., 0::2], x_BTHK[..., 1::2]
    # Rotate the vector (even, odd) counter-clockwise; pairs stay interleaved.
    rotated = jnp.stack([even * cos - odd * sin, even * sin + odd * cos], axis=-1)
    return rotated.reshape(x_BTHK.shape).astype(x_BTHK.dtype)
