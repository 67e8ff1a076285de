"""Tatoeba, German to English: short everyday sentences.

    python launch.py --config=configs/tatoeba.py --config.data.directory=FOLDER

FOLDER holds train.de and train.en, dev.de and dev.en, test.de and test.en (plain, .gz or .xz), your
split of the sentence pairs of tatoeba.org. Scores depend on the split, because the corpus has many
near-duplicates.
"""

from ml_collections import ConfigDict

from configs import parallel_text


def get_config() -> ConfigDict:
    config = parallel_text.get_config()
    config.data.source_language = "de"
    config.data.target_language = "en"
    config.data.directory = "data/tatoeba-de-en"
    config.data.validation = "dev"
    config.data.max_length = 64
    config.data.row_length = 64
    config.data.batch_tokens = 4096
    config.model.num_layers = 3
    config.model.dropout_rate = 0.1
    config.optimizer.schedule.warmup_steps = 2000
    config.train.num_steps = 10_000
    config.evaluate.every = 2000
    return config
