"""Makes MNIST harder: a digit is anywhere in a larger image, among pieces of other digits.

    python -m benchmarks.cluttered_mnist MNIST FOLDER

After the "cluttered translated MNIST" of Mnih et al. (2014, "Recurrent Models of Visual
Attention"), whose images have 60 x 60 pixels. MNIST holds idx files, plain or .gz; FOLDER gets a
pair for each of --splits. Image i has the digit and the label of MNIST's image i at a random place;
PIECES squares, cut out of random digits of the same split at random, are added at random places.
Image i depends on SEED, the split's name and its digits alone.
"""

import argparse
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from transformer.families.images import image_files

SIZE, PIECES, PIECE, SEED = 56, 8, 8, 0


def cluttered(digits_NHW: np.ndarray, name: str) -> Iterator[np.ndarray]:
    """Yields an image [SIZE, SIZE], uint8, for each digit of a split with this name."""
    N, H, W = digits_NHW.shape
    for i, digit_HW in enumerate(digits_NHW):
        random = np.random.default_rng((SEED, zlib.crc32(name.encode()), i))
        image = np.zeros((SIZE, SIZE), int)
        top, left = random.integers((SIZE - H + 1, SIZE - W + 1))
        image[top : top + H, left : left + W] = digit_HW
        for j in random.integers(N, size=PIECES):
            y, x = random.integers((H - PIECE + 1, W - PIECE + 1))
            top, left = random.integers(SIZE - PIECE + 1, size=2)
            piece = digits_NHW[j, y : y + PIECE, x : x + PIECE]
            image[top : top + PIECE, left : left + PIECE] += piece
        yield image.clip(max=255).astype(np.uint8)


def write_idx(file: Path, array: np.ndarray) -> None:
    """Writes an array of bytes as `image_files.read_idx` reads it."""
    shape = np.array(array.shape, ">u4").tobytes()
    file.write_bytes(bytes((0, 0, 8, array.ndim)) + shape + array.tobytes())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("mnist", type=Path, help="the folder of MNIST's idx files")
    parser.add_argument("folder", type=Path, help="where the idx files of the new images go")
    parser.add_argument("--splits", default="train,t10k", help="the beginnings of the files' names")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    for split in arguments.splits.split(","):
        images, labels = map(Path, image_files.find(arguments.mnist, split, "--splits").files)
        drawn = np.stack([*cluttered(image_files.read_idx(images, 3), split)])
        write_idx(arguments.folder / f"{split}-images-idx3-ubyte", drawn)
        write_idx(arguments.folder / f"{split}-labels-idx1-ubyte", image_files.read_idx(labels, 1))
        print(f"{split}: {len(drawn)} images, mean {drawn.mean() / 255:.4f}", end="")
        print(f", standard deviation {drawn.std() / 255:.4f}")


if __name__ == "__main__":
    main()
