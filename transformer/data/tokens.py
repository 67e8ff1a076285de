"""Sentence pairs -> ids, once: flat memory-mapped arrays, cached by content."""

import contextlib
import fcntl
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

# Given total=..., a context whose function is told how many more pairs are done.
Counter = Callable[..., contextlib.AbstractContextManager[Callable[[int], None]]]


class PairSource(Protocol):
    """What `tokenise` asks of a corpus (`corpora.Corpus`)."""

    fingerprint: str

    def __len__(self) -> int: ...
    def read(self, indices: range) -> tuple[list[str], list[str]]: ...


class Tokens(NamedTuple):
    """A corpus as flat ids: pair i's source is source[source_offsets[i] : source_offsets[i + 1]].

    Every sentence ends with the end symbol; a blank one has length 1.
    """

    source: np.ndarray
    source_offsets: np.ndarray
    target: np.ndarray
    target_offsets: np.ndarray
    directory: Path  # where it is cached, and what is derived from it

    @property
    def source_lengths(self) -> np.ndarray:
        return np.diff(self.source_offsets)

    @property
    def target_lengths(self) -> np.ndarray:
        return np.diff(self.target_offsets)

    @property
    def lengths(self) -> tuple[np.ndarray, np.ndarray]:
        """Of the source's and the target's sentences, as packing takes them."""
        return self.source_lengths, self.target_lengths


def tokenise(
    corpus: PairSource,
    vocabulary: tokenizer.Vocabulary,
    cache: Path,
    *,
    counter: Counter = lambda *, total: contextlib.nullcontext(lambda count: None),
) -> Tokens:
    """The ids of a corpus, memory-mapped from `cache`, where the first call writes them.

    The cache is keyed by content (the corpus and the pieces), so it never serves something else; it
    appears by rename, so that of several processes the first one wins and the others use its files.
    It is sealed by checksums: a damaged one is named and made anew. UserError if the disk is full.
    """
    key = hashlib.sha256(f"{corpus.fingerprint} {vocabulary.fingerprint}".encode()).hexdigest()[:16]
    directory = Path(cache) / key
    if not _is_whole(directory):
        with paths.cache_in(directory.parent), _draft(directory) as draft:
            with counter(total=len(corpus)) as advance:
                _write_tokens(corpus, vocabulary, draft, advance)
            (draft / checksums.NAME).write_bytes(checksums.checksums_of(draft))
            draft.chmod(0o755)  # mkdtemp's are private
            _move(draft, directory)
    arrays = []
    for side, pieces in zip(("source", "target"), vocabulary, strict=True):
        ids = np.memmap(directory / f"{side}.ids", _id_type(pieces), "r")
        arrays += [ids, np.load(directory / f"{side}_offsets.npy")]
    return Tokens(*arrays, directory)


def _is_whole(directory: Path) -> bool:
    """Whether a cache is there and undamaged; the damage is named. Processes come here when they
    want to, so each looks at all files."""
    if not directory.exists():
        return False
    faults = checksums.corrupt_files(directory, alone=True)
    if faults is None:
        faults = [f"{directory / checksums.NAME} (missing)"]
    if faults:
        logging.warning("damaged: %s; the ids are made anew", ", ".join(faults))
    return not faults


@contextlib.contextmanager
def _draft(directory: Path) -> Iterator[Path]:
    """Makes a folder to write `directory` in, and removes it if it is still there at the end.

    Whoever writes holds a lock on the draft, which ends with the process: drafts without one were
    left by processes that were killed, and are removed, too.
    """
    cache = directory.parent
    paths.make_folder(cache)
    with contextlib.ExitStack() as stack:
        with _locked(cache):  # so that no draft is seen before it has its lock
            for left in cache.glob("*-draft-*"):
                # Its writer may have come to its end meanwhile.
                with contextlib.suppress(FileNotFoundError), _locked(left, wait=False) as is_left:
                    if is_left:
                        shutil.rmtree(left, ignore_errors=True)
            draft = Path(tempfile.mkdtemp(prefix=f"{directory.name}-draft-", dir=cache))
            stack.callback(shutil.rmtree, draft, ignore_errors=True)
            stack.enter_context(_locked(draft))
        yield draft


@contextlib.contextmanager
def _locked(folder: Path, *, wait: bool = True) -> Iterator[bool]:
    """Holds a folder's lock; False without it: another process has it, or the disk has no locks."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            locked = True
        except OSError:
            locked = False
        yield locked
    finally:
        os.close(descriptor)


def _id_type(pieces: Sized) -> type:
    return np.uint16 if len(pieces) <= 1 << 16 else np.uint32


def _write_tokens(
    corpus: PairSource,
    vocabulary: tokenizer.Vocabulary,
    directory: Path,
    advance: Callable[[int], None],
    chunk: int = 8192,
) -> None:
    lengths = ([], [])
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


def _move(draft: Path, directory: Path) -> None:
    try:
        os.rename(draft, directory)
    except OSError:
        if not directory.exists():
            raise
        # It is damaged, or another process was first. One key has one content: whoever reads these
        # files meanwhile finds, at each moment, every one of them, and keeps those it has mapped.
        for file in draft.iterdir():
            os.replace(file, directory / file.name)
