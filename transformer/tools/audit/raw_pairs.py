"""Reads the raw pairs of a split, bytes, any number of times; writes lists and copies of them."""

import itertools
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from transformer.data import text_files
from transformer.data.corpora import Corpus
from transformer.errors import UserError
from transformer.runtime import paths
from transformer.tools.pages import page


class Pairs(NamedTuple):
    """One split as raw bytes: lines may be invalid UTF-8, and the sides may differ in length."""

    read: Callable[[], Iterator[tuple[bytes, bytes]]]  # all (source, target), b"" past an end
    counts: tuple[int, int]  # lines of the source, and of the target
    files: tuple[str, ...]  # of the two sides; () unless the corpus is parallel text

    def __len__(self) -> int:
        return max(self.counts)


def texts(pairs: Pairs, numbers: Collection[int]) -> dict[int, tuple[str, str]]:
    """Returns {number: (source, target)}, as text, of the pairs `numbers`, counted from 1."""
    # Stops at the last of the numbers, which are mostly near the start.
    read = enumerate(itertools.islice(pairs.read(), max(numbers, default=0)), 1)
    return {number: tuple(map(text, pair)) for number, pair in read if number in numbers}


def text(line: bytes) -> str:
    """Returns a line as text: bytes that are not UTF-8 become U+FFFD, a line break a space."""
    return line.decode(errors="replace").replace("\n", " ")


def file_pairs(files: Sequence[Path]) -> Pairs:
    """Returns the pairs of two text files; the shorter one is padded with b""."""
    counts = tuple(sum(1 for _ in text_files.raw_lines(file)) for file in files)
    read = lambda: itertools.zip_longest(*map(text_files.raw_lines, files), fillvalue=b"")
    return Pairs(read, counts, tuple(map(str, files)))


def corpus_pairs(corpus: Corpus) -> Pairs:
    """Returns the pairs of a corpus that is not two files."""
    read = lambda: ((x.encode(), y.encode()) for x, y in corpus.items(range(len(corpus))))
    return Pairs(read, (len(corpus), len(corpus)), ())


def check_new(name: str, key: str) -> None:
    """Raises UserError if a path exists or cannot be created; the audit overwrites nothing."""
    if paths.in_bucket(name):
        raise UserError(f"config.audit.{key} must be a local path, found {name}")
    path = paths.path(name)
    if path.exists():
        raise UserError(f"config.audit.{key}: {path} exists already, and is not overwritten")
    page.check_writable(path, f"config.audit.{key}")


def write_list(file: Path, split: str, pairs: Pairs, masks: Mapping[str, np.ndarray]) -> None:
    """Appends the pairs with a fault to a tab-separated file.

    A line is SPLIT, the line number (from 1), the FAULTS with commas, SOURCE, TARGET. Bytes that
    are not UTF-8 become U+FFFD, a tab in the text a space.
    """
    # Appended, because each split has a call of its own.
    paths.make_folder(file.parent)
    with file.open("a", encoding="utf-8") as output:
        for i, pair in enumerate(pairs.read()):
            if names := [name for name, mask in masks.items() if mask[i]]:
                sides = [text(line).replace("\t", " ") for line in pair]
                output.write("\t".join([split, str(i + 1), ",".join(names), *sides]) + "\n")


def write_copy(
    folder: Path, split: str, pairs: Pairs, languages: tuple[str, str], kept: np.ndarray
) -> None:
    """Writes the kept pairs, byte by byte and in their order, into FOLDER/SPLIT.LANGUAGE."""
    paths.make_folder(folder)
    # Bytes, so that lines are copied exactly, and "x", so that no file is overwritten.
    files = [folder / f"{split}.{language}" for language in languages]
    with files[0].open("xb") as source_file, files[1].open("xb") as target_file:
        for is_kept, (source, target) in zip(kept, pairs.read(), strict=True):
            if is_kept:
                source_file.write(source + b"\n")
                target_file.write(target + b"\n")
