"""MNIST: handwritten digits by a small Vision Transformer with a convolutional stem.

    python launch.py --config=configs/mnist.py --config.data.directory=FOLDER

FOLDER holds train-images-idx3-ubyte.gz, train-labels-idx1-ubyte.gz and both files of t10k, also
unpacked. The last 5,000 training images are for validation. 288,922 parameters. Measured on 2 CPU
cores in 8 minutes: 99.24 % of 5,000 test images (the even ones of t10k), 99.32 % in validation.

Variants: 'both' (the default), and each half with as many parameters within 3 %: 'patches'
(attention, 287,434) and 'convolutions' (a convolutional network of nine layers, 281,770).
configs/sweeps/vision.toml trains the three.
"""

from ml_collections import ConfigDict

from configs import image_classification

VARIANTS = {
    "both": {},
    "patches": {"stem": "patches", "patch_size": 7, "d_ff": 288},
    "convolutions": {"stem_depth": 3, "num_layers": 0, "positions": "none"},
}


def get_config(variant: str = "both") -> ConfigDict:
    if variant not in VARIANTS:
        raise ValueError(f"expected a variant {', '.join(VARIANTS)}, found {variant!r}")
    config = image_classification.get_config()
    config.data.corpus = "own_images"
    config.data.train = "train[:55000]"
    config.data.validation = "train[55000:]"
    config.data.test = "t10k"
    config.data.size = 28
    config.data.channels = 1
    config.data.central_crop = 1.0
    config.data.padding = 2
    config.data.flip = False
    config.data.min_area = 0.0
    config.data.batch_images = 128
    config.data.num_threads = 1  # tiny images are decoded faster in one thread
    config.data.num_classes = 10
    config.model.patch_size = 8  # 4 x 4 patches
    config.model.stem = "convolutions"
    config.model.pooling = "mean"
    config.model.position_grid = 4
    config.model.mean = (0.1307,)
    config.model.std = (0.3081,)
    config.model.d_model = 96
    config.model.d_ff = 192
    config.model.num_heads = 4
    config.model.num_layers = 3
    config.model.dropout_rate = 0.0  # because dropout slows learning in so few epochs
    config.model.activation_dropout_rate = 0.0
    config.model.update(VARIANTS[variant])
    config.optimizer.arguments.weight_decay = 0.05
    config.optimizer.schedule.peak_value = 2e-3
    config.optimizer.schedule.warmup_steps = 200
    config.train.num_steps = 6000  # 14 epochs
    config.train.save_every = 500
    config.evaluate.every = 500
    return config
