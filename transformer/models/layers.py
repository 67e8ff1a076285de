"""The layers of encoder and decoder (paper 3.1 and 3.3, figure 1), and their hyper-parameters.

A model has a field `options: LayerOptions`, and calls `check` first. A new hyper-parameter of the
layers is a field of LayerOptions and a key of configs/_layers.py.
"""

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence

import flax.linen as nn
import jax
import jax.numpy as jnp

from transformer.errors import UserError
from transformer.models import dense, fields, positions
from transformer.models.attention import SCORES, KeysValues, View
from transformer.models.cache import write

Array = jax.Array

ACTIVATIONS = {
    "relu": nn.relu,
    "gelu": functools.partial(nn.gelu, approximate=False),
    "gelu_tanh": nn.gelu,  # the approximation by tanh, which GPT-2 has
    "silu": nn.silu,  # x * sigmoid(x), also called swish
}
DTYPES = ("float32", "bfloat16")
RULES = {
    "score": SCORES,
    "positions": positions.KINDS,
    "norm": ("post", "pre"),
    "norm_kind": ("layer", "rms", "none"),
    "activation": tuple(ACTIVATIONS),
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
    activation: str  # 'relu' (the paper's), or another of ACTIVATIONS
    attention_bias: bool
    dropout_rate: float  # of sub-layers' outputs and of the embedded input
    attention_dropout_rate: float
    activation_dropout_rate: float  # inside the feed-forward network
    remat: bool  # in training, compute each layer's activations again in the backward pass


class FeedForward(nn.Module):
    """Applies two linear maps with an activation between them, at each position (equation 2)."""

    options: LayerOptions
    dtype: jnp.dtype

    @nn.compact
    def __call__(self, x_BTD: Array, *, train: bool) -> Array:
        linear = functools.partial(
            nn.Dense,
            kernel_init=dense.glorot_uniform,
            dtype=self.dtype,
            dot_general=dense.dot_general,
        )
        options = self.options
        # max(0, x W1 + b1) W2 + b2; only the inner activations are d_ff wide.
        h_BTF = linear(features=options.d_ff, name="inner")(x_BTD)
        h_BTF = ACTIVATIONS[options.activation](h_BTF)
        dropout = dense.Dropout(rate=options.activation_dropout_rate)
        h_BTF = dropout(h_BTF, deterministic=not train)
        return linear(features=x_BTD.shape[-1], name="outer")(h_BTF)


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
    feed_forward = 2 * options.d_model * options.d_ff
    # The scores and sums of self-attention's distances.
    distances = 2 * options.max_distance + 1 if options.positions == "shaw" else 0
    return attention, feed_forward + distances * options.num_heads * (K + C)


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
