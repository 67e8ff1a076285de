"""Your own sentence pairs: aligned text files, one sentence per line, plain, .gz or .xz.

    python launch.py --config=configs/parallel_text.py --workdir=runs/mine \
        --config.data.directory=FOLDER --config.data.target_language=en

FOLDER holds train.de and train.en, validation.de and validation.en, test.de and test.en. If it has
more than two languages, give config.data.source_language, too. For other file names give STEM
(--config.data.test=newstest2014), or SOURCE_FILE,TARGET_FILE if the stems differ; docs/your-data.md
has files of pairs and several corpora. Without a test set (--config.data.test="") the final score
is validation's.

The model is a fifth of the paper's base, for about 100,000 to a million pairs. Hardware: one GPU
for about an hour.
"""

from ml_collections import ConfigDict

from configs import translation


def get_config() -> ConfigDict:
    config = translation.get_config()
    config.data.corpus = "parallel_text"
    # The suffixes of the files; one of the two may be "", for the folder's other language.
    config.data.source_language = ""
    config.data.target_language = ""
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
