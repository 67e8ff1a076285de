"""The layers of encoder and decoder (paper 3.1 and 3.3, figure 1)."""

import functools
from collections.abc import Callable
from typing import Any

import flax.linen as nn
import jax.numpy as jnp
from jax import Array

from transformer.errors import check_value
from transformer.models import boxes, dense, kernels
from transformer.models.cache import KeysValues, Queries
from transformer.models.layer_options import LayerOptions
from transformer.models.masks import View


class FeedForward(nn.Module):
    """Applies max(0, x W1 + b1) W2 + b2 at each position (equation 2)."""

    options: LayerOptions
    dtype: jnp.dtype

    activate = staticmethod(nn.relu)

    @nn.compact
    def __call__(self, x_BTD: Array, view: View, *, train: bool) -> Array:
        dropout = dense.Dropout(rate=self.options.activation_dropout_rate)
        h_BTF = dropout(self.hidden(x_BTD), deterministic=not train)
        return dense.linear(self.dtype)(x_BTD.shape[-1], name="outer")(h_BTF)

    def hidden(self, x_BTD: Array) -> Array:
        """Returns the inner activations, [B, T, d_ff]."""
        return self.activate(dense.linear(self.dtype)(self.options.d_ff, name="inner")(x_BTD))

    @nn.nowrap
    def multiply_adds(self) -> int:
        """Returns the multiply-adds of one position."""
        return 2 * self.options.d_model * self.options.d_ff


def layer_norm(dtype: jnp.dtype, name: str | None = None, epsilon: float = 1e-6) -> nn.Module:
    """Returns LayerNorm over the features of each position (Ba et al. 2016)."""
    check_value("model.norm.epsilon", epsilon, "above 0")
    return nn.LayerNorm(epsilon=epsilon, dtype=dtype, name=name)


class Residual(nn.Module):
    """Wraps a sub-layer in the residual connection, dropout and a norm (paper 3.1 and 5.4)."""

    options: LayerOptions
    dtype: jnp.dtype

    multiply_adds = 0  # of one position, besides the sub-layer's

    def normalise(self, x_BTD: Array) -> Array:
        """Applies the norm, LayerNorm in the paper."""
        # Its name is in the params' paths, so that checkpoints tell LayerNorm from RMSNorm.
        [named] = boxes.parse("norm", self.options.norm)
        norm = boxes.part("norm", self.options.norm, dtype=self.dtype)
        return norm(name=f"{named.name}_norm")(x_BTD)

    def drop(self, y_BTD: Array, *, train: bool) -> Array:
        """Applies dropout to a sub-layer's output."""
        dropout = dense.Dropout(rate=self.options.dropout_rate, name="dropout")
        return dropout(y_BTD, deterministic=not train)


class PostNorm(Residual):
    """LayerNorm(x + Dropout(Sublayer(x))), the paper's."""

    @nn.compact
    def __call__(self, x_BTD: Array, sublayer: Callable[[Array], Array], *, train: bool) -> Array:
        y_BTD = sublayer(x_BTD)
        if train and (fused_residual := kernels.chosen().fused_residual(self)):
            return fused_residual(x_BTD, y_BTD)
        return self.normalise(x_BTD + self.drop(y_BTD, train=train))


class PreNorm(Residual):
    """x + Dropout(Sublayer(LayerNorm(x))), as in the last version of tensor2tensor.

    Not in the paper: deep stacks are hard to train with its PostNorm.
    """

    @nn.compact
    def __call__(self, x_BTD: Array, sublayer: Callable[[Array], Array], *, train: bool) -> Array:
        return x_BTD + self.drop(sublayer(self.normalise(x_BTD)), train=train)


class Layer(nn.Module):
    """Applies self-attention, cross-attention and feed-forward network (paper 3.1, figure 1).

    Only the layer of an encoder-decoder's decoder (figure 1, right) has cross-attention, to the
    encoder's output. Another mixer may replace self-attention, under the same name (boxes.py).
    """

    self_attention: nn.Module
    self_attention_residual: nn.Module
    cross_attention: nn.Module | None
    cross_attention_residual: nn.Module | None
    feed_forward: nn.Module | None
    feed_forward_residual: nn.Module | None

    def __call__(
        self,
        x_BTD: Array,
        view: View,
        memory: KeysValues | None,
        memory_view: View | None,
        *,
        train: bool,
        queries: Queries | None = None,
        state: Any = None,
    ) -> tuple[Array, Any]:
        """Returns the layer's output [B, T, D], and the mixer's state after a step of decoding.

        `view` masks self-attention; a decoder's is causal. `memory` is the keys and values of the
        encoder's output, from `cross_attention.project`, and `memory_view` masks them. With
        `queries`, x [B, Q, D] are the next tokens of each beam, and the mixer continues from
        `state`; otherwise x are all positions.
        """

        # Keys and values are projected inside the residual, so that pre-norm applies to them, too.
        def self_attention(y_BTD: Array) -> Array:
            nonlocal state  # because Residual takes a sub-layer that returns its output only
            if queries is None:
                return self.self_attention(y_BTD, view, train=train)
            y_BTD, state = self.self_attention.step(y_BTD, queries, state)
            return y_BTD

        def cross_attention(y_BTD: Array) -> Array:
            return self.cross_attention(y_BTD, memory, memory_view, train=train)

        x_BTD = self.self_attention_residual(x_BTD, self_attention, train=train)
        # The encoder has normalised the memory once for all layers.
        if self.cross_attention is not None:
            x_BTD = self.cross_attention_residual(x_BTD, cross_attention, train=train)
        if self.feed_forward is not None:
            feed_forward = functools.partial(self.feed_forward, view=view, train=train)
            x_BTD = self.feed_forward_residual(x_BTD, feed_forward, train=train)
        return x_BTD, state
