"""The layers' hyper-parameters, shared by all Transformers.

A model has a field `options: LayerOptions`. To add a hyper-parameter, add a field here and a key to
configs/_layers.py; if only one part of a box reads it, make it a field of that part.
"""

import dataclasses


@dataclasses.dataclass(frozen=True)
class LayerOptions:
    """The hyper-parameters of a stack of layers; configs/_layers.py has the paper's values."""

    d_model: int
    d_ff: int
    num_heads: int
    num_layers: int
    key_size: int  # of one head; 0: d_model / num_heads
    value_size: int  # likewise
    # The parts in the boxes of figure 1 (boxes.py); comments give the paper's.
    mixer: str  # 'attention'; may be a pattern over the layers
    score: str  # 'scaled_dot'
    positions: str  # 'interleaved' sinusoids
    feed_forward: str  # 'relu'; may be a pattern over the layers
    norm: str  # 'layer'
    residual: str  # 'post'
    final_norm: bool  # after the last layer, as pre-norm needs; the paper has none
    attention_bias: bool
    dropout_rate: float  # of sub-layers' outputs and of the embedded input
    attention_dropout_rate: float
    activation_dropout_rate: float  # inside the feed-forward network
    remat: bool  # recompute each layer's activations in the backward pass


def head_sizes(options: LayerOptions) -> tuple[int, int]:
    """Returns (K, C), the sizes of one head's keys and values; a field of 0 is d_model / heads."""
    size = options.d_model // options.num_heads
    return options.key_size or size, options.value_size or size
