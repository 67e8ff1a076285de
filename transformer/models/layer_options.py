"""The hyper-parameters of the layers of all Transformers, and their checks.

A model has a field `options: LayerOptions`, and calls `stack.check` first. A new hyper-parameter of
the layers is a field of LayerOptions and a key of configs/_layers.py.
"""

import dataclasses

import flax.linen as nn

from transformer.errors import UserError
from transformer.models import dense, positions

ACTIVATIONS = {
    "relu": nn.relu,
    "gelu": dense.gelu,
    "gelu_tanh": nn.gelu,  # the approximation by tanh, which GPT-2 has
    "silu": nn.silu,  # x * sigmoid(x), also called swish
    "sigmoid": nn.sigmoid,
}


@dataclasses.dataclass(frozen=True)
class LayerOptions:
    """The hyper-parameters of a stack of layers; configs/_layers.py has the paper's values."""

    d_model: int
    d_ff: int  # 0: no feed-forward network
    num_heads: int
    num_layers: int
    key_size: int  # of one head; 0: d_model / num_heads
    value_size: int  # likewise
    mixer: str  # of each layer: 'attention' (the paper's), or a pattern of mixers.py
    score: str  # 'scaled_dot' (the paper's), or another of scores.SCORES
    shared_projections: str  # '' (the paper's), 'qk', 'qkv' or 'identity': see attention.py
    norm: str  # 'post' (the paper's) or 'pre'
    norm_kind: str  # 'layer' (the paper's), 'rms' or 'none'
    final_norm: bool  # one more normalisation on top, as pre-norm needs; the paper has none
    norm_epsilon: float
    residual: bool  # False: without residual connections
    positions: str  # 'interleaved' sinusoids (the paper's), or another of positions.KINDS
    concatenated_positions: bool  # a linear map of [x; position] in the place of their sum
    max_distance: int  # of 'shaw' and 't5': farther keys count as this far
    activation: str  # 'relu' (the paper's), or another of ACTIVATIONS
    gated: bool  # activations of the feed-forward network times a third linear map
    attention_bias: bool
    dropout_rate: float  # of sub-layers' outputs and of the embedded input
    attention_dropout_rate: float
    activation_dropout_rate: float  # inside the feed-forward network
    remat: bool  # in training, compute each layer's activations again in the backward pass


def head_sizes(options: LayerOptions) -> tuple[int, int]:
    """Returns (K, C), the sizes of one head's keys and values; a field of 0 is d_model / heads."""
    size = options.d_model // options.num_heads
    return options.key_size or size, options.value_size or size


def check(options: LayerOptions) -> None:
    """Raises UserError for hyper-parameters that contradict each other."""
    sizes_given = options.key_size and options.value_size
    if options.d_model % options.num_heads and not sizes_given:
        raise UserError(
            f"config.model.d_model={options.d_model} must be a multiple of "
            f"config.model.num_heads={options.num_heads} (or give key_size and value_size)"
        )
    key_size, value_size = head_sizes(options)
    positions.check(options.positions, options.score, key_size, options.max_distance)
    if options.concatenated_positions and not positions.is_of_input(options.positions):
        raise UserError(
            f"config.model.concatenated_positions=True: positions={options.positions!r} has no "
            "encoding of the input's positions to be concatenated"
        )
    if options.shared_projections in ("qkv", "identity") and key_size != value_size:
        raise UserError(
            f"config.model.shared_projections={options.shared_projections!r} needs keys and values "
            f"of one size, found key_size={key_size} and value_size={value_size}"
        )
    if options.shared_projections == "identity" and key_size * options.num_heads != options.d_model:
        raise UserError(
            "config.model.shared_projections='identity' needs heads that divide d_model between "
            f"them, found {options.num_heads} heads of {key_size} and d_model={options.d_model}"
        )
