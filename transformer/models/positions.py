"""Positions (paper 3.5): how a model knows the order of a text.

What came after the paper, such as positions relative to each other, is in families/parts.
"""

import flax.linen as nn
import jax
import jax.numpy as jnp

from transformer.models import dense
from transformer.models.layer_options import LayerOptions
from transformer.models.masks import View

Array = jax.Array


class Positions(nn.Module):
    """Changes nothing: a kind of positions has its own form of one method or of several.

    A model has one for its input, or for each of two, and each self-attention has one, too.
    """

    options: LayerOptions

    limit = float("inf")  # how many positions a text may have
    multiply_adds = 0  # of `__call__` at one position
    keys = 0  # how many keys the products with positions are worth, in attention's multiply_adds

    def __call__(self, x_BTD: Array, positions_BT: Array) -> Array:
        """Returns the embedded input with its positions."""
        return x_BTD

    def heads(self, x_BTHK: Array, positions_BT: Array) -> Array:
        """Returns queries or keys of self-attention, which are scored, with their positions."""
        return x_BTHK

    def scores(self, scores_BHTS: Array, q_BTHK: Array, score: nn.Module, view: View) -> Array:
        """Returns the scores with those of positions, by the layer's `score` function."""
        return scores_BHTS

    def context(self, context_BTHC: Array, weights_BHTS: Array, view: View) -> Array:
        """Returns the sums of values with those of positions, by the same weights."""
        return context_BTHC


def has(kind: type[Positions], *methods: str) -> bool:
    """Returns whether a kind of positions has one of these methods of its own."""
    return any(getattr(kind, name) is not getattr(Positions, name) for name in methods)


class Encoding(Positions):
    """Adds a vector for each position to the input; `encode` computes it."""

    def __call__(self, x_BTD: Array, positions_BT: Array) -> Array:
        return x_BTD + self.encode(positions_BT)


class Interleaved(Encoding):
    """The paper's sinusoids, of any positions."""

    def encode(self, positions_BT: Array) -> Array:
        return sinusoids(positions_BT, self.options.d_model)


class Concatenated(Encoding):
    """The sinusoids of tensor2tensor, the authors' code (get_timing_signal_1d).

    All sines are before all cosines, and wave i is of pos / 10000^(i/(D/2-1)).
    """

    def encode(self, positions_BT: Array) -> Array:
        half = self.options.d_model // 2
        return jnp.concatenate(waves(positions_BT, jnp.arange(half) / (half - 1)), axis=-1)


class Learned(Encoding):
    """A learned vector for each of `max_positions` positions (paper, table 3, row E).

    The paper gives no initial values. These are N(0, 1/D), as the embeddings before sqrt(D).
    """

    max_positions: int = 0  # the model's
    limit = property(lambda self: self.max_positions)

    @nn.compact
    def encode(self, positions_BT: Array) -> Array:
        D = self.options.d_model
        table_PD = self.param("embedding", dense.normal(D**-0.5), (self.max_positions, D))
        # Padding may have positions beyond the learned ones.
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
