"""Loads labelled images by name, through TFDS: your own files, CIFAR-10 or ImageNet.

A split is prepared once, as ArrayRecord files under `data_dir`, and then read by index.
"""

import dataclasses
import functools
import io
import itertools
import math
import pathlib
import tarfile
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import tensorflow_datasets as tfds
from PIL import Image
from tensorflow_datasets.datasets.imagenet2012 import imagenet2012_dataset_builder as imagenet
from tensorflow_datasets.image_classification import cifar

from transformer.data import tfds_corpora
from transformer.data.corpora import fingerprint, folder, local_folder
from transformer.errors import UserError, check_value
from transformer.families.images import image_files
from transformer.families.images.image_files import ImageFiles
from transformer.families.images.images import LabelledImages
from transformer.runtime import progress

SHARD_BYTES = 1 << 28  # in memory at once, because TFDS holds the shard that it writes
OWN = "own_images"


@dataclasses.dataclass(eq=False, kw_only=True)
class OwnConfig(tfds.core.BuilderConfig):
    """The images of a split. Its name must include their hash.

    TFDS compares names only, and would serve the old images after an edit.
    """

    images: ImageFiles


class OwnImages(tfds.core.ShardBasedBuilder, skip_registration=True):
    """Writes image i of a split as record i, encoded as in its file (idx: as PNG).

    GeneratorBasedBuilder with disable_shuffling has the same order, but holds all images in memory,
    and needs TensorFlow above 1 GB.
    """

    VERSION = tfds.core.Version("1.0.0")
    NAME_KEY = "name"  # the feature that identifies an image

    def _info(self) -> tfds.core.DatasetInfo:
        features = {
            "image": tfds.features.Image(shape=(None, None, None)),
            "label": tfds.features.ClassLabel(names=self.builder_config.images.classes),
            "name": tfds.features.Text(),
        }
        features = tfds.features.FeaturesDict(features)
        return tfds.core.DatasetInfo(builder=self, features=features, disable_shuffling=True)

    def _shard_iterators_per_split(self, dl_manager: Any) -> dict[str, list[Callable]]:
        images = self.builder_config.images
        columns = zip(images.contents(), images.labels, images.names, strict=True)
        records = ({"image": image, "label": i, "name": name} for image, i, name in columns)
        total = len(images.labels)
        shown = progress.progress(records, "prepare images", total=total, unit="image")
        examples = enumerate(shown)
        # TFDS writes shards sequentially, so they can share an iterator: the first takes images 0
        # to `size` - 1, and the second continues. The last takes the rest, which exhausts the
        # iterator and thus ends the progress line.
        num_shards = 1 + images.num_bytes // SHARD_BYTES
        size = math.ceil(total / num_shards)
        shard = functools.partial(itertools.islice, examples, size)
        last = functools.partial(itertools.islice, examples, None)
        return {"images": [shard] * (math.ceil(total / size) - 1) + [last]}


class Cifar10(cifar.Cifar10, skip_registration=True):
    """Prepares TFDS's CIFAR-10 with PNGs by Pillow, where TFDS uses TensorFlow."""

    NAME_KEY = "id"

    def _generate_examples(
        self, split_prefix: str, filepaths: Iterable[str]
    ) -> Iterator[tuple[int, dict]]:
        # A record is a label byte, then the red, green and blue planes of 32 x 32 bytes.
        size = 1 + 3 * 32 * 32
        records = (x for path in filepaths for x in np.fromfile(path, np.uint8).reshape(-1, size))
        for index, record in enumerate(records):
            # Planes [3, 32, 32] -> pixels [32, 32, 3].
            image = image_files.encode_png(record[1:].reshape(3, 32, 32).transpose(1, 2, 0))
            yield index, {"id": f"{split_prefix}{index:05d}", "image": image, "label": record[0]}


class Imagenet2012(imagenet.Builder, skip_registration=True):
    """Prepares TFDS's ImageNet (ILSVRC 2012) without TensorFlow.

    TFDS needs TensorFlow to open the archives and to convert two dozen images to RGB or JPEG. The
    test split is left out, because its labels are not public.
    """

    NAME_KEY = "file_name"
    pkg_dir_path = tfds.core.tfds_path("datasets/imagenet2012")
    ARCHIVES = ("ILSVRC2012_img_train.tar", "ILSVRC2012_img_val.tar")

    def _split_generators(self, dl_manager: Any) -> dict[str, Iterator]:
        manual = pathlib.Path(dl_manager.download_dir, "manual")
        train, validation = archives = [manual / name for name in self.ARCHIVES]
        if missing := [str(file) for file in archives if not file.exists()]:
            raise UserError(
                f"imagenet2012: {' and '.join(missing)} not found: register at "
                "https://image-net.org/download-images, download the archives and put them there"
            )
        # Line i of TFDS's file is the label of image i in the order of names, not of the archive.
        with tarfile.open(validation) as archive:
            names = sorted(archive.getnames())
        labels = (self.pkg_dir_path / "validation_labels.txt").read_text().split()
        label_of_name = dict(zip(names, labels, strict=False))
        return {
            "train": self._generate_examples(dl_manager.iter_archive(train)),
            "validation": imagenet.imagenet_common.generate_examples_validation(
                dl_manager.iter_archive(validation), label_of_name
            ),
        }

    def _fix_image(self, image_fname: str, image: Any) -> Any:
        if image_fname not in (*imagenet.CMYK_IMAGES, *imagenet.PNG_IMAGES):
            return image
        # A CMYK JPEG or a PNG becomes an RGB JPEG; all other images keep their bytes.
        file = io.BytesIO()
        with Image.open(io.BytesIO(image.read())) as opened:
            opened.convert("RGB").save(file, "jpeg", quality=95)
        return io.BytesIO(file.getvalue())


KNOWN = {OWN: OwnImages, "cifar10": Cifar10, "imagenet2012": Imagenet2012}


def load(
    corpus: str, split: str, *, directory: str, data_dir: str, key: str = "split"
) -> LabelledImages:
    """Returns one split of labelled images; prepares it under `data_dir` first if necessary.

    `corpus` is a name in KNOWN. A split may be sliced as in TFDS: 'train[:55000]',
    'train[90%:]'. For OWN it is a stem in `directory` (see `image_files.find`). `key` is the
    split's config key, for error messages. UserError for a split that is missing or cannot be
    prepared.
    """
    check_value("data.corpus", corpus, tuple(KNOWN))
    data_dir = local_folder(data_dir)
    stem, bracket, part = split.partition("[")
    kind = KNOWN[corpus]
    files, config = (), None
    if corpus == OWN:
        images = image_files.find(folder(directory), stem, key)
        name = f"{len(images.classes)}-classes-{images.digest[:16]}"
        config = OwnConfig(name=name, images=images)
        files = images.files
        # They are prepared as one split, 'images': for 'train[:90%]' TFDS reads 'images[:90%]'.
        stem = "images"
    builder = tfds_corpora.prepare_corpus(kind, config, data_dir)
    split_of_builder = stem + bracket + part
    try:
        info = builder.info.splits[split_of_builder]
    except ValueError as error:
        # Replace TFDS's name of the split by the config's.
        reason = str(error).replace("images", split.partition("[")[0])
        raise UserError(f"{key}={split!r}: {reason}") from error
    if not info.num_examples:
        raise UserError(f"{key}={split!r} has no image")
    # Identifies the content without reading the images: the full name has the digest of own images
    # or the version of a known corpus.
    content = builder.info.full_name, split_of_builder, info.num_examples, info.num_bytes
    # images.py decodes the images by Pillow, because TFDS would prefer an installed OpenCV.
    skip = {"image": tfds.decode.SkipDecoding()}
    records = builder.as_data_source(split=split_of_builder, decoders=skip)
    classes = tuple(builder.info.features["label"].names)
    return LabelledImages(fingerprint(corpus, content), classes, records, kind.NAME_KEY, files)
