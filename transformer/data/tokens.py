"""Sentence pairs -> ids, once: flat memory-mapped arrays, cached by content.

A cache is a folder `KEY` with source.ids, source_offsets.npy, target.ids, target_offsets.npy and
checksums.json. It is written as `KEY-draft-*` and renamed, so that readers never see half of it.
"""

import contextlib
import hashlib
import logging
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sized
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np

from transformer.data import tokenizer
from transformer.storage import checksums, paths
from transformer.storage.lock import try_lock

# Counter(total=n) is a context manager that gives a function of the number of further pairs done.
Counter = Callable[..., contextlib.AbstractContextManager[Callable[[int], None]]]


class PairSource(Protocol):
    """The interface of a corpus that `tokenise` needs, such as `corpora.Corpus`."""

    fingerprint: str

    def __len__(self) -> int: ...
    def read(self, indices: range) -> tuple[list[str], list[str]]: ...


class Tokens(NamedTuple):
    """A corpus as flat ids: pair i's source is source[source_offsets[i] : source_offsets[i + 1]].

    Each sentence ends with END; a blank one has length 1. Example: the sources [7 8 END] and [END]
    are source 7 8 END END with source_offsets 0 3 4.
    """

    source: np.ndarray
    source_offsets: np.ndarray
    target: np.ndarray
    target_offsets: np.ndarray
    directory: Path  # the cache, which also holds what is derived from it (packing)

    @property
    def source_lengths(self) -> np.ndarray:
        return np.diff(self.source_offsets)

    @property
    def target_lengths(self) -> np.ndarray:
        return np.diff(self.target_offsets)

    @property
    def lengths(self) -> tuple[np.ndarray, np.ndarray]:
        """(source_lengths, target_lengths), as packing takes them."""
        return self.source_lengths, self.target_lengths


def tokenise(
    corpus: PairSource,
    vocabulary: tokenizer.Vocabulary,
    cache: Path,
    *,
    counter: Counter = lambda *, total: contextlib.nullcontext(lambda count: None),
) -> Tokens:
    """Returns the ids of a corpus, memory-mapped from a folder in `cache`.

    The first call writes the folder; its name is a hash of the fingerprints of corpus and
    vocabulary. Of several processes that write it, the first to finish serves all. Where a checksum
    does not match, a warning names the file, and the folder is rebuilt. UserError if the disk is
    full.
    """
    directory = _folder(corpus.fingerprint, vocabulary, cache)
    if not _is_intact(directory):
        with paths.full_disk_as_user_error(directory.parent), _draft(directory) as draft:
            with counter(total=len(corpus)) as advance:
                _write_tokens(corpus, vocabulary, draft, advance)
            (draft / checksums.NAME).write_bytes(checksums.checksums_of(draft))
            draft.chmod(0o755)  # mkdtemp makes folders that other users cannot read
            _publish(draft, directory)
    return read(corpus.fingerprint, vocabulary, cache)


def read(fingerprint: str, vocabulary: tokenizer.Vocabulary, cache: Path) -> Tokens:
    """Returns the ids that `tokenise` has written for the corpus of that fingerprint.

    Reads neither the corpus nor checksums, which takes a second per GB: that is done once a run.
    """
    directory, arrays = _folder(fingerprint, vocabulary, cache), []
    for side, pieces in zip(("source", "target"), vocabulary, strict=True):
        ids = np.memmap(directory / f"{side}.ids", _id_type(pieces), "r")
        arrays += [ids, np.load(directory / f"{side}_offsets.npy")]
    return Tokens(*arrays, directory)


def _folder(fingerprint: str, vocabulary: tokenizer.Vocabulary, cache: Path) -> Path:
    key = hashlib.sha256(f"{fingerprint} {vocabulary.fingerprint}".encode()).hexdigest()[:16]
    return Path(cache) / key


def _is_intact(directory: Path) -> bool:
    """Returns whether a cache exists and its checksums match; warns of files that do not.

    Not collective, because processes call `tokenise` at different times: each checks all files.
    """
    if not directory.exists():
        return False
    corrupt = checksums.corrupt_files(directory, alone=True)
    if corrupt is None:
        corrupt = [f"{directory / checksums.NAME} (missing)"]
    if corrupt:
        logging.warning("damaged: %s; tokenising again", ", ".join(corrupt))
    return not corrupt


@contextlib.contextmanager
def _draft(directory: Path) -> Iterator[Path]:
    """Makes a temporary folder to write `directory` in, and removes it at the end if it is left.

    The writer holds a lock on its draft, which the system releases when the process dies: a draft
    that is not locked was left by a killed process, and is removed here.
    """
    cache = directory.parent
    paths.make_folder(cache)
    with contextlib.ExitStack() as stack:
        with _locked(cache):  # between mkdtemp and its lock, a draft would look abandoned
            for abandoned in cache.glob("*-draft-*"):
                # FileNotFoundError: its writer has just renamed it.
                with (
                    contextlib.suppress(FileNotFoundError),
                    _locked(abandoned, wait=False) as is_abandoned,
                ):
                    if is_abandoned:
                        shutil.rmtree(abandoned, ignore_errors=True)
            draft = Path(tempfile.mkdtemp(prefix=f"{directory.name}-draft-", dir=cache))
            stack.callback(shutil.rmtree, draft, ignore_errors=True)
            stack.enter_context(_locked(draft))
        yield draft


@contextlib.contextmanager
def _locked(folder: Path, *, wait: bool = True) -> Iterator[bool]:
    """Locks a folder; False if another process has the lock or the disk supports none."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        yield try_lock(descriptor, wait=wait) is None
    finally:
        os.close(descriptor)  # releases the lock


def _id_type(pieces: Sized) -> type:
    """Returns the smallest integer type for ids: two bytes for up to 65,536 pieces."""
    return np.uint16 if len(pieces) <= 1 << 16 else np.uint32


def _write_tokens(
    corpus: PairSource,
    vocabulary: tokenizer.Vocabulary,
    directory: Path,
    advance: Callable[[int], None],
    chunk: int = 8192,
) -> None:
    """Writes a corpus's ids and offsets, `chunk` pairs at a time."""
    lengths = ([], [])  # of the source and the target, an array per chunk
    with (
        open(directory / "source.ids", "wb") as source,
        open(directory / "target.ids", "wb") as target,
    ):
        for start in range(0, len(corpus), chunk):
            texts = corpus.read(range(start, min(start + chunk, len(corpus))))
            for side, file in enumerate((source, target)):
                sentences = tokenizer.encode(vocabulary[side], texts[side])
                lengths[side].append(np.array([len(ids) for ids in sentences], np.int32))
                flat = [i for ids in sentences for i in ids]
                file.write(np.array(flat, _id_type(vocabulary[side])).tobytes())
            advance(len(texts[0]))
    for side, name in enumerate(("source", "target")):
        offsets = np.cumsum(np.concatenate([[0], *lengths[side]]), dtype=np.int64)
        np.save(directory / f"{name}_offsets.npy", offsets)


def _publish(draft: Path, directory: Path) -> None:
    """Renames a draft to its final name, or its files if that folder exists."""
    try:
        os.rename(draft, directory)
    except OSError:
        if not directory.exists():
            raise
        # The folder is damaged, or another process was first. A key has one content, so that each
        # file can be replaced while others read it: those keep the file that they have mapped.
        for file in draft.iterdir():
            os.replace(file, directory / file.name)
