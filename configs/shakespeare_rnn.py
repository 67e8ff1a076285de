"""Tiny Shakespeare, characters, by an LSTM with and without attention to its own past.

    python launch.py --config=configs/shakespeare_rnn.py --config.data.directory=FOLDER
    echo "ROMEO:" | python launch.py --mode=generate --workdir=runs/shakespeare_rnn

The default variant is :lstmn (Cheng, Dong and Lapata 2016, section 3.1), the other is
shakespeare_rnn.py:lstm. Both have one layer, and as many parameters within 1 %. FOLDER is that of
shakespeare.py. Hardware: a CPU core for one and two minutes.
"""

from ml_collections import ConfigDict

from configs import shakespeare

VARIANTS = {
    "lstmn": {"state_size": 240, "attention_size": 64},
    "lstm": {"state_size": 256, "attention_size": 0},
}


def get_config(variant: str = "lstmn") -> ConfigDict:
    if variant not in VARIANTS:
        raise ValueError(f"the variants are {', '.join(VARIANTS)}, found {variant!r}")
    config = shakespeare.get_config()
    config.architecture = "lstm_language_model"
    config.model = {
        "d_model": 128,  # of the embeddings
        "forget_bias": 1.0,  # opens the LSTM's forget gate
        "dropout_rate": 0.0,  # of embeddings and states
        **VARIANTS[variant],
    }
    config.data.batch_tokens = 32 * 64
    config.optimizer.schedule.peak_value = 3e-3
    config.train.num_steps = 500
    config.train.save_every = config.evaluate.every = 100
    return config
