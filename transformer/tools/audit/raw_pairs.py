"""The raw pairs of a split, as bytes and from the start, as often as they are asked for."""

import itertools
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from transformer.data import text_files
from transformer.data.corpora import Corpus

CHUNK = 8192  # records that are read at a time


class Pairs(NamedTuple):
    """One split, read as it is: a line may be in any encoding, a side may have more lines."""

    read: Callable[[], Iterator[tuple[bytes, bytes]]]  # all (source, target), b"" past an end
    counts: tuple[int, int]  # lines of the source, and of the target
    files: tuple[str, ...]  # of these two sides; () if the corpus is no parallel text

    def __len__(self) -> int:
        return max(self.counts)


def texts(pairs: Pairs, numbers: Collection[int]) -> dict[int, tuple[str, str]]:
    """Returns the pairs of these numbers, counted from 1, as text {number: (source, target)}."""
    read = enumerate(itertools.islice(pairs.read(), max(numbers, default=0)), 1)
    text = lambda line: line.decode(errors="replace")
    return {number: tuple(map(text, pair)) for number, pair in read if number in numbers}


def of_files(files: Sequence[Path]) -> Pairs:
    """Returns the pairs of two text files, of which one may be longer."""
    counts = tuple(text_files.digest_and_count(file)[1] for file in files)
    read = lambda: itertools.zip_longest(*map(text_files.raw_lines, files), fillvalue=b"")
    return Pairs(read, counts, tuple(map(str, files)))


def of_corpus(corpus: Corpus) -> Pairs:
    """Returns the pairs of a corpus that TFDS has prepared."""

    def read() -> Iterator[tuple[bytes, bytes]]:
        for start in range(0, len(corpus), CHUNK):
            indices = list(range(start, min(start + CHUNK, len(corpus))))
            for record in corpus.records.__getitems__(indices):
                yield record[corpus.source_language], record[corpus.target_language]

    return Pairs(read, (len(corpus), len(corpus)), ())
