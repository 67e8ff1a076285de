"""TFDS builders: pairs or lines -> ArrayRecord files, in folders named after their content."""

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
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import tensorflow_datasets as tfds

from transformer.data import downloads, text_files, wmt
from transformer.data.korean import grammar, lexicon
from transformer.errors import UserError
from transformer.monitoring import progress
from transformer.storage import checksums, paths
from transformer.storage.lock import try_lock

SHARD_RECORDS = 1 << 17  # in memory at once: TFDS holds the shard that it writes


# Builders of our own corpora: they write the records in order, one shard at a time.


@dataclasses.dataclass(eq=False, kw_only=True)
class RecordsConfig(tfds.core.BuilderConfig):
    """The content of a corpus. Its name has to carry a hash of the content.

    TFDS compares names only: it would serve the old records after an edit.
    """

    features: tfds.features.FeatureConnector
    splits: Callable[[], dict[str, tuple[int, Iterator[dict]]]]  # {split: (how many, records)}


class Records(tfds.core.ShardBasedBuilder, skip_registration=True):
    """Writes the i-th record of a split as its record i.

    GeneratorBasedBuilder with disable_shuffling would give the same order, but holds all records in
    memory, and needs TensorFlow beyond 1 GB.
    """

    VERSION = tfds.core.Version("1.0.0")

    def _info(self):
        features = self.builder_config.features
        return tfds.core.DatasetInfo(builder=self, features=features, disable_shuffling=True)

    def _shard_iterators_per_split(self, dl_manager: Any) -> dict[str, list[Callable]]:
        del dl_manager  # nothing to download
        shards = {}
        for split, (count, records) in self.builder_config.splits().items():
            shown = progress.progress(records, f"prepare {split}", total=count, unit="record")
            examples = enumerate(shown)
            # TFDS writes shards one after the other, so that they can share one iterator: the
            # first takes records 0 to SHARD_RECORDS - 1, the second goes on from there. The last
            # takes what is left, so that the iterator, and with it the progress, comes to its end.
            shard = functools.partial(itertools.islice, examples, SHARD_RECORDS)
            last = functools.partial(itertools.islice, examples, None)
            shards[split] = [shard] * (math.ceil(count / SHARD_RECORDS) - 1) + [last]
        return shards


class Builtin(Records):
    """Writes the Korean-English corpus that `grammar` generates."""


class ParallelText(Records):
    """Writes two aligned text files as one split, so that train and test sets are independent."""


class PlainText(Records):
    """Writes the lines of text files, or of parts of them, as one split."""


class LabelledLines(Records):
    """Writes the lines of labelled files, or of parts of them, as one split."""


def builtin_config() -> RecordsConfig:
    """Returns the config of the built-in corpus, named after the code and seed that generate it."""
    sources = [pathlib.Path(module.__file__).read_bytes() for module in (lexicon, grammar)]
    digest = hashlib.sha256(b"%d %s %s" % (grammar.SEED, *sources)).hexdigest()

    def splits():
        with progress.waiting("generate the corpus"):
            pairs = grammar.sentence_pairs(grammar.SEED)
        return {split: (len(x), _records("ko", "en", x)) for split, x in pairs.items()}

    features = tfds.features.Translation(languages=("ko", "en"))
    return RecordsConfig(name=f"ko-en-{digest[:16]}", features=features, splits=splits)


def _records(first: str, second: str, pairs: Iterable[tuple]) -> Iterator[dict]:
    """Yields pairs of texts as records of the two languages."""
    return ({first: a, second: b} for a, b in pairs)


def text_config(files: list[pathlib.Path], languages: Sequence[str]) -> RecordsConfig:
    """Returns the config of a corpus of two aligned files, named after their content.

    UserError if a file is empty or their numbers of lines differ.
    """
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
        lines = (text_files.lines(file) for _, _, file in sides)
        return {"pairs": (counts[0], _records(first, second, zip(*lines, strict=True)))}

    features = tfds.features.Translation(languages=(first, second))
    name = f"{first}-{second}-{digest[:16]}"
    return RecordsConfig(name=name, features=features, splits=splits)


def plain_text_config(parts: Sequence[text_files.Part]) -> RecordsConfig:
    """Returns the config of the lines of these parts, named after their content.

    UserError if a part is empty.
    """

    def splits() -> dict[str, tuple[int, Iterator]]:
        counts = [sum(1 for _ in text_files.lines_of_part(part)) for part in parts]
        for part, count in zip(parts, counts, strict=True):
            if not count:
                raise text_files.empty(part)
        lines = itertools.chain.from_iterable(map(text_files.lines_of_part, parts))
        return {"text": (sum(counts), ({"text": line} for line in lines))}

    features = tfds.features.FeaturesDict({"text": tfds.features.Text()})
    name = text_files.digest_of_parts(parts)[:16]
    return RecordsConfig(name=name, features=features, splits=splits)


# Preparation: by one process, under a lock.


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
    place, data_dir = folder.parents[1] / ".lock", folder.parents[2]
    paths.make_folder(place.parent)
    with place.open("a") as file:
        if error := try_lock(file, wait=True):
            logging.warning(
                "%s has no file locks: another process preparing it would not be noticed: %s",
                *(data_dir, error),
            )
        yield


def _prepare(build: Callable[[], Any], folder: pathlib.Path, check: Callable[[], None]) -> None:
    """Prepares a corpus in `folder`, replacing what is there, and writes its checksums."""
    name, data_dir = "/".join(folder.parts[-3:-1]), folder.parents[2]
    logging.info("preparing %s in %s", name, data_dir)
    check()
    shutil.rmtree(folder, ignore_errors=True)
    try:
        # TFDS calls back wmt._pairs (WMT) or Records._shard_iterators_per_split to read the text.
        with _quiet(), downloads.without_tensorflow(), wmt.line_by_line():
            build().download_and_prepare(file_format="array_record")
    finally:
        _remove_incomplete(folder)
    paths.write_file(folder / checksums.NAME, checksums.checksums_of(folder))


def _corrupt_files(folder: pathlib.Path, split: str) -> list[str]:
    """Names the damaged files of a corpus, without the shards of other splits.

    Hashing takes a core about a second per GB, and WMT's training split has several GB. A corpus
    without checksums was prepared by TFDS elsewhere, and is taken as undamaged.
    """
    wanted = lambda name: ".array_record-" not in name or f"-{split}.array_record-" in name
    return checksums.corrupt_files(folder, wanted=wanted, alone=True) or []


def _remove_incomplete(folder: pathlib.Path) -> None:
    """Removes the rest of a failed or killed preparation.

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
    """Keeps TFDS off standard output, which is for results, and progress bars to terminals."""
    tfds.display_progress_bar(sys.stderr.isatty())
    logger = logging.getLogger("absl")
    level = logger.level
    logger.setLevel("ERROR")
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            yield
    finally:
        logger.setLevel(level)
