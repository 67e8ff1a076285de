"""The keys of config.model that all Transformers have, with the paper's values.

These are the fields of `LayerOptions` in transformer/models/layers.py, and dtype.
"""

from ml_collections import ConfigDict


def get_config() -> ConfigDict:
    model = ConfigDict()
    model.d_model = 512
    model.d_ff = 2048
    model.num_heads = 8
    model.num_layers = 6  # of the encoder, where there are two stacks
    model.key_size = 0  # of a head's queries and keys; 0: d_model / num_heads
    model.value_size = 0  # of a head's values; 0: d_model / num_heads
    model.score = "scaled_dot"  # or 'dot', 'general', 'additive', 'cosine' (attention.py)
    model.norm = "post"  # LayerNorm after each residual; 'pre': before each sublayer
    model.norm_kind = "layer"  # or 'rms' (RMSNorm in the place of LayerNorm), or 'none'
    model.final_norm = False  # one more norm after each stack, as pre-norm needs
    model.norm_epsilon = 1e-6
    model.residual = True  # False: without residual connections
    # Sinusoids with sine and cosine 'interleaved', in 'halves' (Hugging Face's Marian), or
    # 'concatenated' (tensor2tensor); 'learned'; 'none'; or of self-attention's keys relative to its
    # queries: 'rotary', 'shaw' (positions.py). Of images: 'learned', 'none', 'rotary', 'shaw'.
    model.positions = "interleaved"
    model.max_distance = 0  # of 'shaw': farther keys are as this far; the paper has 16
    model.activation = "relu"  # or 'gelu', 'gelu_tanh' (GPT-2's), 'silu' (swish)
    model.attention_bias = False  # biases in the attention projections
    model.dropout_rate = 0.1  # on embeddings and each sublayer's output
    model.attention_dropout_rate = 0.0  # on attention weights
    model.activation_dropout_rate = 0.0  # inside the feed-forward network
    # Rematerialise activations in the backward pass: less memory, slower (docs/performance.md).
    model.remat = False
    model.dtype = "float32"  # of activations; or 'bfloat16'. Params are always float32
    return model
