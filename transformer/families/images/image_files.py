"""Labelled images on disk: a pair of idx files, or a folder per class."""

import functools
import gzip
import hashlib
import io
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from PIL import Image

from transformer.data import text_files
from transformer.errors import UserError

SUFFIXES = (".png", ".jpg", ".jpeg")  # in lower or upper case
# Pillow's errors for a file that is not an image, is damaged or is enormous.
BROKEN = (OSError, SyntaxError, ValueError, EOFError, Image.DecompressionBombError)


class ImageFiles(NamedTuple):
    """The labelled images of a split, read one by one."""

    classes: tuple[str, ...]
    labels: list[int]  # of each image, its index in `classes`
    names: list[str]  # of each image: 'cat/7.png', 'train-images-idx3-ubyte.gz image 7'
    digest: str  # sha256 of images and labels
    num_bytes: int  # approximate size of all images, to compute the number of shards
    files: tuple[str, ...]
    contents: Callable[[], Iterator[bytes]]  # yields each image as PNG or JPEG


def find(directory: Path, split: str, key: str) -> ImageFiles:
    """Returns the images of a split, by its stem in `directory`.

    STEM is a folder with a folder of PNG and JPEG images per class, or the stem of two idx files
    (MNIST's format), STEM-images-idx3-ubyte and STEM-labels-idx1-ubyte, plain or .gz. `key` is the
    split's config key, for error messages. UserError if the images are missing or damaged.
    """
    if (directory / split).is_dir():
        return class_folders(directory / split)
    files = []
    for end in ("-images-idx3-ubyte", "-labels-idx1-ubyte"):
        candidates = [directory / f"{split}{end}{suffix}" for suffix in ("", ".gz")]
        present = [file for file in candidates if file.is_file()]
        if not present:
            raise UserError(
                f"{key}={split!r}: expected a folder {directory / split} with a folder of images "
                f"for each class, or the idx file {candidates[0]}[.gz]; "
                f"{text_files.state(directory)}"
            )
        # The plain file has precedence.
        files += present[:1]
    return idx_files(*files)


# Class folders


def class_folders(folder: Path) -> ImageFiles:
    """Returns the images of FOLDER/CLASS/IMAGE.png (or .jpg, .jpeg), without hidden files.

    Images are sorted by their checksums, a shuffle that is equal on all machines, so that any part
    of the split, such as its last tenth, has images of all classes. UserError for any other file in
    the folder of a class.
    """
    images = []
    for path in folder.glob("[!.]*/[!.]*"):
        if path.suffix.lower() not in SUFFIXES or not path.is_file():
            raise UserError(f"{path} is not an image ({', '.join(SUFFIXES)}): remove it")
        status = path.stat()
        digest = _digest(path, status.st_size, status.st_mtime_ns)
        images.append((digest, path.parent.name, path))
    if not images:
        raise UserError(f"{folder} has no image: expected a folder of images for each class in it")
    # By (checksum, class, path), independent of the file system's order.
    images.sort()
    classes = tuple(sorted({name for _, name, _ in images}))
    content = "".join(f"{digest} {name}\n" for digest, name, _ in images)

    def contents() -> Iterator[bytes]:
        for _, _, path in images:
            encoded = path.read_bytes()
            # Decode it, so that a damaged image is named before training.
            open_image(encoded, str(path))
            yield encoded

    return ImageFiles(
        classes=classes,
        labels=[classes.index(name) for _, name, _ in images],
        names=[f"{name}/{path.name}" for _, name, path in images],
        digest=hashlib.sha256(content.encode()).hexdigest(),
        num_bytes=sum(path.stat().st_size for _, _, path in images),
        files=(str(folder),),
        contents=contents,
    )


@functools.cache
def _digest(path: Path, size: int, modified: int) -> str:
    """Returns a file's sha256; `size` and `modified` are only part of the cache's key."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def open_image(encoded: bytes, name: str) -> Image.Image:
    """Decodes a PNG or JPEG with 8 bits per channel; UserError, naming it, for another file."""
    try:
        with Image.open(io.BytesIO(encoded), formats=("PNG", "JPEG")) as image:
            image.load()
    except BROKEN as error:
        raise UserError(f"{name} is a damaged image, or neither PNG nor JPEG") from error
    if image.mode.startswith(("I", "F")):  # Pillow would clip values above 255
        raise UserError(f"{name} has more than 8 bits a channel: convert it to 8")
    return image


# idx files


def idx_files(images_file: Path, labels_file: Path) -> ImageFiles:
    """Returns the images of a pair of idx files; classes are named by number, '7'.

    The format (http://yann.lecun.com/exdb/mnist) is a magic number, a big-endian int32 per
    dimension, then a byte per pixel or label.
    """
    images, labels = read_idx(images_file, 3), read_idx(labels_file, 1)
    if len(images) != len(labels):
        raise UserError(
            f"{images_file} has {len(images)} images but {labels_file} has {len(labels)} labels"
        )
    if not images.size:
        raise UserError(f"{images_file} has no image of at least one pixel")
    # Labels 3 7 3 have classes '3' and '7', and indices 0 1 0.
    numbers, classes = np.unique(labels, return_inverse=True)
    # With the shape, because images of 2 x 8 and of 4 x 4 pixels may have the same bytes.
    digest = hashlib.sha256(repr(images.shape).encode() + images.tobytes() + labels.tobytes())
    return ImageFiles(
        classes=tuple(map(str, numbers)),
        labels=classes.tolist(),
        names=[f"{images_file.name} image {i}" for i in range(len(images))],
        digest=digest.hexdigest(),
        num_bytes=images.size,
        files=(str(images_file), str(labels_file)),
        contents=lambda: map(encode_png, images),
    )


def read_idx(file: Path, num_dimensions: int) -> np.ndarray:
    """Returns an idx file's array, uint8 of `num_dimensions`; UserError for any other file."""
    # The header: 0 0 8 (unsigned bytes), the number of dimensions, and an int32 per dimension.
    # MNIST's training images begin with the bytes 0 0 8 3 and the integers 60000 28 28.
    start = 4 + 4 * num_dimensions
    try:
        with (gzip.open if file.suffix == ".gz" else open)(file, "rb") as opened:
            content = np.frombuffer(opened.read(), np.uint8)
        if content[:4].tolist() != [0, 0, 8, num_dimensions]:
            raise ValueError(f"it begins with {content[:4]}")
        return content[start:].reshape(content[4:start].view(">u4"))
    except (gzip.BadGzipFile, zlib.error, EOFError, ValueError) as error:
        raise UserError(
            f"{file} is damaged, or not an idx file of bytes in {num_dimensions} dimensions: "
            f"{error}"
        ) from error


def encode_png(image: np.ndarray) -> bytes:
    """Returns a uint8 image [H, W] or [H, W, 3] as PNG."""
    file = io.BytesIO()
    Image.fromarray(image).save(file, "png", compress_level=1)
    return file.getvalue()
