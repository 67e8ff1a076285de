"""Your own sentence pairs: aligned files, a sentence a line, plain, .gz or .xz.

    python launch.py --config=configs/parallel_text.py --workdir=runs/mine \
        --config.data.directory=FOLDER --config.data.source_language=de
        --config.data.target_language=en

FOLDER holds train.de and train.en, validation.de and validation.en, test.de and test.en. Files of
other names are given as STEM (--config.data.test=newstest2014), or as SOURCE_FILE,TARGET_FILE where
the stems differ. Without a test set (--config.data.test="") the final score is that of validation.

The model is a third of the paper's base, for some 100,000 to a million pairs: about an hour on one
GPU.
"""

from ml_collections import ConfigDict

from configs import translation


def get_config() -> ConfigDict:
    config = translation.get_config()
    config.data.corpus = "parallel_text"
    config.data.source_language = "de"
    config.data.target_language = "en"
    config.data.directory = "data"
    config.data.max_length = 128
    config.data.row_length = 128
    config.data.batch_tokens = 8192
    config.vocabulary.size = 8000
    config.vocabulary.character_coverage = 1.0
    config.model.d_model = 256
    config.model.d_ff = 1024
    config.model.num_heads = 4
    config.model.dropout_rate = 0.2
    config.train.num_steps = 30_000
    config.train.save_every = 1000
    config.evaluate.every = 1000
    config.evaluate.weights = "best"
    return config
