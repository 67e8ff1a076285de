"""The keys of config.model that all Transformers have, with the paper's values.

These are the fields of `LayerOptions` in transformer/models/layer_options.py, and dtype.
"""

from ml_collections import ConfigDict


def get_config() -> ConfigDict:
    model = ConfigDict()
    model.d_model = 512
    model.d_ff = 2048  # 0: no feed-forward network
    model.num_heads = 8
    model.num_layers = 6  # of the encoder, where there are two stacks
    model.key_size = 0  # of a head's queries and keys; 0: d_model / num_heads
    model.value_size = 0  # of a head's values; 0: d_model / num_heads
    # What mixes the positions of a text: 'attention', another mixer with its fields, such as
    # 'local(window=16)', or a pattern that the layers repeat: 'local(window=16),attention'
    # (docs/table1.md lists them, models/mixers.py says what one is).
    model.mixer = "attention"
    model.score = "scaled_dot"  # or 'dot', 'general', 'additive', 'cosine' (scores.py)
    # For experiments: queries and keys are one projection ('qk'), values, too ('qkv'), or all three
    # are the input itself ('identity'). '': three projections.
    model.shared_projections = ""
    model.norm = "post"  # LayerNorm after each residual; 'pre': before each sublayer
    model.norm_kind = "layer"  # or 'rms' (RMSNorm in the place of LayerNorm), or 'none'
    model.final_norm = False  # one more norm after each stack, as pre-norm needs
    model.norm_epsilon = 1e-6
    model.residual = True  # False: without residual connections
    # Sinusoids with sine and cosine 'interleaved', in 'halves' (Hugging Face's Marian), or
    # 'concatenated' (tensor2tensor); 'learned'; 'none'; or of self-attention's keys relative to its
    # queries: 'rotary', 'shaw', 'alibi', 't5' (positions.py). Images have no sinusoids.
    model.positions = "interleaved"
    model.concatenated_positions = False  # in the place of the sum, with a linear map behind
    # Of 'shaw' and 't5': farther keys are as this far; the papers have 16 and 128.
    model.max_distance = 0
    model.activation = "relu"  # or 'gelu', 'gelu_tanh' (GPT-2's), 'silu' (swish), 'sigmoid'
    model.gated = False  # times a further linear map: GLU with 'sigmoid', SwiGLU with 'silu'
    model.attention_bias = False  # biases in the attention projections
    model.dropout_rate = 0.1  # on embeddings and each sublayer's output
    model.attention_dropout_rate = 0.0  # on attention weights
    model.activation_dropout_rate = 0.0  # inside the feed-forward network
    # Rematerialise activations in the backward pass: less memory, slower (docs/performance.md).
    model.remat = False
    model.dtype = "float32"  # of activations; or 'bfloat16'. Params are always float32
    return model
