"""Other positions of the input than the paper's."""

import flax.linen as nn
import jax.numpy as jnp
from jax import Array

from transformer.errors import UserError
from transformer.models import boxes, dense
from transformer.models.positions import Encoding, Positions, waves


class Halves(Encoding):
    """The paper's sinusoids, all sines first (Hugging Face's Marian, Sockeye)."""

    def encode(self, positions_BT: Array) -> Array:
        return halves(positions_BT, self.options.d_model)


def halves(positions_BT: Array, d_model: int) -> Array:
    """Returns all sines, then all cosines of `sinusoids`, [B, T, D]."""
    half = d_model // 2
    return jnp.concatenate(waves(positions_BT, jnp.arange(half) / half), axis=-1)


class Appended(Positions):
    """A linear map of [x; position] instead of their sum, which is W x + U p."""

    max_positions: int = 0  # the model's
    encoding: str = "interleaved"  # of the input

    limit = property(lambda self: self._encoding(parent=None).limit)
    multiply_adds = property(lambda self: 2 * self.options.d_model**2)

    @nn.compact
    def __call__(self, x_BTD: Array, positions_BT: Array) -> Array:
        encoding = self._encoding()
        if not isinstance(encoding, Encoding):
            raise UserError(
                f"config.model.positions: appended(encoding={self.encoding!r}) has no vectors of "
                "the input's positions to append"
            )
        p_BTD = jnp.broadcast_to(encoding.encode(positions_BT), x_BTD.shape)
        pair_BTF = jnp.concatenate([x_BTD, p_BTD], axis=-1)
        # In float32, like the sum.
        return dense.linear(jnp.float32)(x_BTD.shape[-1], name="map")(pair_BTF)

    @nn.nowrap
    def _encoding(self, **parent: None) -> Positions:
        given = {"options": self.options, "max_positions": self.max_positions}
        return boxes.part("positions", self.encoding, **given)(**parent)
