"""The layers of encoder and decoder (paper 3.1 and 3.3, figure 1)."""

import functools
from collections.abc import Callable

import flax.linen as nn
import jax
import jax.numpy as jnp

from transformer.models import dense
from transformer.models.attention import KeysValues, View
from transformer.models.cache import write

Array = jax.Array

ACTIVATIONS = {
    "relu": nn.relu,
    "gelu": functools.partial(nn.gelu, approximate=False),
    "gelu_tanh": nn.gelu,  # the approximation by tanh, which GPT-2 has
    "silu": nn.silu,  # x * sigmoid(x), also called swish
}


class FeedForward(nn.Module):
    """Applies two linear maps with an activation between them, at each position (equation 2)."""

    d_ff: int
    activation: str  # a name in ACTIVATIONS; the paper's is 'relu'
    dropout_rate: float  # of the inner activations
    dtype: jnp.dtype

    @nn.compact
    def __call__(self, x_BTD: Array, *, train: bool) -> Array:
        linear = functools.partial(
            nn.Dense,
            kernel_init=dense.glorot_uniform,
            dtype=self.dtype,
            dot_general=dense.dot_general,
        )
        # max(0, x W1 + b1) W2 + b2; only the inner activations are d_ff wide.
        h_BTF = ACTIVATIONS[self.activation](linear(features=self.d_ff, name="inner")(x_BTD))
        h_BTF = dense.Dropout(rate=self.dropout_rate)(h_BTF, deterministic=not train)
        return linear(features=x_BTD.shape[-1], name="outer")(h_BTF)


def normalisation(
    kind: str, *, epsilon: float, dtype: jnp.dtype, name: str | None = None
) -> Callable[[Array], Array]:
    """Returns a normalisation of each position: 'layer' (LayerNorm, the paper's), 'rms' or 'none'.

    RMSNorm (Zhang and Sennrich 2019) has neither the mean nor the bias of LayerNorm (Ba et al.
    2016). 'none' is the identity.
    """
    if kind == "none":
        return lambda x: x
    return {"layer": nn.LayerNorm, "rms": nn.RMSNorm}[kind](epsilon=epsilon, dtype=dtype, name=name)


class Residual(nn.Module):
    """Wraps a sub-layer in the residual connection, dropout and LayerNorm (paper 3.1 and 5.4).

    `norm` is 'post', the paper's LayerNorm(x + Dropout(Sublayer(x))), or 'pre', as in the last
    version of tensor2tensor (the authors' code): x + Dropout(Sublayer(LayerNorm(x))). `norm_kind`
    is another normalisation in its place; without `residual`, x + is left out.
    """

    norm: str
    norm_kind: str
    norm_epsilon: float
    residual: bool
    dropout_rate: float
    dtype: jnp.dtype

    @nn.compact
    def __call__(self, x_BTD: Array, sublayer: Callable[[Array], Array], *, train: bool) -> Array:
        # The name is part of the params' paths, so that checkpoints tell LayerNorm from RMSNorm.
        name = f"{self.norm_kind}_norm"
        normalise = normalisation(
            self.norm_kind, epsilon=self.norm_epsilon, dtype=self.dtype, name=name
        )
        dropout = functools.partial(
            dense.Dropout(rate=self.dropout_rate, name="dropout"), deterministic=not train
        )
        add = lambda y_BTD: x_BTD + y_BTD if self.residual else y_BTD
        # Departure: the paper's text is 'post', in which deep stacks are hard to train.
        if self.norm == "pre":
            return add(dropout(sublayer(normalise(x_BTD))))
        return normalise(add(dropout(sublayer(x_BTD))))


class Layer(nn.Module):
    """Applies self-attention, cross-attention, feed-forward network (paper 3.1, figure 1).

    An encoder's layer (figure 1, left) has no cross-attention, nor has that of a decoder-only
    model. A decoder's (right) has it, to the encoder's output.
    """

    self_attention: nn.Module
    self_attention_residual: nn.Module
    cross_attention: nn.Module | None
    cross_attention_residual: nn.Module | None
    feed_forward: nn.Module
    feed_forward_residual: nn.Module

    def __call__(
        self,
        x_BTD: Array,
        view: View,
        memory: KeysValues | None,
        memory_view: View | None,
        *,
        train: bool,
        cache: KeysValues | None = None,
        slot: Array | None = None,
    ) -> tuple[Array, KeysValues | None]:
        """Returns the layer's output [B, T, D] and its updated cache (None without one).

        `view` says which positions each query sees; a decoder's is causal. `memory` holds the keys
        and values of the encoder's output, from `cross_attention.project`; `memory_view` says which
        of them each query sees. Without `cache`, x attends to x, and the keys of `view` are the
        positions of x. With `cache`, the keys and values of x are written from `slot` on, x attends
        to all slots, and the keys of `view` are the slots.
        """

        # Projects inside the residual wrapper: pre-norm applies to keys and values, too.
        def self_attention(y_BTD: Array) -> Array:
            nonlocal cache  # a sub-layer returns its output only; see Residual
            keys_values = self.self_attention.project(y_BTD, view.query_positions_BT)
            # Written before it is read: a token attends to itself, too.
            if cache is not None:
                keys_values = cache = write(cache, slot, keys_values)
            return self.self_attention(y_BTD, keys_values, view, train=train)

        def cross_attention(y_BTD: Array) -> Array:
            return self.cross_attention(y_BTD, memory, memory_view, train=train)

        feed_forward = functools.partial(self.feed_forward, train=train)
        x_BTD = self.self_attention_residual(x_BTD, self_attention, train=train)
        # The memory's keys and values are normalised once, by the encoder, not in each layer.
        if self.cross_attention is not None:
            x_BTD = self.cross_attention_residual(x_BTD, cross_attention, train=train)
        return self.feed_forward_residual(x_BTD, feed_forward, train=train), cache
