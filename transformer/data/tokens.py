"""Text -> ids, once: a cache on disk of flat memory-mapped arrays, keyed by content.

Sentence pairs have a source and a target side, plain text has one side. A cache is a folder `KEY`
with SIDE.ids and SIDE_offsets.npy of each side, MIXTURE of several corpora, and checksums.json.
"""

import contextlib
import functools
import hashlib
import json
from collections.abc import Sequence, Sized
from pathlib import Path
from typing import NamedTuple

import numpy as np

from transformer.data.corpora import Corpus
from transformer.data.tokenizer import Pieces, Vocabulary
from transformer.runtime import checksums, progress


class Side(NamedTuple):
    """One side of a corpus as flat ids: item i is ids[offsets[i] : offsets[i + 1]].

    Each item ends with END; a blank item has length 1. Example: [7 8 END] and [END] are ids 7 8 END
    END with offsets 0 3 4.
    """

    ids: np.ndarray
    offsets: np.ndarray

    @property
    def lengths(self) -> np.ndarray:
        return np.diff(self.offsets)


MIXTURE = "mixture.json"
NO_SIDE = Side(np.zeros(0, np.uint16), np.zeros(2, np.int64))  # one item without ids


class Tokens(NamedTuple):
    """A corpus as ids: {'source': Side, 'target': Side} of pairs, {'text': Side} of plain text."""

    sides: dict[str, Side]
    directory: Path  # the cache, also for packed rows
    mixture: Sequence[dict] = ()  # the corpus's

    @property
    def lengths(self) -> tuple[np.ndarray, ...]:
        """The lengths of each side's items, as packing takes them."""
        return tuple(side.lengths for side in self.sides.values())


def tokenise(
    corpus: Corpus, vocabulary: Vocabulary | Pieces, cache: Path, what: str = "tokenise"
) -> Tokens:
    """Returns the ids of a corpus, memory-mapped from a folder in `cache`.

    The first call writes the folder, named by a hash of the fingerprints of corpus and vocabulary.
    After a checksum mismatch it is rebuilt, with a warning. `what` labels the progress.
    """
    directory = _folder(corpus.fingerprint, vocabulary, cache)
    write = functools.partial(_write_tokens, corpus, vocabulary, what)
    checksums.make_folder(directory, write, "tokenising again")
    return read_tokens(corpus.fingerprint, vocabulary, cache)


def _write_tokens(
    corpus: Corpus, vocabulary: Vocabulary | Pieces, what: str, directory: Path
) -> None:
    """Encodes a corpus and writes its ids and offsets, a chunk of items at a time."""
    sides = vocabulary.sides
    lengths = {name: [] for name in sides}  # an array per chunk
    first = 0  # the chunk's first item
    if corpus.mixture:
        (directory / MIXTURE).write_text(json.dumps(corpus.mixture))
    with progress.counter(what, total=len(corpus)) as advance, contextlib.ExitStack() as stack:
        files = {n: stack.enter_context(open(directory / f"{n}.ids", "wb")) for n in sides}
        # In chunks, so that neither the texts nor their ids need fit into memory.
        for texts in corpus.chunks():
            for (name, encoder), side_texts in zip(sides.items(), texts, strict=True):
                items = corpus.encode(encoder, side_texts, first)
                lengths[name].append(np.array([len(ids) for ids in items], np.int32))
                flat = [i for ids in items for i in ids]
                files[name].write(np.array(flat, _id_type(encoder)).tobytes())
            advance(len(texts[0]))
            first += len(texts[0])
    for name in sides:
        # Lengths 3 and 1 give offsets 0 3 4.
        offsets = np.cumsum(np.concatenate([[0], *lengths[name]]), dtype=np.int64)
        np.save(directory / f"{name}_offsets.npy", offsets)


def read_tokens(fingerprint: str, vocabulary: Vocabulary | Pieces, cache: Path) -> Tokens:
    """Returns the ids that `tokenise` has written for the corpus with this fingerprint.

    It does not verify checksums again, because that takes about a second per GB.
    """
    directory = _folder(fingerprint, vocabulary, cache)
    sides = {}
    for name, encoder in vocabulary.sides.items():
        # Memory-mapped, so that processes on a host share pages, and a batch reads only its own.
        ids = np.memmap(directory / f"{name}.ids", _id_type(encoder), "r")
        sides[name] = Side(ids, np.load(directory / f"{name}_offsets.npy"))
    mixture = directory / MIXTURE
    return Tokens(sides, directory, json.loads(mixture.read_text()) if mixture.exists() else ())


def _id_type(pieces: Sized) -> type:
    """Returns the smallest integer type for ids: two bytes for up to 65,536 pieces."""
    return np.uint16 if len(pieces) <= 1 << 16 else np.uint32


def _folder(fingerprint: str, vocabulary: Vocabulary | Pieces, cache: Path) -> Path:
    # Another text or vocabulary has another key, so it never gets old ids.
    key = hashlib.sha256(f"{fingerprint} {vocabulary.fingerprint}".encode()).hexdigest()[:16]
    return Path(cache) / key
