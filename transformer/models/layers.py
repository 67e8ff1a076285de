"""The layers of encoder and decoder (paper 3.1 and 3.3, figure 1)."""

import functools
from collections.abc import Callable
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp

from transformer.models import dense
from transformer.models.attention import KeysValues, View
from transformer.models.cache import Queries
from transformer.models.layer_options import ACTIVATIONS, LayerOptions

Array = jax.Array


class FeedForward(nn.Module):
    """Applies two linear maps with an activation between them, at each position (equation 2).

    `options.gated` multiplies the activations by a third map of the input (Shazeer 2020, equation
    6, here with biases): GLU with the activation 'sigmoid', SwiGLU with 'silu'.
    """

    options: LayerOptions
    dtype: jnp.dtype

    @nn.compact
    def __call__(self, x_BTD: Array, *, train: bool) -> Array:
        options, linear = self.options, dense.linear(self.dtype)
        # max(0, x W1 + b1) W2 + b2; only the inner activations are d_ff wide.
        h_BTF = linear(features=options.d_ff, name="inner")(x_BTD)
        h_BTF = ACTIVATIONS[options.activation](h_BTF)
        if options.gated:
            h_BTF *= linear(features=options.d_ff, name="gate")(x_BTD)
        dropout = dense.Dropout(rate=options.activation_dropout_rate)
        h_BTF = dropout(h_BTF, deterministic=not train)
        return linear(features=x_BTD.shape[-1], name="outer")(h_BTF)

    @nn.nowrap
    def multiply_adds(self) -> int:
        """Returns the multiply-adds of one position."""
        return (2 + self.options.gated) * self.options.d_model * self.options.d_ff


def normalisation(
    options: LayerOptions, dtype: jnp.dtype, name: str | None = None
) -> Callable[[Array], Array]:
    """Returns the normalisation of each position, options.norm_kind: 'layer', 'rms' or 'none'.

    RMSNorm (Zhang and Sennrich 2019) has neither the mean nor the bias of LayerNorm (Ba et al.
    2016), which is the paper's. 'none' is the identity.
    """
    if options.norm_kind == "none":
        return lambda x: x
    kind = {"layer": nn.LayerNorm, "rms": nn.RMSNorm}[options.norm_kind]
    return kind(epsilon=options.norm_epsilon, dtype=dtype, name=name)


class Residual(nn.Module):
    """Wraps a sub-layer in the residual connection, dropout and LayerNorm (paper 3.1 and 5.4).

    `options.norm` is 'post', the paper's LayerNorm(x + Dropout(Sublayer(x))), or 'pre', as in the
    last version of tensor2tensor (the authors' code): x + Dropout(Sublayer(LayerNorm(x))). Another
    `norm_kind` takes the place of LayerNorm; without `residual`, x + is left out.
    """

    options: LayerOptions
    dtype: jnp.dtype

    @nn.compact
    def __call__(self, x_BTD: Array, sublayer: Callable[[Array], Array], *, train: bool) -> Array:
        options = self.options
        # The name is part of the params' paths, so that checkpoints tell LayerNorm from RMSNorm.
        normalise = normalisation(options, self.dtype, name=f"{options.norm_kind}_norm")
        dropout = functools.partial(
            dense.Dropout(rate=options.dropout_rate, name="dropout"), deterministic=not train
        )
        add = lambda y_BTD: x_BTD + y_BTD if options.residual else y_BTD
        # Departure: the paper's text is 'post', in which deep stacks are hard to train.
        if options.norm == "pre":
            return add(dropout(sublayer(normalise(x_BTD))))
        return normalise(add(dropout(sublayer(x_BTD))))


class Layer(nn.Module):
    """Applies self-attention, cross-attention, feed-forward network (paper 3.1, figure 1).

    An encoder's layer (figure 1, left) has no cross-attention, nor has that of a decoder-only
    model. A decoder's (right) has it, to the encoder's output. Another mixer (mixers.py) can be in
    the place of self-attention, and has its name.
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

        `view` says which positions each query sees; a decoder's is causal. `memory` holds the keys
        and values of the encoder's output, from `cross_attention.project`; `memory_view` says which
        of them each query sees. With `queries`, x [B, Q, D] are further tokens of each beam, and
        the mixer continues from `state`; otherwise x are all positions.
        """

        # Projects inside the residual wrapper: pre-norm applies to keys and values, too.
        def self_attention(y_BTD: Array) -> Array:
            nonlocal state  # a sub-layer returns its output only; see Residual
            if queries is None:
                return self.self_attention(y_BTD, view, train=train)
            y_BTD, state = self.self_attention.step(y_BTD, queries, state)
            return y_BTD

        def cross_attention(y_BTD: Array) -> Array:
            return self.cross_attention(y_BTD, memory, memory_view, train=train)

        x_BTD = self.self_attention_residual(x_BTD, self_attention, train=train)
        # The memory's keys and values are normalised once, by the encoder, not in each layer.
        if self.cross_attention is not None:
            x_BTD = self.cross_attention_residual(x_BTD, cross_attention, train=train)
        if self.feed_forward is not None:
            feed_forward = functools.partial(self.feed_forward, train=train)
            x_BTD = self.feed_forward_residual(x_BTD, feed_forward, train=train)
        return x_BTD, state
