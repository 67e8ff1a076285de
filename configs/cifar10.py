"""A small Vision Transformer with a convolutional stem on CIFAR-10, 100 epochs.

    python launch.py --config=configs/cifar10.py

TFDS downloads the archive (170 MB). Hardware: one GPU, or two CPU cores for days. We have not run
it to the end; github.com/kuangliu/transformer reports 91.9 % for a Vision Transformer with a larger
convolutional stem.
"""

from ml_collections import ConfigDict

from configs import image_classification


def get_config() -> ConfigDict:
    config = image_classification.get_config()
    config.data.corpus = "cifar10"
    config.data.train = "train[:45000]"
    config.data.validation = "train[45000:]"
    config.data.test = "test"
    config.data.size = 32
    config.data.central_crop = 1.0
    config.data.padding = 4
    config.data.min_area = 0.0
    config.data.batch_images = 256
    config.data.num_threads = 1  # tiny images are decoded faster in one thread
    config.data.num_classes = 10
    config.model.patch_size = 4
    config.model.stem = "convolutions"
    config.model.pooling = "mean"
    config.model.position_grid = 8
    config.model.mean = (0.4914, 0.4822, 0.4465)
    config.model.std = (0.2470, 0.2435, 0.2616)
    config.model.d_model = 192
    config.model.d_ff = 768
    config.model.num_heads = 3
    config.model.num_layers = 9
    config.model.activation_dropout_rate = 0.0
    config.loss.label_smoothing = 0.1
    config.optimizer.arguments.weight_decay = 0.05
    config.optimizer.schedule.peak_value = 1e-3
    config.optimizer.schedule.warmup_steps = 1000
    config.train.num_steps = 17_600
    config.train.save_every = 880
    config.evaluate.every = 880  # five epochs
    return config
