"""The keys of config.model that all Transformers have, with the paper's values.

These are the fields of `LayerOptions` in transformer/models/layer_options.py, and dtype.
"""

OF_INPUT = ("interleaved", "concatenated", "halves", "learned", "none")
RELATIVE = ("rotary", "shaw", "alibi", "t5")
KEYS = {
    "model.d_model": [512, "even and at least 4"],
    "model.d_ff": [2048, "at least 0"],  # 0: no feed-forward network
    "model.num_heads": [8, "at least 1"],
    "model.num_layers": [6, "at least 1"],  # of the encoder, where there are two stacks
    "model.key_size": [0, "at least 0"],  # of a head's queries and keys; 0: d_model / num_heads
    "model.value_size": [0, "at least 0"],  # of a head's values; 0: d_model / num_heads
    # What mixes the positions of a text: 'attention', another mixer with its fields, such as
    # 'local(window=16)', or a pattern that the layers repeat: 'local(window=16),attention'
    # (docs/table1.md lists them, models/mixers.py says what one is).
    "model.mixer": "attention",
    # How well a query and a key match (scores.py).
    "model.score": ["scaled_dot", ("scaled_dot", "dot", "general", "additive", "cosine")],
    # For experiments: queries and keys are one projection ('qk'), values, too ('qkv'), or all three
    # are the input itself ('identity'). '': three projections.
    "model.shared_projections": ["", ("", "qk", "qkv", "identity")],
    # LayerNorm after each residual; 'pre': before each sublayer.
    "model.norm": ["post", ("post", "pre")],
    # 'rms': RMSNorm in the place of LayerNorm; 'none'.
    "model.norm_kind": ["layer", ("layer", "rms", "none")],
    "model.final_norm": False,  # one more norm after each stack, as pre-norm needs
    "model.norm_epsilon": [1e-6, "at least 0"],
    "model.residual": True,  # False: without residual connections
    # Sinusoids with sine and cosine 'interleaved', in 'halves' (Hugging Face's Marian), or
    # 'concatenated' (tensor2tensor); 'learned'; 'none'; or of self-attention's keys relative to its
    # queries: 'rotary', 'shaw', 'alibi', 't5' (positions.py). Images have no sinusoids.
    "model.positions": ["interleaved", (*OF_INPUT, *RELATIVE)],
    "model.concatenated_positions": False,  # in the place of the sum, with a linear map behind
    # Of 'shaw' and 't5': farther keys are as this far; the papers have 16 and 128.
    "model.max_distance": [0, "at least 0"],
    # 'gelu_tanh' is GPT-2's, 'silu' is also called swish.
    "model.activation": ["relu", ("relu", "gelu", "gelu_tanh", "silu", "sigmoid")],
    "model.gated": False,  # times a further linear map: GLU with 'sigmoid', SwiGLU with 'silu'
    "model.attention_bias": False,  # biases in the attention projections
    # On embeddings and each sublayer's output.
    "model.dropout_rate": [0.1, "at least 0 and below 1"],
    "model.attention_dropout_rate": [0.0, "at least 0 and below 1"],  # on attention weights
    # Inside the feed-forward network.
    "model.activation_dropout_rate": [0.0, "at least 0 and below 1"],
    # Rematerialise activations in the backward pass: less memory, slower (docs/performance.md).
    "model.remat": False,
    "model.dtype": ["float32", ("float32", "bfloat16")],  # of activations; params are float32
}
