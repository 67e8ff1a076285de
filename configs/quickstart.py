"""Korean to English from the built-in corpus: data to test score in minutes on a laptop's CPU.

    python launch.py --config=configs/quickstart.py
    echo 나는 사과를 좋아해 | python launch.py --mode=translate --workdir=runs/quickstart

The corpus is synthetic: transformer/tools/quickstart generates it. Measured on 2 CPU cores: 2 to 3
minutes from an empty folder to the score, test BLEU 98.1.
"""

from ml_collections import ConfigDict

from configs import translation


def get_config() -> ConfigDict:
    config = translation.get_config()
    config.data.corpus = "builtin"
    config.data.source_language = "ko"
    config.data.target_language = "en"
    config.data.max_length = 64
    config.data.row_length = 64
    config.data.batch_tokens = 2048
    config.vocabulary.size = 1200
    config.vocabulary.character_coverage = 1.0
    config.model.d_model = 128
    config.model.d_ff = 512
    config.model.num_heads = 4
    config.model.num_layers = 2
    config.optimizer.schedule.warmup_steps = 400
    config.optimizer.schedule.factor = 1.0
    config.train.num_steps = 800
    config.train.log_every = 50
    config.train.save_every = 200
    config.evaluate.every = 200
    config.evaluate.weights = "best"
    config.decode.max_length = 64
    config.decode.batch_tokens = 4096
    return config
