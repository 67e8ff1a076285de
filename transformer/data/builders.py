"""TFDS builders that write pairs of lines as ArrayRecord files, named after their content."""

import contextlib
import dataclasses
import fcntl
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

from transformer.data import text_files, wmt
from transformer.data.korean import grammar, lexicon
from transformer.errors import UserError
from transformer.storage import checksums, paths

SPLITS = ("train", "validation", "test")
SHARD_PAIRS = 1 << 17  # TFDS keeps one shard's sentences in memory while it writes them


# Our own corpora: TFDS builders that write the pairs in their order, a shard at a time.


@dataclasses.dataclass(eq=False, kw_only=True)
class PairsConfig(tfds.core.BuilderConfig):
    """What is in a corpus of ours. The name carries a hash of the content: TFDS goes by the name
    alone, and would go on serving the old sentences after an edit."""

    languages: tuple[str, str]
    splits: Callable[[], dict[str, tuple[int, Iterator]]]  # number of pairs, and the pairs


class Pairs(tfds.core.ShardBasedBuilder, skip_registration=True):
    """Record i is pair i. GeneratorBasedBuilder with disable_shuffling would give the same order,
    but holds all pairs in memory, and beyond 1 GB needs TensorFlow."""

    VERSION = tfds.core.Version("1.0.0")

    def _info(self):
        features = tfds.features.Translation(languages=self.builder_config.languages)
        return tfds.core.DatasetInfo(builder=self, features=features, disable_shuffling=True)

    def _shard_iterators_per_split(self, dl_manager: Any) -> dict[str, list[Callable]]:
        del dl_manager  # nothing to download
        first, second = self.builder_config.languages
        shards = {}
        for split, (count, pairs) in self.builder_config.splits().items():
            examples = enumerate({first: a, second: b} for a, b in pairs)
            # TFDS writes the shards one after the other, so they can share one iterator.
            shard = functools.partial(itertools.islice, examples, SHARD_PAIRS)
            shards[split] = [shard] * math.ceil(count / SHARD_PAIRS)
        return shards


class Builtin(Pairs):
    """The Korean-English corpus that `grammar` generates."""


class ParallelText(Pairs):
    """A pair of aligned text files; one split, so that train and test sets change independently."""


def builtin_config() -> PairsConfig:
    sources = [pathlib.Path(module.__file__).read_bytes() for module in (lexicon, grammar)]
    digest = hashlib.sha256(b"%d %s %s" % (grammar.SEED, *sources)).hexdigest()

    def splits():
        pairs = grammar.sentence_pairs(grammar.SEED)
        return {split: (len(pairs[split]), iter(pairs[split])) for split in SPLITS}

    return PairsConfig(name=f"ko-en-{digest[:16]}", languages=("ko", "en"), splits=splits)


def text_config(files: list[pathlib.Path], languages: Sequence[str]) -> PairsConfig:
    """Names the content of two aligned files; UserError if they cannot be aligned."""
    (digest, count), (other_digest, other_count) = map(text_files.digest_and_count, files)
    if not count or not other_count:
        raise UserError(f"{files[1] if count else files[0]} is empty")
    if count != other_count:
        raise UserError(
            f"{files[0]} has {count} lines but {files[1]} has {other_count}: "
            "line i of one must translate line i of the other"
        )
    # In alphabetical order, so that both directions share one copy.
    sides = sorted([(languages[0], digest, files[0]), (languages[1], other_digest, files[1])])
    name = "-".join(language for language, _, _ in sides)
    both = hashlib.sha256("".join(digest for _, digest, _ in sides).encode()).hexdigest()

    def splits() -> dict[str, tuple[int, Iterator]]:
        return {
            "pairs": (count, zip(*(text_files.lines(file) for _, _, file in sides), strict=True))
        }

    return PairsConfig(
        name=f"{name}-{both[:16]}", languages=(sides[0][0], sides[1][0]), splits=splits
    )


# Preparing.


def builders_home(data_dir: str, corpus: type[Pairs], config: PairsConfig) -> pathlib.Path:
    return pathlib.Path(data_dir, corpus.name, config.name, str(corpus.VERSION))


def prepared_builder(build: Callable[[], Any], home: pathlib.Path, split: str) -> Any:
    """A builder whose data set is in `home` (data_dir/name/config/version), put there by this
    process or another, and whose `split` is undamaged."""
    info = home / "dataset_info.json"
    if not info.exists() or _faults(home, split):
        # TFDS writes into a folder of its own and renames it at the end: nothing breaks without
        # the lock, but the second process to finish does the work in vain and then fails.
        name, root = "/".join(home.parts[-3:-1]), home.parents[2]
        lock = home.parents[1] / ".lock"
        paths.make_folder(lock.parent)
        with lock.open("a") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX)  # until the file closes, or the process dies
            except OSError as error:  # some shared disks have no locks
                logging.warning(
                    "%s: another process preparing it would not be noticed: %s", root, error
                )
            faults = _faults(home, split)  # another process may have mended it
            _remove_half_made(home)
            if faults or not info.exists():
                if faults:
                    logging.warning("damaged: %s; prepared anew", ", ".join(faults))
                logging.info("preparing %s in %s", name, root)
                if name in wmt.CORPORA:
                    wmt.check_archives(name, str(root))  # before the damaged one is removed
                shutil.rmtree(home, ignore_errors=True)
                try:
                    with _quiet(), wmt.without_tensorflow(), wmt.frugal():
                        build().download_and_prepare(file_format="array_record")
                finally:
                    _remove_half_made(home)
                paths.write_file(home / checksums.NAME, checksums.checksums_of(home))
    with _quiet():
        builder = build()  # reads what is there now
    formats = sorted(f.value for f in builder.info.available_file_formats())
    if "array_record" not in formats:
        raise UserError(
            f"{home} holds the corpus as {formats[0]}, array_record is needed: name another "
            "data_dir or remove that folder"
        )
    return builder


def _faults(home: pathlib.Path, split: str) -> list[str]:
    """What is damaged of a data set, the other splits' shards aside: a core takes about a second
    for a GB, of which WMT's training pairs have several. One that is not sealed was made by TFDS
    elsewhere, and is taken as it is."""
    wanted = lambda name: ".array_record-" not in name or f"-{split}.array_record-" in name
    return checksums.corrupt_files(home, wanted=wanted, alone=True) or []


def _remove_half_made(home: pathlib.Path) -> None:
    """Removes what a failed or killed preparation left: TFDS would take an empty version folder for
    a data set without features."""
    if home.exists() and not (home / "dataset_info.json").exists():
        shutil.rmtree(home)
    for incomplete in home.parent.glob(f"incomplete.*_{home.name}"):
        shutil.rmtree(incomplete)
    if home.parent.exists() and not any(home.parent.iterdir()):
        home.parent.rmdir()


@contextlib.contextmanager
def _quiet():
    """Keeps TFDS off standard output, which is for results, and its bars to terminals."""
    tfds.display_progress_bar(sys.stderr.isatty())
    logger = logging.getLogger("absl")
    level = logger.level
    logger.setLevel("ERROR")
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            yield
    finally:
        logger.setLevel(level)
