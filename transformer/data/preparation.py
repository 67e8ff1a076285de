"""Prepares a missing or damaged corpus by its TFDS builder, in one process, under a lock."""

import contextlib
import functools
import io
import logging
import pathlib
import shutil
import sys
from collections.abc import Callable

import tensorflow_datasets as tfds

from transformer.data import downloads, wmt
from transformer.errors import UserError
from transformer.runtime import checksums, paths
from transformer.runtime.lock import held


def prepare_corpus(
    corpus: type[tfds.core.DatasetBuilder],
    config: tfds.core.BuilderConfig | None,
    data_dir: str,
    split: str,
    check: Callable[[], None] = lambda: None,
) -> tfds.core.DatasetBuilder:
    """Returns the TFDS builder of a corpus, whose `split` has no checksum mismatch.

    Where the corpus is missing or damaged, one process prepares it and the others wait. `check`
    raises UserError if it cannot be prepared, before a damaged corpus is removed.
    """
    # One builder to prepare the corpus, a new one to read it.
    build = functools.partial(corpus, config=config, data_dir=data_dir)
    # data_dir/name/config/version, or data_dir/name/version of a corpus without configs.
    home, version = pathlib.Path(data_dir, corpus.name), getattr(config, "version", None)
    folder = home / (config.name if config else "") / str(version or corpus.VERSION)
    # Double-checked locking: a run that finds the corpus prepared takes no lock.
    info = folder / "dataset_info.json"
    if not info.exists() or _corrupt_files(folder, split):
        paths.make_folder(home)
        place = home / ".lock"  # one lock for all configs of a corpus
        place.touch()
        with held(place) as error:
            if error:
                # Without the lock a second process would remove the first one's unfinished folder.
                message = "%s has no file locks: another process preparing it would not be noticed"
                logging.warning(f"{message}: %s", home, error)
            # Again, under the lock: another process may have prepared the corpus meanwhile.
            corrupt = _corrupt_files(folder, split)
            _remove_incomplete(folder)
            if corrupt:
                logging.warning("damaged: %s; preparing the corpus again", ", ".join(corrupt))
            if corrupt or not info.exists():
                logging.info("preparing %s in %s", folder.parent.relative_to(data_dir), data_dir)
                check()
                _prepare(build, folder)
    with _quiet():
        builder = build()  # reads dataset_info.json
    formats = sorted(f.value for f in builder.info.available_file_formats())
    if "array_record" not in formats:
        raise UserError(
            f"{folder} holds the corpus as {formats[0]}, array_record is needed: set another "
            "data_dir or remove that folder"
        )
    return builder


def _prepare(build: Callable[[], tfds.core.DatasetBuilder], folder: pathlib.Path) -> None:
    """Prepares a corpus in `folder`, replacing what is there, and writes its checksums."""
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
    with contextlib.suppress(OSError):  # there is none, or it is not empty
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
