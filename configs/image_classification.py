"""Image classification: every key with its default, ViT-B/16 trained from scratch on ImageNet.

    python launch.py --config=configs/image_classification.py

Other configs import this one and set the keys in which they differ. The values are those of
Dosovitskiy et al. 2021, tables 1 and 3. Hardware: 8 accelerators for days; imagenet2012.py is the
smaller ViT-S/16. Put the two archives of ImageNet into data_dir/downloads/manual.
"""

from ml_collections import ConfigDict

from configs import _keys, _layers, _run

KEYS = {
    **_run.KEYS,
    **_layers.KEYS,
    "task": "image_classification",
    "architecture": "vision_transformer",
    "data.corpus": "imagenet2012",  # or 'cifar10', or 'own_images' (your files)
    # Of own_images: the folder of STEM/CLASS/IMAGE.png (.jpg), or of STEM-images-idx3-ubyte and
    # STEM-labels-idx1-ubyte (MNIST's format, plain or .gz). Each split below is a STEM.
    "data.directory": "",
    "data.data_dir": "~/tensorflow_datasets",  # for prepared images
    "data.train": "train[:99%]",  # a split, or part of it
    "data.validation": "train[99%:]",
    "data.test": "validation",  # ImageNet's test labels are not public; "": none
    "data.size": [224, "at least 1"],  # height and width of the model's input
    "data.channels": [3, (1, 3)],  # 3: colour, 1: grey; images are converted
    # Share of the shorter side in evaluation's crop.
    "data.central_crop": [0.875, "above 0 and at most 1"],
    # Augmentation: a random crop after padding with black pixels; random mirroring; a random box
    # of at least this share of the area (0: the central square).
    "data.padding": [0, "at least 0"],
    "data.flip": True,
    "data.min_area": [0.05, "at least 0 and at most 1"],
    "data.batch_images": [4096, "at least 1"],
    "data.num_threads": [0, "at least 0"],  # threads that decode images; 0: one per core
    "data.num_classes": 1000,  # for --mode=plan; filled in by the run
    "data.fingerprint": "",  # hash of the training images; filled in by the run
    "vocabulary.labels_fingerprint": "",  # hash of the classes; filled in by the run
    "model.patch_size": [16, "at least 1"],
    # 'convolutions' halve the image down to the patches.
    "model.stem": ["patches", ("patches", "convolutions")],
    # Convolutions at each size; the first halves the image.
    "model.stem_depth": [1, "at least 1"],
    # Classify a learned 'token', or the patches' 'mean'.
    "model.pooling": ["token", ("token", "mean")],
    # Kinds other than 'learned' number the patches row by row.
    "model.positions": "learned",
    # Height and width of the learned positions. They are interpolated for another image size, such
    # as data.size = 384 after training with 224 (train.init_from).
    "model.position_grid": [14, "at least 1"],
    "model.mean": (0.485, 0.456, 0.406),  # of the pixels, per channel
    "model.std": (0.229, 0.224, 0.225),
    "model.num_layers": [12, "at least 0"],
    "loss.label_smoothing": [0.0, "at least 0 and below 1"],
    # Output of --mode=classify: LABEL<tab>PROBABILITY, or 'json' with every class.
    "classify.format": ["text", ("text", "json")],
    "classify.batch_size": [256, "at least 1"],  # images
    "classify.chunk_lines": [1024, "at least 1"],  # lines to read at a time
}


def get_config() -> ConfigDict:
    config = _keys.make(KEYS)
    config.model.d_model = 768
    config.model.d_ff = 3072
    config.model.num_heads = 12
    config.model.residual = "pre"
    config.model.final_norm = True
    config.model.feed_forward = "gelu"
    config.model.attention_bias = True
    config.model.activation_dropout_rate = 0.1

    config.train.num_steps = 93_000  # 300 epochs
    config.optimizer.name = "adamw"
    config.optimizer.arguments = ConfigDict()
    config.optimizer.arguments.b1 = 0.9
    config.optimizer.arguments.b2 = 0.999
    config.optimizer.arguments.eps = 1e-8
    config.optimizer.arguments.weight_decay = 0.3  # times the learning rate, of all params
    config.optimizer.clip_norm = 1.0
    config.optimizer.schedule = ConfigDict()
    config.optimizer.schedule.name = "warmup_cosine_decay_schedule"
    config.optimizer.schedule.init_value = 0.0
    config.optimizer.schedule.peak_value = 3e-3
    config.optimizer.schedule.warmup_steps = 10_000
    # Including the warm-up; a reference, which follows an overridden num_steps.
    config.optimizer.schedule.decay_steps = config.train.get_oneway_ref("num_steps")
    config.optimizer.schedule.end_value = 0.0
    config.evaluate.weights = "best"
    return config
