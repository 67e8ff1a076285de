"""Stacks of layers: the encoder and the decoder (paper 3.1, figure 1), for all Transformers here.

A model has a field `options: LayerOptions`, and calls `check` first. A new hyper-parameter of the
layers is a field of LayerOptions, which `sublayers` passes on, and a key of configs/_layers.py.
"""

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp

from transformer.errors import UserError
from transformer.models import cache as kv_cache
from transformer.models import fields, layers, positions
from transformer.models.attention import SCORES, KeysValues, MultiHeadAttention, View
from transformer.models.cache import KVCache

Array = jax.Array
DTYPES = ("float32", "bfloat16")
RULES = {
    "score": SCORES,
    "positions": positions.KINDS,
    "norm": ("post", "pre"),
    "norm_kind": ("layer", "rms", "none"),
    "activation": tuple(layers.ACTIVATIONS),
    **dict.fromkeys(("d_model", "d_ff", "num_heads", "num_layers"), "at least 1"),
    **dict.fromkeys(("key_size", "value_size", "norm_epsilon", "max_distance"), "at least 0"),
    "dropout_rate": "at least 0 and below 1",
    "attention_dropout_rate": "at least 0 and below 1",
    "activation_dropout_rate": "at least 0 and below 1",
    "dtype": DTYPES,
}
# Further ones of models of texts: sinusoids are two by two, and 4 of them the fewest.
TEXT_RULES = {"d_model": "even and at least 4", "max_positions": "at least 0"}


@dataclasses.dataclass(frozen=True)
class LayerOptions:
    """The hyper-parameters of a stack of layers; configs/_layers.py has the paper's values."""

    d_model: int
    d_ff: int
    num_heads: int
    num_layers: int
    key_size: int  # of one head; 0: d_model / num_heads
    value_size: int  # likewise
    score: str  # 'scaled_dot' (the paper's), or another of attention.SCORES
    norm: str  # 'post' (the paper's) or 'pre'
    norm_kind: str  # 'layer' (the paper's), 'rms' or 'none'
    final_norm: bool  # one more normalisation on top, as pre-norm needs; the paper has none
    norm_epsilon: float
    residual: bool  # False: without residual connections
    positions: str  # 'interleaved' sinusoids (the paper's), or another of positions.KINDS
    max_distance: int  # of 'shaw': farther keys count as this far
    activation: str  # 'relu' (the paper's), or another of layers.ACTIVATIONS
    attention_bias: bool
    dropout_rate: float  # of sub-layers' outputs and of the embedded input
    attention_dropout_rate: float
    activation_dropout_rate: float  # inside the feed-forward network
    remat: bool  # in training, compute each layer's activations again in the backward pass


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
    key_size, value_size = head_sizes(options)
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
        feed_forward=functools.partial(
            layers.FeedForward,
            d_ff=options.d_ff,
            activation=options.activation,
            dropout_rate=options.activation_dropout_rate,
            dtype=dtype,
        ),
        residual=functools.partial(
            layers.Residual,
            norm=options.norm,
            norm_kind=options.norm_kind,
            norm_epsilon=options.norm_epsilon,
            residual=options.residual,
            dropout_rate=options.dropout_rate,
            dtype=dtype,
        ),
        final_norm=functools.partial(
            layers.normalisation, options.norm_kind, epsilon=options.norm_epsilon, dtype=dtype
        ),
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


def head_sizes(options: LayerOptions) -> tuple[int, int]:
    """Returns (K, C), the sizes of one head's keys and values; a field of 0 is d_model / heads."""
    size = options.d_model // options.num_heads
    return options.key_size or size, options.value_size or size


def multiply_adds(options: LayerOptions, length: int) -> tuple[int, int]:
    """Returns the multiply-adds of one position in (attention over `length`, rest of a layer)."""
    K, C = head_sizes(options)
    # Attention: four projections (of queries and keys D * H * K, of values and output D * H * C),
    # and the position's scores and sums over all positions.
    attention = (2 * options.d_model + length) * options.num_heads * (K + C)
    attention += options.num_heads * K * K if options.score == "general" else 0
    # The rest: the feed-forward network, and the scores and sums of self-attention's distances.
    distances = 2 * options.max_distance + 1 if options.positions == "shaw" else 0
    return attention, 2 * options.d_model * options.d_ff + distances * options.num_heads * (K + C)


def check(model: nn.Module, rules: Mapping[str, str | Sequence]) -> None:
    """Raises UserError for an invalid field of a model; `rules` are those of its own fields."""
    options = model.options
    if options.positions == "learned" and "max_positions" in rules:
        rules = {**rules, "max_positions": "at least 1"}
    fields.check(model, {**RULES, **rules})
    sizes_given = options.key_size and options.value_size
    if options.d_model % options.num_heads and not sizes_given:
        raise UserError(
            f"config.model.d_model={options.d_model} must be a multiple of "
            f"config.model.num_heads={options.num_heads} (or give key_size and value_size)"
        )
    key_size, _ = head_sizes(options)
    positions.check(options.positions, options.score, key_size, options.max_distance)
