"""Image classification: labelled images -> batches, loss, scores."""

import functools
import os
from collections.abc import Callable
from pathlib import Path

import flax.linen as nn
import numpy as np
from ml_collections import ConfigDict

from transformer.data.batches import Batches
from transformer.data.packing import Rows
from transformer.errors import UserError, quantity
from transformer.families.images import images
from transformer.families.images.images import ImageView, LabelledImages
from transformer.families.labels import class_names, classifiers
from transformer.tasks import splits
from transformer.tasks.evaluation import Evaluation
from transformer.tasks.task import Task, abstract_params, build_model, make_task

FREE = ("data.num_threads", "data.num_classes", "classify.")
CHUNK_IMAGES = 1024  # images in memory at once, while their names and labels are read

SCORE = {"best_by": "accuracy", "best_is": "highest", "unit": "image"}
model = build_model


def check(config: ConfigDict) -> None:
    """Raises UserError for invalid values, before anything is written or compiled."""
    data = config.data
    checked = model(config, sizes(config, None))
    if len(checked.mean) != data.channels:
        raise UserError(
            f"config.data.channels={data.channels} needs as many numbers in config.model.mean and "
            f"config.model.std, found {checked.mean} and {checked.std}"
        )
    abstract_params(checked, example(config, 1))


def prepare(config: ConfigDict, workdir: Path, saved_config: ConfigDict | None) -> ConfigDict:
    """Builds missing corpora, writes a new run's classes; returns the config with fingerprints."""
    corpora = splits.load_all(config, labelled_images)
    train = corpora["train"]
    splits.fill_in_fingerprint(config, workdir, saved_config, train)
    names = class_names.prepare(config, workdir, saved_config, train.classes, train.files)
    # Called for its error, so that a class that training lacks is found before validation.
    for split, corpus in corpora.items():
        class_ids(corpus, names, split)
    return config


def identity(config: ConfigDict) -> dict[str, str]:
    """Returns the fingerprint of the class names and their order; "" before `prepare`."""
    return {"labels": config.vocabulary.labels_fingerprint}


def sizes(config: ConfigDict, workdir: Path | None) -> dict[str, int]:
    """Returns {'num_classes', 'image_size'}; if `workdir` is None, all of the config."""
    return {"num_classes": class_names.number(config, workdir), "image_size": config.data.size}


def example(config: ConfigDict, rows: int) -> dict:
    """Returns a batch of jax.ShapeDtypeStruct; `rows` 0 for a full batch."""
    return images.example(rows or config.data.batch_images, evaluation_view(config))


def loss(config: ConfigDict, model: nn.Module) -> Callable:
    """Returns the training loss, (params, batch, *, rng) -> {name: sum over the images}."""
    return functools.partial(classifiers.training_loss, model=model, **config.loss)


def evaluator(config: ConfigDict, workdir: Path, model: nn.Module, split: str) -> Evaluation:
    """Returns the evaluator of a split.

    Its outputs have the columns 'image', the image's name, and 'label'.
    """
    names = class_names.read(workdir, config.vocabulary.labels_fingerprint)
    corpus = labelled_images(config, split)
    # In chunks, because `read` returns the encoded images, too: ImageNet's 50,000 take 6.7 GB.
    image_names, image_labels = [], []
    for start in range(0, len(corpus), CHUNK_IMAGES):
        chunk = range(len(corpus))[start : start + CHUNK_IMAGES]
        _, chunk_labels, chunk_names = corpus.read(chunk)
        image_names += chunk_names
        image_labels += [corpus.classes[i] for i in chunk_labels]
    return classifiers.evaluation(
        model,
        batches_of(config, corpus, class_ids(corpus, names, split), evaluation_view(config), None),
        split=split,
        # A result is named after the files of its split; of two idx files, after the images' file.
        files=corpus.files[:1],
        dataset={"image": image_names, "label": image_labels},
        labels=names,
        unit="image",
        label_smoothing=config.loss.label_smoothing,
        remedy="lower config.data.batch_images",
    )


def build(config: ConfigDict, workdir: Path) -> Task:
    """Builds the `Task` of a prepared workdir."""
    names = class_names.read(workdir, config.vocabulary.labels_fingerprint)
    corpus = labelled_images(config, "train")
    ids = class_ids(corpus, names, "train")
    batches = batches_of(config, corpus, ids, training_view(config), config.train.seed)
    about = (
        f"{quantity(len(corpus), 'training image')} of {len(names)} classes in batches of "
        f"{config.data.batch_images}"
    )
    return make_task(config, workdir, sizes(config, workdir), batches, about)


def reader(config: ConfigDict, workdir: Path) -> Callable:
    """Returns read(path, line number) -> {'images': [size, size, channels]}, of a PNG or JPEG.

    Instead of a path, it also takes an image, uint8 [height, width, channels].
    """
    view = evaluation_view(config)

    def read(line: str | np.ndarray, number: int) -> dict[str, np.ndarray]:
        if isinstance(line, np.ndarray):
            return {"images": images.viewed(images.from_pixels(line), view, None)}
        path = Path(os.path.expanduser(line))
        if not path.is_file():
            raise UserError(f"line {number}: {line!r} is not a file, expected the path of an image")
        image = images.decode(path.read_bytes(), f"line {number}: {line}", view.channels)
        return {"images": images.viewed(image, view, None)}

    return read


def labelled_images(config: ConfigDict, split: str) -> LabelledImages:
    """Returns the images of 'train', 'validation', 'test' or another split of the corpus."""
    # Imported here, because it imports TFDS.
    from transformer.families.images import image_corpora

    data = config.data
    name, key = splits.name_and_key(config, split)
    where = {"directory": data.directory, "data_dir": data.data_dir, "key": key}
    return image_corpora.load(data.corpus, name, **where)


def class_ids(corpus: LabelledImages, names: tuple[str, ...], split: str) -> np.ndarray:
    """Returns the run's class id of each of the corpus's classes, int32.

    A corpus has its own order of classes: with the run's (cat, dog) and the corpus's (dog, cat) the
    ids are [1, 0]. UserError for a class that training lacks.
    """
    place = corpus.files[-1] if corpus.files else f"the split {split!r}"
    return class_names.class_ids(corpus.classes, names, place=lambda i: place)


def batches_of(
    config: ConfigDict, corpus: LabelledImages, ids: np.ndarray, view: ImageView, seed: int | None
) -> Batches:
    """Returns the batches of a corpus, one image per row; shuffled by `seed`, in order if None."""
    threads = config.data.num_threads or os.cpu_count()
    # Item i is in row i, because images are never packed.
    rows = Rows(1, np.arange(len(corpus)), np.arange(len(corpus) + 1))
    assemble = functools.partial(images.assemble, corpus, ids, view, threads)
    return Batches([rows], config.data.batch_images, seed, assemble)


def evaluation_view(config: ConfigDict) -> ImageView:
    """Returns the view of evaluation and --mode=classify: the central square, unaugmented."""
    return ImageView(config.data.size, config.data.channels, config.data.central_crop)


def training_view(config: ConfigDict) -> ImageView:
    """Returns the view of training: evaluation's, with the config's augmentation."""
    return ImageView(**{name: config.data[name] for name in ImageView._fields})
