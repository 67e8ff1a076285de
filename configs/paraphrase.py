"""Do two sentences say the same? Decomposable attention (Parikh et al. 2016), and a Transformer.

    python -m benchmarks.paraphrases TATOEBA FOLDER
    python launch.py --config=configs/paraphrase.py --config.data.directory=FOLDER

Variants: paraphrase.py:intra_attention (its section 3.4) and :transformer, an encoder with as many
parameters. FOLDER holds train.tsv, dev.tsv and test.tsv with lines LABEL<tab>A<tab>B. The first
command makes the pairs of docs/results.md from Tatoeba's train.{de,en}.xz. Hardware: two CPU cores
for a few minutes. Measured on these pairs: 75.2 % of the test pairs, and 76.2 % and 67.7 % for the
variants.
"""

from ml_collections import ConfigDict

from configs import classification

VARIANTS = ("decomposable", "intra_attention", "transformer")


def get_config(variant: str = "decomposable") -> ConfigDict:
    if variant not in VARIANTS:
        raise ValueError(f"the variants are {', '.join(VARIANTS)}, found {variant!r}")
    config = classification.get_config()
    config.data.validation = "dev.tsv"
    config.data.num_texts = 2
    config.data.max_length = 64
    config.data.batch_tokens = 2048
    config.vocabulary.size = 4000
    config.optimizer.schedule.peak_value = 1e-3
    config.optimizer.schedule.warmup_steps = 200
    config.train.num_steps = 1500
    config.train.save_every = config.evaluate.every = 150
    if variant == "transformer":
        config.model.d_model = 128
        config.model.d_ff = 512
        config.model.num_layers = 3
        config.model.max_positions = 64
        config.model.dropout_rate = 0.2
    else:
        config.architecture = "decomposable"
        config.model = {
            "d_model": 200,
            "d_ff": 200,
            "intra_attention": variant == "intra_attention",
            "max_distance": 10,
            "dropout_rate": 0.2,
        }
    return config
