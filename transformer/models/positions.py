"""Position encodings (paper 3.5).

Later ones, such as relative positions, are in families/parts.
"""

import flax.linen as nn
import jax.numpy as jnp
from jax import Array

from transformer.models import dense
from transformer.models.layer_options import LayerOptions
from transformer.models.masks import View


class Positions(nn.Module):
    """Changes nothing; each kind of positions overrides one or several methods.

    A model has an instance for each input, and each self-attention has its own.
    """

    options: LayerOptions

    limit = float("inf")  # the longest text, in positions
    multiply_adds = 0  # of `__call__` at one position
    keys = 0  # products with positions cost as much as this many keys, for attention.multiply_adds

    def __call__(self, x_BTD: Array, positions_BT: Array) -> Array:
        """Returns the embedded input with positions."""
        return x_BTD

    def heads(self, x_BTHK: Array, positions_BT: Array) -> Array:
        """Returns the queries or keys of self-attention with positions, before they are scored."""
        return x_BTHK

    def scores(self, scores_BHTS: Array, q_BTHK: Array, score: nn.Module, view: View) -> Array:
        """Returns the scores with those of positions added, by the layer's `score` function."""
        return scores_BHTS

    def context(self, context_BTHC: Array, weights_BHTS: Array, view: View) -> Array:
        """Returns the context with that of positions added, by the same weights."""
        return context_BTHC


def overrides(kind: type[Positions], *methods: str) -> bool:
    """Returns whether a kind of positions overrides one of the methods."""
    return any(getattr(kind, name) is not getattr(Positions, name) for name in methods)


class Encoding(Positions):
    """Adds a vector to each position of the input; `encode` computes it."""

    def __call__(self, x_BTD: Array, positions_BT: Array) -> Array:
        return x_BTD + self.encode(positions_BT)


class Interleaved(Encoding):
    """The paper's sinusoids."""

    def encode(self, positions_BT: Array) -> Array:
        return sinusoids(positions_BT, self.options.d_model)


class Concatenated(Encoding):
    """The sinusoids of tensor2tensor, the authors' code (get_timing_signal_1d).

    All sines come before all cosines, and wave i has the angle pos / 10000^(i/(D/2-1)).
    """

    def encode(self, positions_BT: Array) -> Array:
        half = self.options.d_model // 2
        return jnp.concatenate(waves(positions_BT, jnp.arange(half) / (half - 1)), axis=-1)


class Learned(Encoding):
    """A learned vector for each of `max_positions` positions (paper, table 3, row E).

    Not in the paper: the initial values, N(0, 1/D) as in the embeddings before sqrt(D).
    """

    max_positions: int = 0  # the model's
    limit = property(lambda self: self.max_positions)

    @nn.compact
    def encode(self, positions_BT: Array) -> Array:
        D = self.options.d_model
        table_PD = self.param("embedding", dense.normal(D**-0.5), (self.max_positions, D))
        # Padding may have positions beyond the table.
        return jnp.take(table_PD, positions_BT, axis=0, mode="clip")


def sinusoids(positions_BT: Array, d_model: int) -> Array:
    """Returns PE(pos, 2i) = sin(pos / 10000^(2i/D)), PE(pos, 2i+1) = cos of the same, [B, T, D]."""
    # With D = 8 the exponents 2i / D are 0, 1/4, 2/4 and 3/4.
    waves_BTE2 = jnp.stack(waves(positions_BT, jnp.arange(0, d_model, 2) / d_model), axis=-1)
    return waves_BTE2.reshape(*positions_BT.shape, d_model)  # sin 0, cos 0, sin 1, cos 1, ...


def waves(positions_BT: Array, exponents: Array) -> list[Array]:
    """Returns sines and cosines of positions / 10000^exponent, in float32."""
    angles = positions_BT[..., None].astype(jnp.float32) * 10000.0**-exponents
    return [jnp.sin(angles), jnp.cos(angles)]
