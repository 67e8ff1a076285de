"""TFDS builders: pairs or lines -> ArrayRecord files, in folders named after their content.

`prepare_corpus` runs the builder of a missing or damaged corpus, in one process, under a lock.
"""

import contextlib
import dataclasses
import functools
import hashlib
import io
import itertools
import logging
import math
import pathlib
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import tensorflow_datasets as tfds

from transformer.data import downloads, text_files, wmt
from transformer.errors import UserError
from transformer.runtime import checksums, paths, progress
from transformer.runtime.lock import held

SHARD_RECORDS = 1 << 17  # in memory at once: TFDS holds the shard that it writes


@dataclasses.dataclass(eq=False, kw_only=True)
class RecordsConfig(tfds.core.BuilderConfig):
    """The content of a corpus. Its name must contain a hash of the content.

    TFDS compares names only: it would serve the old records after an edit.
    """

    features: tfds.features.FeatureConnector
    splits: Callable[[], dict[str, tuple[int, Iterator[dict]]]]  # {split: (how many, records)}
    shard_records: int = 0  # instead of SHARD_RECORDS, for records that are larger than a sentence


class Records(tfds.core.ShardBasedBuilder, skip_registration=True):
    """Writes the records of each split in the order in which they come.

    GeneratorBasedBuilder with disable_shuffling would give the same order, but holds all records in
    memory, and needs TensorFlow beyond 1 GB.
    """

    VERSION = tfds.core.Version("1.0.0")

    def _info(self):
        features = self.builder_config.features
        return tfds.core.DatasetInfo(builder=self, features=features, disable_shuffling=True)

    def _shard_iterators_per_split(self, dl_manager: Any) -> dict[str, list[Callable]]:
        del dl_manager  # nothing to download
        shards, size = {}, self.builder_config.shard_records or SHARD_RECORDS
        for split, (count, records) in self.builder_config.splits().items():
            shown = progress.progress(records, f"prepare {split}", total=count, unit="record")
            examples = enumerate(shown)
            # TFDS writes shards one after the other, so that they can share one iterator: the
            # first takes records 0 to `size` - 1, the second goes on from there. The last
            # takes what is left: this exhausts the iterator, and so ends the progress line.
            shard = functools.partial(itertools.islice, examples, size)
            last = functools.partial(itertools.islice, examples, None)
            shards[split] = [shard] * (math.ceil(count / size) - 1) + [last]
        return shards


class Builtin(Records):
    """Writes a corpus that is generated: one of registry.CORPORA."""


class ParallelText(Records):
    """Writes two aligned text files as one split, so that train and test sets are independent."""


class PlainText(Records):
    """Writes the lines of text files, or of parts of them, as one split."""


class LabelledLines(Records):
    """Writes the lines of labelled files, or of parts of them, as one split."""


def text_config(files: list[pathlib.Path], languages: Sequence[str]) -> RecordsConfig:
    """Returns the config of a corpus of two aligned files, named after their content.

    UserError if a file is empty or their numbers of lines differ.
    """
    # One pass over each file: its hash names the corpus, its lines must match the other's.
    digests, counts = zip(*map(text_files.digest_and_count, files), strict=True)
    for file, count in zip(files, counts, strict=True):
        if not count:
            raise UserError(f"{file} is empty")
    if counts[0] != counts[1]:
        raise UserError(
            f"{files[0]} has {counts[0]} lines but {files[1]} has {counts[1]}: "
            "line i of one must translate line i of the other"
        )
    # In the languages' alphabetical order, so that both directions share one copy.
    sides = sorted(zip(languages, digests, files, strict=True))
    (first, *_), (second, *_) = sides
    digest = hashlib.sha256("".join(digest for _, digest, _ in sides).encode()).hexdigest()

    def splits() -> dict[str, tuple[int, Iterator]]:
        pairs = zip(*(text_files.lines(file) for _, _, file in sides), strict=True)
        return {"pairs": (counts[0], ({first: a, second: b} for a, b in pairs))}

    features = tfds.features.Translation(languages=(first, second))
    name = f"{first}-{second}-{digest[:16]}"
    return RecordsConfig(name=name, features=features, splits=splits)


def plain_text_config(parts: Sequence[text_files.Part]) -> RecordsConfig:
    """Returns the config of the lines of these parts, named after their content.

    UserError if a part is empty.
    """

    def splits() -> dict[str, tuple[int, Iterator]]:
        # Counted first: shards are divided before the first record is written.
        counts = [sum(1 for _ in text_files.lines_of_part(part)) for part in parts]
        for part, count in zip(parts, counts, strict=True):
            if not count:
                raise text_files.empty(part)
        lines = itertools.chain.from_iterable(map(text_files.lines_of_part, parts))
        return {"text": (sum(counts), ({"text": line} for line in lines))}

    features = tfds.features.FeaturesDict({"text": tfds.features.Text()})
    name = text_files.digest_of_parts(parts)[:16]
    return RecordsConfig(name=name, features=features, splits=splits)


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
                logging.info(
                    "preparing %s in config.data.data_dir=%s",
                    folder.parent.relative_to(data_dir),
                    data_dir,
                )
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
        # TFDS calls back Records._shard_iterators_per_split, or wmt._pairs, to read the text.
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
