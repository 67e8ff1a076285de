"""Stacks of layers: the encoder and the decoder of all Transformers (paper 3.1, figure 1)."""

import functools
from collections.abc import Callable
from typing import NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp

from transformer.models import cache as kv_cache
from transformer.models import layers
from transformer.models.attention import KeysValues, MultiHeadAttention, View
from transformer.models.cache import KVCache
from transformer.models.layers import LayerOptions

Array = jax.Array


class Sublayers(NamedTuple):
    """Constructors of a model's sub-layers; each call makes one with params of its own."""

    self_attention: Callable[[], nn.Module]
    cross_attention: Callable[[], nn.Module]
    feed_forward: Callable[[], nn.Module]
    residual: Callable[[], nn.Module]
    final_norm: Callable[[], nn.Module]


def sublayers(options: LayerOptions, dtype: str) -> Sublayers:
    """Returns the constructors of sub-layers with these options; activations have `dtype`."""
    dtype = jnp.dtype(dtype)
    key_size, value_size = layers.head_sizes(options)
    attention = functools.partial(
        MultiHeadAttention,
        d_model=options.d_model,
        num_heads=options.num_heads,
        key_size=key_size,
        value_size=value_size,
        score=options.score,
        use_bias=options.attention_bias,
        dropout_rate=options.attention_dropout_rate,
        dtype=dtype,
    )
    # Only self-attention compares positions: from a target to a source there is no distance.
    return Sublayers(
        self_attention=functools.partial(
            attention, positions=options.positions, max_distance=options.max_distance
        ),
        cross_attention=functools.partial(attention, positions="none", max_distance=0),
        feed_forward=functools.partial(layers.FeedForward, options=options, dtype=dtype),
        residual=functools.partial(layers.Residual, options=options, dtype=dtype),
        final_norm=functools.partial(layers.normalisation, options, dtype),
    )


class Stack(nn.Module):
    """Applies layers of self-attention, cross-attention to a memory, and feed-forward network.

    An encoder has no cross-attention, nor has a decoder-only model; their memory is None.
    """

    options: LayerOptions
    sublayers: Sublayers  # those of `options`, or others in their place
    cross_attention: bool = False

    def setup(self) -> None:
        make = self.sublayers
        self.layers = [
            layers.Layer(
                self_attention=make.self_attention(),
                self_attention_residual=make.residual(),
                cross_attention=make.cross_attention() if self.cross_attention else None,
                cross_attention_residual=make.residual() if self.cross_attention else None,
                feed_forward=make.feed_forward(),
                feed_forward_residual=make.residual(),
            )
            for _ in range(self.options.num_layers)
        ]
        if self.options.final_norm:
            self.norm = make.final_norm()

    def __call__(
        self,
        x_BTD: Array,
        view: View,
        memory_BSD: Array | None = None,
        memory_view: View | None = None,
        *,
        train: bool,
    ) -> Array:
        """Returns the output [B, T, D] at all positions at once.

        The views say which positions of x and of the memory each position of x sees.
        """

        # nn.remat takes a function of a submodule and the arrays whose gradients it computes. The
        # memory is projected inside: with `remat` its keys and values are recomputed, too.
        def apply(layer: nn.Module, x_BTD: Array, memory_BSD: Array | None) -> Array:
            memory = layer.cross_attention.project(memory_BSD) if self.cross_attention else None
            return layer(x_BTD, view, memory, memory_view, train=train)[0]

        apply = nn.remat(apply) if self.options.remat and train else apply
        for layer in self.layers:
            x_BTD = apply(layer, x_BTD, memory_BSD)
        return self.norm(x_BTD) if self.options.final_norm else x_BTD

    def project(self, memory_BSD: Array) -> list[KeysValues]:
        """Projects a memory to the keys and values of each layer's cross-attention, for `step`."""
        return [layer.cross_attention.project(memory_BSD) for layer in self.layers]

    def empty_cache(self, x_BTD: Array, room: int, num_beams: int) -> KVCache:
        """Returns a KV cache of zeros for inputs like x, of which only the shape is used."""
        # Only the shapes of these keys and values are read: XLA drops the products.
        positions_BT = jnp.zeros(x_BTD.shape[:2], jnp.int32)
        keys_values = [layer.self_attention.project(x_BTD, positions_BT) for layer in self.layers]
        return kv_cache.empty_cache(keys_values, room, num_beams)

    def step(
        self,
        x_BQD: Array,
        view: View,
        memories: list[KeysValues] | None,
        memory_view: View | None,
        keys_values: list[KeysValues],
        slot: Array,
    ) -> tuple[Array, list[KeysValues]]:
        """Returns the output [B, Q, D] of Q queries, and each layer's updated keys and values.

        `memories` come from `project`. The mask of `view` says which slots of the KV cache each
        query sees; the queries' keys and values are written to the slots from `slot` on.
        """
        # A decoder-only model has no memories: None for each layer.
        updated = []
        for layer, memory, cache in zip(
            self.layers, memories or [None] * self.options.num_layers, keys_values, strict=True
        ):
            x_BQD, cache = layer(
                x_BQD, view, memory, memory_view, cache=cache, slot=slot, train=False
            )
            updated.append(cache)
        return self.norm(x_BQD) if self.options.final_norm else x_BQD, updated
