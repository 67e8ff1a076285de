"""Stacks of layers: the encoder and the decoder (paper 3.1, figure 1), for all Transformers here.

A model passes itself to `sublayers` and `check_numbers`, and includes CHOICES in its own. It has
the fields d_model, d_ff, num_heads, num_layers, key_size, value_size, score, positions,
max_distance, norm, norm_kind, norm_epsilon, residual, activation, attention_bias, dropout_rate,
attention_dropout_rate, activation_dropout_rate and dtype, which `Transformer` explains.
"""

import functools
from collections.abc import Callable
from typing import NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp

from transformer.errors import UserError
from transformer.models import cache as kv_cache
from transformer.models import fields, layers, positions
from transformer.models.attention import KeysValues, MultiHeadAttention, View
from transformer.models.cache import KVCache
from transformer.models.scores import SCORES

Array = jax.Array
CHOICES = {
    "score": SCORES,
    "positions": positions.KINDS,
    "norm": ("post", "pre"),
    "norm_kind": ("layer", "rms", "none"),
    "activation": tuple(layers.ACTIVATIONS),
    "dtype": ("float32", "bfloat16"),
}


class Sublayers(NamedTuple):
    """Constructors of a model's sub-layers; each call makes one with params of its own."""

    self_attention: Callable[[], nn.Module]
    cross_attention: Callable[[], nn.Module]
    feed_forward: Callable[[], nn.Module]
    residual: Callable[[], nn.Module]
    final_norm: Callable[[], nn.Module]


def sublayers(model: nn.Module) -> Sublayers:
    """Returns the constructors of the sub-layers that a model's fields describe."""
    dtype = jnp.dtype(model.dtype)
    key_size, value_size = head_sizes(model)
    attention = functools.partial(
        MultiHeadAttention,
        d_model=model.d_model,
        num_heads=model.num_heads,
        key_size=key_size,
        value_size=value_size,
        score=model.score,
        use_bias=model.attention_bias,
        dropout_rate=model.attention_dropout_rate,
        dtype=dtype,
    )
    return Sublayers(
        self_attention=functools.partial(
            attention, positions=model.positions, max_distance=model.max_distance
        ),
        cross_attention=functools.partial(attention, positions="none", max_distance=0),
        feed_forward=functools.partial(
            layers.FeedForward,
            d_ff=model.d_ff,
            activation=model.activation,
            dropout_rate=model.activation_dropout_rate,
            dtype=dtype,
        ),
        residual=functools.partial(
            layers.Residual,
            norm=model.norm,
            norm_kind=model.norm_kind,
            norm_epsilon=model.norm_epsilon,
            residual=model.residual,
            dropout_rate=model.dropout_rate,
            dtype=dtype,
        ),
        final_norm=functools.partial(
            layers.normalisation, model.norm_kind, epsilon=model.norm_epsilon, dtype=dtype
        ),
    )


class Encoder(nn.Module):
    """Applies layers of self-attention and feed-forward network."""

    num_layers: int
    sublayers: Sublayers
    final_norm: bool  # one more normalisation on top, as pre-norm needs; the paper has none
    remat: bool  # in training, compute each layer's activations again in the backward pass

    def setup(self) -> None:
        make = self.sublayers
        self.layers = [
            layers.EncoderLayer(
                self_attention=make.self_attention(),
                self_attention_residual=make.residual(),
                feed_forward=make.feed_forward(),
                feed_forward_residual=make.residual(),
            )
            for _ in range(self.num_layers)
        ]
        if self.final_norm:
            self.norm = make.final_norm()

    def __call__(self, x_BSD: Array, view: View, *, train: bool) -> Array:
        """Returns the output [B, S, D]; `view` says which positions see each other."""
        # nn.remat takes a function of a submodule and the arrays whose gradients it computes.
        encode = lambda layer, x_BSD: layer(x_BSD, view, train=train)
        encode = nn.remat(encode) if self.remat and train else encode
        for layer in self.layers:
            x_BSD = encode(layer, x_BSD)
        return self.norm(x_BSD) if self.final_norm else x_BSD


class Decoder(nn.Module):
    """Applies layers of self-attention, cross-attention to a memory, and feed-forward network.

    In a decoder-only model `cross_attention` is False, and memory and memory_view are None.
    """

    num_layers: int
    sublayers: Sublayers
    cross_attention: bool
    final_norm: bool
    remat: bool

    def setup(self) -> None:
        make = self.sublayers
        self.layers = [
            layers.DecoderLayer(
                self_attention=make.self_attention(),
                self_attention_residual=make.residual(),
                cross_attention=make.cross_attention() if self.cross_attention else None,
                cross_attention_residual=make.residual() if self.cross_attention else None,
                feed_forward=make.feed_forward(),
                feed_forward_residual=make.residual(),
            )
            for _ in range(self.num_layers)
        ]
        if self.final_norm:
            self.norm = make.final_norm()

    def __call__(
        self,
        x_BTD: Array,
        memory_BSD: Array | None,
        view: View,
        memory_view: View | None,
        *,
        train: bool,
    ) -> Array:
        """Returns the output [B, T, D] at all target positions at once."""

        def decode(layer: nn.Module, x_BTD: Array, memory_BSD: Array | None) -> Array:
            memory = layer.cross_attention.project(memory_BSD) if self.cross_attention else None
            return layer(x_BTD, memory, view, memory_view, train=train)[0]

        decode = nn.remat(decode) if self.remat and train else decode
        for layer in self.layers:
            x_BTD = decode(layer, x_BTD, memory_BSD)
        return self.norm(x_BTD) if self.final_norm else x_BTD

    def project(self, memory_BSD: Array) -> list[KeysValues]:
        """Projects a memory to the keys and values of each layer's cross-attention, for `step`."""
        return [layer.cross_attention.project(memory_BSD) for layer in self.layers]

    def empty_cache(self, x_BTD: Array, room: int, num_beams: int) -> KVCache:
        """Returns a KV cache of zeros for inputs like x, of which only the shape is used."""
        positions_BT = jnp.zeros(x_BTD.shape[:2], jnp.int32)
        keys_values = [layer.self_attention.project(x_BTD, positions_BT) for layer in self.layers]
        return kv_cache.empty_cache(keys_values, room, num_beams)

    def step(
        self,
        x_BQD: Array,
        memories: list[KeysValues] | None,
        view: View,
        memory_view: View | None,
        keys_values: list[KeysValues],
        slot: Array,
    ) -> tuple[Array, list[KeysValues]]:
        """Returns the output [B, Q, D] of some queries, and the layers' updated keys and values.

        `memories` are from `project`. What each query sees among the slots of the KV cache is in
        `view`; its own keys and values are written from `slot` on.
        """
        updated = []
        for layer, memory, cache in zip(
            self.layers, memories or [None] * self.num_layers, keys_values, strict=True
        ):
            x_BQD, cache = layer(
                x_BQD, memory, view, memory_view, cache=cache, slot=slot, train=False
            )
            updated.append(cache)
        return self.norm(x_BQD) if self.final_norm else x_BQD, updated


def head_sizes(model: nn.Module) -> tuple[int, int]:
    """Returns (K, C), the sizes of one head's keys and values; a field of 0 is d_model / heads."""
    size = model.d_model // model.num_heads
    return model.key_size or size, model.value_size or size


def attention_weights(sown: dict) -> dict[str, Array]:
    """Returns the weights of each kind of attention of a model, out of what was sown.

    'encoder' [L, B, H, S, S], 'decoder' [L, B, H, T, T], and 'cross' [L, B, H, T, S] if there are
    both. The keys of what a decoder sees later have weight 0.
    """
    kinds = {
        "encoder": ("encoder", "self_attention"),
        "decoder": ("decoder", "self_attention"),
        "cross": ("decoder", "cross_attention"),
    }
    weights = {}
    for kind, (half, part) in kinds.items():
        layers = [sown[half][f"layers_{i}"] for i in range(len(sown.get(half, ())))]
        if layers and part in layers[0]:
            weights[kind] = jnp.stack([layer[part]["attention"][0] for layer in layers])
    return weights


def multiply_adds(model: nn.Module, length: int) -> tuple[int, int]:
    """Returns the multiply-adds of one position in (attention over `length`, rest of a layer)."""
    K, C = head_sizes(model)
    # Attention: four projections, and the position's scores and sums over all positions.
    attention = (2 * model.d_model + length) * model.num_heads * (K + C)
    attention += model.num_heads * K * K if model.score == "general" else 0
    # The rest: the feed-forward network, and the scores and sums of self-attention's distances.
    distances = 2 * model.max_distance + 1 if model.positions == "shaw" else 0
    return attention, 2 * model.d_model * model.d_ff + distances * model.num_heads * (K + C)


def check_numbers(model: nn.Module) -> None:
    """Raises UserError for an invalid size or rate among the fields that this file reads."""
    fields.check_at_least(model, 1, ("d_model", "d_ff", "num_heads", "num_layers"))
    fields.check_at_least(model, 0, ("key_size", "value_size", "norm_epsilon", "max_distance"))
    rates = ("dropout_rate", "attention_dropout_rate", "activation_dropout_rate")
    fields.check_rates(model, rates)
    sizes_given = model.key_size and model.value_size
    if model.d_model % model.num_heads and not sizes_given:
        raise UserError(
            f"config.model.d_model={model.d_model} has to be a multiple of "
            f"config.model.num_heads={model.num_heads} (or give key_size and value_size)"
        )
    positions.check(model.positions, model.score, head_sizes(model)[0], model.max_distance)
