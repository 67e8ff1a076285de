"""Tiny Shakespeare, characters: nanoGPT's setting for a CPU, or what fifteen minutes can give.

    python launch.py --config=configs/shakespeare.py --config.data.directory=FOLDER
    python launch.py --config=configs/shakespeare.py:fifteen_minutes --config.data.directory=FOLDER
    echo "ROMEO:" | python launch.py --mode=generate --workdir=runs/shakespeare

FOLDER holds input.txt, or input.txt.xz (github.com/karpathy/char-rnn, data/tinyshakespeare), of
which the first 90 % of the characters are trained on, and the last 10 % validated on. Hardware: two
CPU cores for five minutes, or fifteen; with ':gpu', nanoGPT's setting for a GPU, one GPU. Measured
on CPU cores, in nats a character of the validation text: 1.829 and, with ':fifteen_minutes', 1.476;
nanoGPT's are 1.88, and with ':gpu' 1.4697, where we have not run to the end.
"""

from ml_collections import ConfigDict

from configs import language_modelling

VARIANTS = ("cpu", "fifteen_minutes", "gpu")


def get_config(variant: str = "cpu") -> ConfigDict:
    if variant not in VARIANTS:
        raise ValueError(f"the variants are {', '.join(VARIANTS)}, found {variant!r}")
    config = language_modelling.get_config()
    config.data.train = "input.txt[:90% of characters]"
    config.data.validation = "input.txt[90%: of characters]"
    config.vocabulary.kind = "characters"
    config.vocabulary.size = 68  # 64 characters and 4 special ids, of which one is the line break
    if variant == "cpu":
        config.data.context_length = 64
        config.data.batch_tokens = 12 * 64
        config.model.d_model = 128
        config.model.d_ff = 512
        config.model.num_heads = 4
        config.model.num_layers = 4
        config.model.max_positions = 64
        config.model.dropout_rate = 0.0
        config.train.num_steps = 2000
        config.evaluate.every = 250
    elif variant == "fifteen_minutes":
        config.data.context_length = 128
        config.data.batch_tokens = 16 * 128
        config.model.d_model = 192
        config.model.d_ff = 768
        config.model.num_layers = 4
        config.model.positions = "rotary"
        config.optimizer.schedule.peak_value = 2e-3
        config.optimizer.schedule.end_value = 2e-4
    else:
        config.data.batch_tokens = 64 * 256
        config.model.dropout_rate = 0.2
        config.model.attention_dropout_rate = 0.2
        config.evaluate.every = 250
    config.generate.temperature = 0.8  # as in nanoGPT
    return config
