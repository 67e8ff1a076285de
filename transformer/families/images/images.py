"""Labelled images -> the arrays of a batch: decoded, cropped, resized and augmented."""

import concurrent.futures
import dataclasses
import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from PIL import Image

from transformer.errors import UserError
from transformer.families.images.image_files import open_image

MODES = {1: "L", 3: "RGB"}  # Pillow's, by the number of channels
BOX_TRIES = 10


@dataclasses.dataclass(frozen=True)
class LabelledImages:
    """One split of labelled images, by index."""

    fingerprint: str  # of the content
    classes: tuple[str, ...]
    records: Sequence[dict]  # the TFDS data source: {'image': PNG or JPEG, 'label': index, ...}
    name_key: str  # the key of the image's name in a record
    files: tuple[str, ...] = ()  # of own images: the folder, or the two idx files

    def __len__(self) -> int:
        return len(self.records)

    def read(self, indices: Iterable[int]) -> tuple[list[bytes], np.ndarray, list[str]]:
        """Returns (encoded images, labels as indices into `classes`, names), in this order."""
        records = self.records.__getitems__([int(i) for i in indices])
        return (
            [record["image"] for record in records],
            np.array([record["label"] for record in records], np.int64),
            [record[self.name_key].decode() for record in records],
        )


class ImageView(NamedTuple):
    """The map from an image to an array [size, size, channels].

    Without augmentation (padding 0, flip False, min_area 0) the array is the central square of the
    image, resized. The square's side is `central_crop` times the image's shorter side.
    """

    size: int
    channels: int  # 1 for grey, 3 for colour
    central_crop: float
    padding: int = 0  # black pixels added on each side, before a random crop to `size`
    flip: bool = False  # mirrors an image left to right, with probability 1/2
    # Above 0, a random box of at least this share of the area replaces the central square.
    min_area: float = 0.0


def example(rows: int, view: ImageView) -> dict:
    """Returns the shapes and dtypes of a batch from `assemble`, as ShapeDtypeStructs."""
    shape = (rows, view.size, view.size, view.channels)
    return {
        "inputs": {"images": jax.ShapeDtypeStruct(shape, jnp.uint8)},
        "targets": jax.ShapeDtypeStruct((rows,), jnp.int32),
        "weights": jax.ShapeDtypeStruct((rows,), jnp.float32),
    }


def assemble(
    images: LabelledImages,
    class_ids: np.ndarray,
    view: ImageView,
    num_threads: int,
    items: np.ndarray,
    row_of_item: np.ndarray,
    shape: tuple[int, int],
    key: tuple = (),
) -> dict:
    """Returns a batch of images: items[i] in row row_of_item[i] of shape[0] rows.

    'inputs' are {'images': uint8 [rows, size, size, channels]}, which the model normalises;
    'targets' are class_ids[label], int32 [rows]; 'weights' are float32 [rows], 1 for images and 0
    on padding. An item's augmentation depends on `key` = (seed, t) and the item only. Images are
    decoded in `num_threads` threads.
    """
    is_random = view.padding or view.flip or view.min_area
    batch = jax.tree.map(lambda x: np.zeros(x.shape, x.dtype), example(shape[0], view))
    encoded, labels, names = images.read(items)

    def fill(part: range) -> None:
        # The draws depend on (seed, t, item), not on the thread or on the row.
        for i in part:
            rng = np.random.default_rng((*key, int(items[i]))) if is_random else None
            array = viewed(decode(encoded[i], names[i], view.channels), view, rng)
            batch["inputs"]["images"][row_of_item[i]] = array

    # Thread n takes items n, n + num_threads, ..., so that no two threads write the same row.
    parts = [range(start, len(items), num_threads) for start in range(num_threads)]
    # Pillow releases the GIL to decode and to resize.
    with concurrent.futures.ThreadPoolExecutor(num_threads, "images") as threads:
        # Reading the results raises a thread's error.
        list(threads.map(fill, parts))
    # With class_ids [1, 0], labels 0 1 1 become targets 1 0 0.
    batch["targets"][row_of_item] = class_ids[labels]
    batch["weights"][row_of_item] = 1
    return batch


def decode(encoded: bytes, name: str, channels: int) -> Image.Image:
    """Decodes a PNG or JPEG to 1 or 3 channels; UserError, naming it, if it is damaged."""
    return open_image(encoded, name).convert(MODES[channels])


def from_pixels(pixels: np.ndarray) -> Image.Image:
    """Returns the image of uint8 [height, width, 1 or 3]; UserError for another array."""
    if pixels.dtype != np.uint8 or pixels.ndim != 3 or pixels.shape[2] not in MODES:
        raise UserError(
            "expected an image of uint8 [height, width, 1 or 3], found "
            f"{pixels.dtype} {list(pixels.shape)}"
        )
    return Image.fromarray(pixels[:, :, 0] if pixels.shape[2] == 1 else pixels)


def viewed(image: Image.Image, view: ImageView, rng: np.random.Generator | None) -> np.ndarray:
    """Crops, resizes and augments an image by `rng`; returns uint8 [size, size, channels]."""
    box = random_box(image.size, view.min_area, rng) if view.min_area else None
    box = box or central_box(image.size, view.central_crop)
    # Bilinear with antialiasing; an image of the right size does not change.
    resized = image.crop(box).resize((view.size, view.size), Image.Resampling.BILINEAR)
    array = np.asarray(resized, np.uint8).reshape(view.size, view.size, view.channels)
    if view.padding:
        # Pad, and crop at an offset of 0 to 2 * padding; `padding` does not move the image.
        margins = (view.padding, view.padding)
        top, left = rng.integers(0, 2 * view.padding + 1, 2)
        padded = np.pad(array, (margins, margins, (0, 0)))
        array = padded[top : top + view.size, left : left + view.size]
    if view.flip and rng.random() < 0.5:
        array = array[:, ::-1]
    return array


def central_box(size: tuple[int, int], share: float) -> tuple[int, int, int, int]:
    """Returns (left, top, right, bottom) of the central square of an image of (width, height).

    Example: 8 x 4 with share 0.5 has the square (3, 1, 5, 3).
    """
    width, height = size
    side = max(1, round(share * min(size)))
    left, top = (width - side) // 2, (height - side) // 2
    return left, top, left + side, top + side


def random_box(
    size: tuple[int, int], min_area: float, rng: np.random.Generator
) -> tuple[int, int, int, int] | None:
    """Returns a random box (left, top, right, bottom) to crop (Szegedy et al. 2015).

    The box has `min_area` to 1 of the image's area, and an aspect ratio of 3:4 to 4:3. None if
    BOX_TRIES draws do not fit into the image.
    """
    width, height = size
    for _ in range(BOX_TRIES):
        area = rng.uniform(min_area, 1) * width * height
        # Uniform in the logarithm, so that 3:4 is as likely as 4:3.
        ratio = math.exp(rng.uniform(math.log(3 / 4), math.log(4 / 3)))
        w, h = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if 1 <= w <= width and 1 <= h <= height:
            left, top = rng.integers((width - w + 1, height - h + 1)).tolist()
            return left, top, left + w, top + h
    return None
