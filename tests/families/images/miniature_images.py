"""Miniature image data: idx files, class folders, and TFDS's archives where TFDS finds them."""

import gzip
import io

import numpy as np
from helpers.miniature_wmt import place, tar
from PIL import Image

from transformer.families.images import image_corpora


def patterns(count, classes=3, size=8, channels=1, seed=0):
    """(images uint8 [count, size, size(, 3)], labels): a bright stripe whose row is the class."""
    random = np.random.default_rng(seed)
    labels = random.permutation(np.arange(count) % classes)
    images = random.integers(0, 60, (count, size, size, channels), np.uint8)
    height = size // classes
    for image, label in zip(images, labels, strict=True):
        image[label * height : (label + 1) * height] += 180
    return images[..., 0] if channels == 1 else images, labels.astype(np.uint8)


def idx(array):
    """An array of bytes in the idx format."""
    dimensions = np.array(array.shape, ">u4").tobytes()
    return bytes((0, 0, 8, array.ndim)) + dimensions + array.tobytes()


def write_idx(folder, stem, images, labels, suffix=""):
    folder.mkdir(exist_ok=True, parents=True)
    compress = gzip.compress if suffix == ".gz" else bytes
    (folder / f"{stem}-images-idx3-ubyte{suffix}").write_bytes(compress(idx(images)))
    (folder / f"{stem}-labels-idx1-ubyte{suffix}").write_bytes(compress(idx(labels)))


def encoded(image, kind="png", **options):
    file = io.BytesIO()
    Image.fromarray(image).save(file, kind, **options)
    return file.getvalue()


def decoded(content):
    return np.asarray(Image.open(io.BytesIO(content)))


def write_class_folders(folder, images, names):
    """FOLDER/NAME/i.png for each image; `names` are the classes of the images."""
    for i, (image, name) in enumerate(zip(images, names, strict=True)):
        (folder / name).mkdir(parents=True, exist_ok=True)
        (folder / name / f"{i}.png").write_bytes(encoded(image))


def write_cifar10(data_dir, train, test):
    """The archive of CIFAR-10 with these (images [N, 32, 32, 3], labels), for load('cifar10')."""
    names = [f"class{i}" for i in range(10)]
    of_split = lambda images, labels: b"".join(
        bytes([label]) + image.transpose(2, 0, 1).tobytes()
        for image, label in zip(images, labels, strict=True)
    )
    parts = zip(*(np.array_split(x, 5) for x in train), strict=True)
    members = {f"data_batch_{i}.bin": of_split(*part) for i, part in enumerate(parts, start=1)}
    members |= {"test_batch.bin": of_split(*test), "batches.meta.txt": "\n".join(names).encode()}
    url = image_corpora.Cifar10(data_dir=str(data_dir))._cifar_info.url
    members = {f"cifar-10-batches-bin/{name}": content for name, content in members.items()}
    place(url, data_dir / "downloads" / "cifar10", tar(members))
    return names


def write_imagenet2012(data_dir, train, validation):
    """ImageNet's archives: {synset: {file name: JPEG}}, {file name: JPEG}."""
    folder = data_dir / "downloads" / "manual"
    folder.mkdir(parents=True, exist_ok=True)
    synsets = tar({f"{name}.tar": tar(images) for name, images in train.items()})
    (folder / "ILSVRC2012_img_train.tar").write_bytes(synsets)
    (folder / "ILSVRC2012_img_val.tar").write_bytes(tar(validation))
