"""Cluttered MNIST: a digit anywhere in 56 x 56 pixels, among pieces of other digits.

    python -m benchmarks.cluttered_mnist MNIST FOLDER
    python launch.py --config=configs/cluttered_mnist.py --config.data.directory=FOLDER

The first command makes the images from MNIST's, after Mnih et al. (2014). The variants are those of
mnist.py, smaller, with 125,518 to 125,898 parameters: 'both', 'patches', 'convolutions'.
configs/sweeps/cluttered.toml trains the three. Hardware: a CPU core for three to five minutes.
"""

from ml_collections import ConfigDict

from configs import mnist

VARIANTS = mnist.VARIANTS


def get_config(variant: str = "both") -> ConfigDict:
    config = mnist.get_config(variant)
    config.data.size = 56
    config.data.padding = 0  # because the digits are anywhere already
    config.data.batch_images = 64
    config.model.patch_size = 8  # 7 x 7 patches
    config.model.position_grid = 7
    config.model.mean = (0.0655,)
    config.model.std = (0.2289,)
    config.model.d_model = 64
    config.model.d_ff = 172 if variant == "patches" else 112  # convolutions have a larger stem
    config.train.num_steps = 1200
    config.train.save_every = config.evaluate.every = 600
    return config
