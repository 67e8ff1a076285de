"""Your own images: one folder of PNG or JPEG files per class.

    python launch.py --config=configs/own_images.py --config.data.directory=FOLDER

FOLDER/train/CLASS/ holds the images of each class, of any size. A tenth of them is for validation
and the final score. With --config.data.test=test, FOLDER/test/CLASS/ has the final score. Then

    ls *.jpg | python launch.py --mode=classify --workdir=runs/own_images

writes each image's class and its probability. Hardware: two CPU cores for an hour, for a few
thousand images. Images are scaled to 64 x 64 pixels; set data.size to 128 and model.position_grid
to 16 if the classes differ in details.
"""

from ml_collections import ConfigDict

from configs import image_classification


def get_config() -> ConfigDict:
    config = image_classification.get_config()
    config.data.corpus = "own_images"
    config.data.train = "train[:90%]"
    config.data.validation = "train[90%:]"
    config.data.test = ""
    config.data.size = 64
    config.data.central_crop = 1.0
    config.data.min_area = 0.3
    config.data.batch_images = 64
    config.data.num_classes = 10
    config.model.patch_size = 8
    config.model.stem = "convolutions"
    config.model.pooling = "mean"
    config.model.position_grid = 8
    config.model.d_model = 128
    config.model.d_ff = 512
    config.model.num_heads = 4
    config.model.num_layers = 4
    config.model.activation_dropout_rate = 0.0
    config.loss.label_smoothing = 0.1
    config.optimizer.arguments.weight_decay = 0.05
    config.optimizer.schedule.peak_value = 1e-3
    config.optimizer.schedule.warmup_steps = 300
    config.train.num_steps = 5000
    config.train.save_every = 250
    config.evaluate.every = 250
    return config
