"""Korean to English: 33,672 pairs of everyday sentences, captions and documentation.

    python launch.py --config=configs/korean_english.py --config.data.directory=FOLDER

The variant korean_english.py:en_ko is for English to Korean. FOLDER holds train.{ko,en} and
dev.{ko,en} (or .xz), one sentence per line. Ours concatenate 5,137 pairs of Tatoeba (from
manythings.org/anki), 1,596 machine-translated image captions of KorSTS with their originals in
STS-B, and 26,939 passages of the Korean translation of Python's documentation
(github.com/python/python-docs-ko). Score a test set by

    python launch.py --mode=evaluate --workdir=runs/korean_english --config.evaluate.split=test \
        --config.data.test=TEST.ko,TEST.en

Hardware: two CPU cores for three quarters of an hour; docs/results.md has the scores.
"""

from ml_collections import ConfigDict

from configs import parallel_text

VARIANTS = ("ko_en", "en_ko")


def get_config(variant: str = "ko_en") -> ConfigDict:
    if variant not in VARIANTS:
        raise ValueError(f"the variants are {', '.join(VARIANTS)}, found {variant!r}")
    config = parallel_text.get_config()
    config.data.source_language, config.data.target_language = variant.split("_")
    config.data.validation = "dev"
    config.data.test = ""
    config.data.batch_tokens = 2048
    config.vocabulary.size = 4000
    config.model.num_layers = 3
    config.model.residual = "pre"
    config.model.final_norm = True
    config.model.positions = "rotary"
    config.model.dtype = "bfloat16"
    config.optimizer.schedule = {
        "name": "warmup_cosine_decay_schedule",
        "init_value": 0.0,
        "peak_value": 1.5e-3,
        "warmup_steps": 400,
        "decay_steps": config.train.get_oneway_ref("num_steps"),
    }
    config.train.num_steps = 5000
    config.train.save_every = 250
    config.decode.max_length = 128
    if variant == "en_ko":
        config.evaluate.tokenize = "char"  # as Korean words have many endings, few would match
    return config
