"""Tiny Shakespeare, characters: nanoGPT's setting for a CPU, and the best model in 15 minutes.

    python launch.py --config=configs/shakespeare.py --config.data.directory=FOLDER
    python launch.py --config=configs/shakespeare.py:fifteen_minutes --config.data.directory=FOLDER
    echo "ROMEO:" | python launch.py --mode=generate --workdir=runs/shakespeare

FOLDER holds input.txt, or input.txt.xz (github.com/karpathy/char-rnn, data/tinyshakespeare). Its
first 90 % of characters are for training, the last 10 % for validation. Hardware: two CPU cores for
five minutes, or fifteen; with ':gpu', nanoGPT's setting for a GPU, one GPU. On two cores
XLA_FLAGS=--xla_cpu_scheduler_type=CPU_SCHEDULER_TYPE_CONCURRENCY_OPTIMIZED before the command takes
a seventh off each step (docs/performance.md). Measured on CPU cores, in nats per character of the
validation text: 1.829 and, with ':fifteen_minutes', 1.476. nanoGPT has 1.88, and with ':gpu'
1.4697; we have not run ':gpu' to the end.
"""

from ml_collections import ConfigDict

from configs import language_modelling

VARIANTS = {
    "cpu": {
        "data.context_length": 64,
        "data.batch_tokens": 12 * 64,
        "model.d_model": 128,
        "model.d_ff": 512,
        "model.num_heads": 4,
        "model.num_layers": 4,
        "model.max_positions": 64,
        "model.dropout_rate": 0.0,
        "train.num_steps": 2000,
        "evaluate.every": 250,
    },
    "fifteen_minutes": {
        "data.context_length": 128,
        "data.batch_tokens": 16 * 128,
        "model.d_model": 192,
        "model.d_ff": 768,
        "model.num_layers": 4,
        "model.positions": "rotary",
        "optimizer.schedule.peak_value": 2e-3,
        "optimizer.schedule.end_value": 2e-4,
    },
    "gpu": {
        "data.batch_tokens": 64 * 256,
        "model.dropout_rate": 0.2,
        "model.attention_dropout_rate": 0.2,
        "evaluate.every": 250,
    },
}


def get_config(variant: str = "cpu") -> ConfigDict:
    if variant not in VARIANTS:
        raise ValueError(f"the variants are {', '.join(VARIANTS)}, found {variant!r}")
    config = language_modelling.get_config()
    config.data.train = "input.txt[:90% of characters]"
    config.data.validation = "input.txt[90%: of characters]"
    config.vocabulary.kind = "characters"
    config.vocabulary.size = 68  # 64 characters and 4 special ids, including the line break
    config.generate.temperature = 0.8  # as in nanoGPT
    config.update_from_flattened_dict(VARIANTS[variant])
    return config
