r"""Multi30k, task 1, in 1,000 steps: what each box of figure 1 is worth.

    python launch.py --mode=sweep configs/sweeps/boxes.toml --config.data.directory=FOLDER
    python launch.py --config=configs/multi30k_boxes.py --config.data.directory=FOLDER \
        --config.model.positions=rotary

The first command trains a row for each part, and makes the table of docs/boxes.md. FOLDER and model
are those of multi30k.py, with fewer steps and shorter rows. Hardware: one CPU core for about five
minutes per row.
"""

from ml_collections import ConfigDict

from configs import multi30k


def get_config() -> ConfigDict:
    config = multi30k.get_config()
    # Short rows, because 'additive' makes an array of a head's size for each pair of positions.
    config.data.max_length = config.data.row_length = 64
    config.data.batch_tokens = 2048
    config.optimizer.schedule.warmup_steps = 400
    config.optimizer.schedule.factor = 1.0
    config.train.num_steps = 1000
    config.evaluate.every = 500
    return config
