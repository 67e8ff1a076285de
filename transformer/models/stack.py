"""Stacks of layers: the encoder and the decoder of all Transformers (paper 3.1, figure 1)."""

import dataclasses
import functools
from collections.abc import Callable
from typing import NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp

from transformer.errors import UserError
from transformer.models import cache, layer_options, layers, mixers
from transformer.models.attention import KeysValues, MultiHeadAttention, View
from transformer.models.cache import Cache, Queries
from transformer.models.layer_options import LayerOptions
from transformer.models.positions import RELATIVE

Array = jax.Array


class Sublayers(NamedTuple):
    """Constructors of a stack's sub-layers; each call makes one with params of its own."""

    self_attention: tuple[Callable[..., nn.Module], ...]  # of each layer, or another mixer
    cross_attention: Callable[..., nn.Module]
    feed_forward: Callable[..., nn.Module]
    residual: Callable[..., nn.Module]
    final_norm: Callable[..., nn.Module]


def sublayers(options: LayerOptions, dtype: str, *, causal: bool) -> Sublayers:
    """Returns the constructors of sub-layers with these options; activations have `dtype`.

    `causal` says that no position sees a later one, as in a decoder.
    """
    dtype = jnp.dtype(dtype)
    # Only self-attention compares positions: from a target to a source there is no distance.
    across = dataclasses.replace(options, positions="none")
    return Sublayers(
        self_attention=mixers.constructors(options, causal, dtype),
        cross_attention=functools.partial(
            MultiHeadAttention, options=across, causal=False, dtype=dtype
        ),
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
                self_attention=mixer(),
                self_attention_residual=make.residual(),
                cross_attention=make.cross_attention() if self.cross_attention else None,
                cross_attention_residual=make.residual() if self.cross_attention else None,
                feed_forward=make.feed_forward() if self.options.d_ff else None,
                feed_forward_residual=make.residual() if self.options.d_ff else None,
            )
            for mixer in make.self_attention
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

    def empty_cache(self, x_BTD: Array, room: int, num_beams: int) -> Cache:
        """Returns a cache for inputs like x, of which only the shape and the type are used."""
        return Cache(
            [layer.self_attention.empty_state(x_BTD, room, num_beams) for layer in self.layers],
            cache.empty_ancestry(len(x_BTD), room, num_beams),
        )

    def step(
        self,
        x_BQD: Array,
        queries: Queries,
        memories: list[KeysValues] | None,
        memory_view: View | None,
        states: list,
    ) -> tuple[Array, Cache]:
        """Returns the output [B, Q, D] of Q queries, and the cache with each mixer's new state.

        `memories` come from `project`.
        """
        # A decoder-only model has no memories: None for each layer.
        memories, updated = memories or [None] * len(self.layers), []
        for layer, memory, state in zip(self.layers, memories, states, strict=True):
            x_BQD, state = layer(
                x_BQD,
                queries.view,
                memory,
                memory_view,
                queries=queries,
                state=state,
                train=False,
            )
            updated.append(state)
        x_BQD = self.norm(x_BQD) if self.options.final_norm else x_BQD
        return x_BQD, Cache(updated, queries.ancestry_BWP)


def multiply_adds(
    options: LayerOptions, length: int, *, causal: bool, cross_attention: bool = False
) -> int:
    """Returns the multiply-adds of one of `length` positions in all layers, and below the first."""
    make = sublayers(options, "float32", causal=causal)
    # Without a parent, which a model whose method calls this would be.
    of_layer = make.feed_forward(parent=None).multiply_adds()
    if cross_attention:
        of_layer += make.cross_attention(parent=None).multiply_adds(length)
    mixed = sum(mixer(parent=None).multiply_adds(length) for mixer in make.self_attention)
    below = 2 * options.d_model**2 * options.concatenated_positions  # the map of [x; position]
    return mixed + options.num_layers * of_layer + below


def check(model: nn.Module) -> None:
    """Raises UserError for fields of a model that contradict each other."""
    layer_options.check(model.options)
    options = model.options
    reads_relative = any(issubclass(mixer, MultiHeadAttention) for mixer in _mixers(model))
    if options.positions in RELATIVE and not reads_relative:
        raise UserError(
            f"config.model.positions={options.positions!r} is read by attention only, and "
            f"config.model.mixer={options.mixer!r} has none"
        )


def take_packed_rows(model: nn.Module) -> bool:
    """Returns whether all mixers of a model keep the texts of a packed row apart."""
    return all(getattr(mixer, "takes_packed_rows", True) for mixer in _mixers(model))


def _mixers(model: nn.Module) -> set[type[nn.Module]]:
    """Returns the classes of the mixers in a model's stacks."""
    mixer, decoder_mixer = model.options.mixer, getattr(model, "decoder_mixer", "")
    patterns = {mixer, decoder_mixer or mixer}
    return {kind for pattern in patterns for kind, _ in mixers.parse(pattern)}
