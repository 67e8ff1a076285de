"""A few thousand sentence pairs of your own, in minutes on a laptop's CPU.

    python launch.py --config=configs/small_text.py --workdir=runs/small \
        --config.data.directory=FOLDER --config.data.target_language=en

FOLDER holds the files of parallel_text.py, whose model is for a hundred times as many pairs.
Measured on 2 CPU cores: 2 to 4 minutes for 6,000 pairs of Tatoeba's German and English, too few for
more than a test BLEU of 3. Less text may need a smaller --config.vocabulary.size, see the error.
"""

from ml_collections import ConfigDict

from configs import parallel_text


def get_config() -> ConfigDict:
    config = parallel_text.get_config()
    config.data.max_length = 64
    config.data.row_length = 64
    config.data.batch_tokens = 2048
    config.vocabulary.size = 1200
    config.model.d_model = 128
    config.model.d_ff = 512
    config.model.num_layers = 2
    config.optimizer.schedule.warmup_steps = 400
    config.optimizer.schedule.factor = 1.0
    config.train.num_steps = 800
    config.train.log_every = 50
    config.train.save_every = 200
    config.evaluate.every = 200
    config.decode.max_length = 64
    config.decode.batch_tokens = 4096
    return config
