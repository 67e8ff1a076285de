"""Image classification: every key with its default, ViT-B/16 trained from scratch on ImageNet.

    python launch.py --config=configs/image_classification.py

Other configs import this one and set the keys in which they differ. The values are those of
Dosovitskiy et al. 2021, tables 1 and 3, for which 8 accelerators take days; imagenet2012.py is the
smaller ViT-S/16. As for it, the two archives of ImageNet have to be in data_dir/downloads/manual.
"""

from ml_collections import ConfigDict

from configs import _layers, _run


def get_config() -> ConfigDict:
    config = _run.get_config()
    config.task = "image_classification"
    config.architecture = "vision_transformer"

    config.data = ConfigDict()
    config.data.corpus = "imagenet2012"  # or 'cifar10', or 'own_images' (your files)
    # Of own_images: the folder with STEM/CLASS/IMAGE.png (.jpg), or with STEM-images-idx3-ubyte and
    # STEM-labels-idx1-ubyte (MNIST's format, plain or .gz). Each split below is such a STEM.
    config.data.directory = ""
    config.data.data_dir = "~/tensorflow_datasets"  # where prepared images are stored
    config.data.train = "train[:99%]"  # a split, or a part of one
    config.data.validation = "train[99%:]"
    config.data.test = "validation"  # ImageNet's test labels are not public; "": none
    config.data.size = 224  # height and width of what the model sees
    config.data.channels = 3  # 3: colour, 1: grey; images are converted
    config.data.central_crop = 0.875  # share of the shorter side that evaluation sees
    # Augmentation: a random crop out of the image with so many black pixels around it; mirrored
    # images; a random box of at least this share of the area (0: the central square).
    config.data.padding = 0
    config.data.flip = True
    config.data.min_area = 0.05
    config.data.batch_images = 4096
    config.data.num_threads = 0  # threads that decode images; 0: one a core
    config.data.num_classes = 1000  # for --mode=plan; a run fills in those of its images
    config.data.fingerprint = ""  # hash of the training images; filled in by the run

    config.vocabulary = ConfigDict()
    config.vocabulary.labels_fingerprint = ""  # hash of the classes; filled in by the run

    config.model = _layers.get_config()
    config.model.patch_size = 16
    config.model.stem = "patches"  # or 'convolutions', which halve the image down to the patches
    config.model.stem_depth = 1  # convolutions at each size, of which the first halves the image
    config.model.pooling = "token"  # what is classified: a learned one, or the patches' 'mean'
    config.model.positions = "learned"
    # Height and width of the learned positions: images of another size get them interpolated, such
    # as data.size = 384 after training with 224 (train.init_from).
    config.model.position_grid = 14
    config.model.mean = (0.485, 0.456, 0.406)  # of the pixels, for each channel
    config.model.std = (0.229, 0.224, 0.225)
    config.model.d_model = 768
    config.model.d_ff = 3072
    config.model.num_heads = 12
    config.model.num_layers = 12
    config.model.norm = "pre"
    config.model.final_norm = True
    config.model.activation = "gelu"
    config.model.attention_bias = True
    config.model.activation_dropout_rate = 0.1

    config.loss = ConfigDict()
    config.loss.label_smoothing = 0.0

    config.train.num_steps = 93_000  # 300 epochs
    config.optimizer.name = "adamw"
    config.optimizer.arguments = ConfigDict()
    config.optimizer.arguments.b1 = 0.9
    config.optimizer.arguments.b2 = 0.999
    config.optimizer.arguments.eps = 1e-8
    config.optimizer.arguments.weight_decay = 0.3  # times the learning rate, of all params
    config.optimizer.clip_norm = 1.0
    config.optimizer.schedule = ConfigDict()  # one of optax
    config.optimizer.schedule.name = "warmup_cosine_decay_schedule"
    config.optimizer.schedule.init_value = 0.0
    config.optimizer.schedule.peak_value = 3e-3
    config.optimizer.schedule.warmup_steps = 10_000
    config.optimizer.schedule.decay_steps = config.train.get_ref("num_steps")  # warm-up included
    config.optimizer.schedule.end_value = 0.0
    config.evaluate.weights = "best"

    config.classify = ConfigDict()  # read by --mode=classify only, as is what follows
    config.classify.format = "text"  # LABEL<tab>PROBABILITY, or 'json': every class's probability
    config.classify.batch_size = 256  # images at a time
    config.classify.chunk_lines = 1024  # lines to read at a time
    return config
