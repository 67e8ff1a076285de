"""Prepares a missing or damaged corpus by its TFDS builder, in one process, under a lock."""

import contextlib
import io
import logging
import pathlib
import shutil
import sys
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow_datasets as tfds

from transformer.data import downloads, wmt
from transformer.errors import UserError
from transformer.runtime import checksums, paths
from transformer.runtime.lock import try_lock


def corpus_folder(
    data_dir: str, corpus: type[tfds.core.DatasetBuilder], config: tfds.core.BuilderConfig
) -> pathlib.Path:
    """Returns the folder of a prepared corpus: data_dir/name/config/version."""
    return pathlib.Path(data_dir, corpus.name, config.name, str(corpus.VERSION))


def prepare_corpus(
    build: Callable[[], Any],
    folder: pathlib.Path,
    split: str,
    check: Callable[[], None] = lambda: None,
) -> Any:
    """Returns the TFDS builder of the corpus in `folder`, whose `split` has no checksum mismatch.

    `build` makes the builder: one to prepare the corpus, a new one to read it. Where the corpus is
    missing or damaged, one process prepares it and the others wait. `check` raises UserError if it
    cannot be prepared, before a damaged corpus is removed.
    """
    # Double-checked locking: a run that finds the corpus prepared takes no lock.
    info = folder / "dataset_info.json"
    if not info.exists() or _corrupt_files(folder, split):
        with _locked(folder):
            # Again, under the lock: another process may have prepared the corpus meanwhile.
            corrupt = _corrupt_files(folder, split)
            _remove_incomplete(folder)
            if corrupt:
                logging.warning("damaged: %s; preparing the corpus again", ", ".join(corrupt))
            if corrupt or not info.exists():
                _prepare(build, folder, check)
    with _quiet():
        builder = build()  # reads dataset_info.json
    formats = sorted(f.value for f in builder.info.available_file_formats())
    if "array_record" not in formats:
        raise UserError(
            f"{folder} holds the corpus as {formats[0]}, array_record is needed: set another "
            "data_dir or remove that folder"
        )
    return builder


@contextlib.contextmanager
def _locked(folder: pathlib.Path) -> Iterator[None]:
    """Holds the lock of a corpus.

    Without the lock (a disk that has none), a second process would remove the first one's
    unfinished folder.
    """
    # data_dir/name/.lock: one lock for all configs of a corpus; it ends with its process.
    place, data_dir = folder.parents[1] / ".lock", folder.parents[2]
    paths.make_folder(place.parent)
    with place.open("a") as file:
        if error := try_lock(file, wait=True):
            message = "%s has no file locks: another process preparing it would not be noticed: %s"
            logging.warning(message, data_dir, error)
        yield


def _prepare(build: Callable[[], Any], folder: pathlib.Path, check: Callable[[], None]) -> None:
    """Prepares a corpus in `folder`, replacing what is there, and writes its checksums."""
    name, data_dir = "/".join(folder.parts[-3:-1]), folder.parents[2]
    logging.info("preparing %s in %s", name, data_dir)
    check()
    # TFDS would keep a damaged corpus, because its folder exists.
    shutil.rmtree(folder, ignore_errors=True)
    try:
        # TFDS calls back wmt._pairs (WMT) or Records._shard_iterators_per_split to read the text.
        with _quiet(), downloads.without_tensorflow(), wmt.line_by_line():
            build().download_and_prepare(file_format="array_record")
    finally:
        _remove_incomplete(folder)
    # Last: the checksums mark the corpus as complete.
    paths.write_file(folder / checksums.NAME, checksums.checksums_of(folder))


def _corrupt_files(folder: pathlib.Path, split: str) -> list[str]:
    """Returns the names of a corpus's damaged files, without the shards of other splits.

    Hashing takes a core about a second per GB, and WMT's training split has several GB. A corpus
    without checksums was prepared by TFDS elsewhere, and is taken as undamaged.
    """
    wanted = lambda name: ".array_record-" not in name or f"-{split}.array_record-" in name
    return checksums.corrupt_files(folder, wanted=wanted, alone=True) or []


def _remove_incomplete(folder: pathlib.Path) -> None:
    """Removes what a failed or killed preparation has left.

    TFDS would take an empty version folder for a corpus without features.
    """
    if folder.exists() and not (folder / "dataset_info.json").exists():
        shutil.rmtree(folder)
    for incomplete in folder.parent.glob(f"incomplete.*_{folder.name}"):
        shutil.rmtree(incomplete)
    if folder.parent.exists() and not any(folder.parent.iterdir()):
        folder.parent.rmdir()


@contextlib.contextmanager
def _quiet():
    """Keeps TFDS off standard output, which is for results; progress bars only on a terminal."""
    tfds.display_progress_bar(sys.stderr.isatty())
    logger = logging.getLogger("absl")
    level = logger.level
    logger.setLevel("ERROR")
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            yield
    finally:
        logger.setLevel(level)
