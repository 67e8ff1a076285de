"""The keys of config.model that all Transformers share, with the paper's values.

They are the fields of `LayerOptions` in transformer/models/layer_options.py, and dtype.
"""

KEYS = {
    "model.d_model": [512, "even and at least 4"],
    "model.d_ff": [2048, "at least 1"],  # the width of the feed-forward network
    "model.num_heads": [8, "at least 1"],
    "model.num_layers": [6, "at least 1"],  # of the encoder, if there are two stacks
    "model.key_size": [0, "at least 0"],  # of a head's queries and keys; 0: d_model / num_heads
    "model.value_size": [0, "at least 0"],  # of a head's values; 0: d_model / num_heads
    # The boxes of figure 1. Each key names a part with its fields, such as 'rms(epsilon=1e-5)';
    # registry.PARTS lists the parts, and docs/boxes.md explains them. `mixer` and `feed_forward`
    # may be patterns that the layers repeat, 'local(window=16),attention'.
    "model.mixer": "attention",  # lets the positions of a text read each other
    "model.score": "scaled_dot",  # how well a query and a key match
    # 'interleaved' sinusoids; tensor2tensor's, 'concatenated'; 'learned'; or relative positions in
    # self-attention, such as 'rotary'.
    "model.positions": "interleaved",
    "model.feed_forward": "relu",
    "model.norm": "layer",  # LayerNorm
    "model.residual": "post",  # the norm is after each residual; 'pre': before each sublayer
    "model.final_norm": False,  # a norm after each stack, as 'pre' needs
    "model.attention_bias": False,  # biases in the attention projections
    # On embeddings and each sublayer's output.
    "model.dropout_rate": [0.1, "at least 0 and below 1"],
    "model.attention_dropout_rate": [0.0, "at least 0 and below 1"],  # on attention weights
    # Inside the feed-forward network.
    "model.activation_dropout_rate": [0.0, "at least 0 and below 1"],
    # Recompute activations in the backward pass: less memory, but slower (docs/performance.md).
    "model.remat": False,
    "model.dtype": ["float32", ("float32", "bfloat16")],  # of activations; params are float32
}
