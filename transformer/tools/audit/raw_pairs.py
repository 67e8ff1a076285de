"""Reads the raw pairs of a split: bytes, from the start, any number of times."""

import itertools
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from transformer.data import text_files
from transformer.data.corpora import Corpus


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

    def read() -> Iterator[tuple[bytes, bytes]]:
        for source, target in corpus.items(range(len(corpus))):
            yield source.encode(), target.encode()

    return Pairs(read, (len(corpus), len(corpus)), ())
