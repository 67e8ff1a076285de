"""Multi30k, task 1, by recurrent models of the Transformer's size: with and without attention.

    python launch.py --config=configs/multi30k_rnn.py:additive --config.data.directory=FOLDER
    python launch.py --mode=compare runs/multi30k_rnn-none runs/multi30k_rnn-additive

The second command shows the gain of attention by the length of the sentence.
Variants: 'none' (one fixed vector between encoder and decoder, Sutskever et al. 2014), 'additive'
(the default, Bahdanau et al. 2015), 'dot', 'general', 'concat' and 'location' with input feeding
(Luong et al. 2015), 'monotonic' and 'predictive', which are 'general' in a window, and 'intra',
with attention in the decoder and less weight on positions seen before (Paulus et al. 2017).
configs/sweeps/recurrent_attention.toml varies one key at a time. FOLDER is that of multi30k.py,
which has the Transformer to compare with. Hardware: two CPU cores for about an hour.
"""

from ml_collections import ConfigDict

from configs import multi30k

LUONG = {"attention_place": "after", "input_feeding": True}
PAULUS = {"temporal": True, "decoder_attention": True}
VARIANTS = {
    "none": {"attention": "none"},
    "additive": {"attention": "additive"},
    "dot": {"attention": "dot", **LUONG},
    "general": {"attention": "general", **LUONG},
    "concat": {"attention": "additive", **LUONG},
    "location": {"attention": "location", **LUONG},
    "monotonic": {"attention": "general", "window": "monotonic", **LUONG},
    "predictive": {"attention": "general", "window": "predictive", **LUONG},
    "intra": {"attention": "general", "attention_place": "after", **PAULUS},
}


def get_config(variant: str = "additive") -> ConfigDict:
    if variant not in VARIANTS:
        raise ValueError(f"expected a variant {', '.join(VARIANTS)}, found {variant!r}")
    config = multi30k.get_config()
    config.architecture = "recurrent"
    config.model = {
        "d_model": 224,  # of embeddings and states; half of it for each direction of the encoder
        "num_layers": 1,  # of the encoder, and of the decoder
        "bidirectional": True,  # the encoder also reads the source backwards
        "cell": "gru",  # or 'lstm'; 'rnn', 'relu': plain, with tanh or ReLU
        "cell_norm": "none",  # 'layer': layer normalisation inside the cells
        "forget_bias": 1.0,  # opens an LSTM's forget gate; a GRU has none
        "attention": "additive",  # 'none', 'dot', 'general', 'location'
        "attention_place": "before",  # or 'after' the decoder's cells
        "input_feeding": False,  # True: with 'after', the cells read the last context
        "window": "none",  # of the source; 'monotonic', 'predictive': local attention
        "window_radius": 10,  # in source positions
        "location_positions": 64,  # source positions that 'location' can score
        "temporal": False,  # True: less weight on positions seen before
        "decoder_attention": False,  # True: the decoder also attends to its own earlier states
        "tied_embeddings": "all",  # one matrix for source, target and output; 'none': three
        "dropout_rate": 0.3,  # of embeddings and of the decoder's outputs
    }
    config.model.update(VARIANTS[variant])
    config.data.pack = False  # a recurrent model reads one sentence pair per row
    config.loss.blocks = 1
    config.optimizer.clip_norm = 1.0
    config.optimizer.schedule = {
        "name": "warmup_constant_schedule",
        "init_value": 0.0,
        "peak_value": 2e-3,
        "warmup_steps": 200,
    }
    return config
