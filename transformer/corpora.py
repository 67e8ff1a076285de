"""Names to sentence pairs: WMT 2014, parallel text files and the built-in corpus, all through TFDS.

Every corpus is written once, as ArrayRecord files under `data_dir`, and read by index from then on.
"""

import contextlib
import dataclasses
import difflib
import fcntl
import functools
import hashlib
import io
import itertools
import logging
import math
import os
import pathlib
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import tensorflow_datasets as tfds

from transformer import checksums, grammar, lexicon, storage, text_files, wmt
from transformer.errors import UserError

SPLITS = ("train", "validation", "test")
SHARD_PAIRS = 1 << 17  # TFDS keeps one shard's sentences in memory while it writes them


@dataclasses.dataclass(frozen=True)
class Corpus:
    """One split of a corpus: sentence pairs by index."""

    fingerprint: str  # names content and direction: part of every cache key derived from it
    source_language: str
    target_language: str
    records: Sequence[dict[str, bytes]]  # the TFDS data source, a record's text by language
    files: tuple[str, ...] = ()  # the source's and the target's, of parallel_text

    def __len__(self) -> int:
        return len(self.records)

    def read(self, indices: Iterable[int]) -> tuple[list[str], list[str]]:
        """The source and the target sentences of these pairs, in the order of `indices`."""
        # One call for all: ten times faster than indexing, but it takes only a list of int.
        records = self.records.__getitems__([int(i) for i in indices])
        return (
            [record[self.source_language].decode() for record in records],
            [record[self.target_language].decode() for record in records],
        )


def load(
    corpus: str,
    split: str,
    *,
    source_language: str,
    target_language: str,
    directory: str,
    data_dir: str,
    key: str = "split",
) -> Corpus:
    """One split of a corpus, prepared under `data_dir` first if it is not there yet.

    `corpus` is `builtin`, `parallel_text` or a name in wmt.CORPORA, in either direction. For
    `parallel_text` the split is a file stem in `directory` (`train`: `train.de` and `train.en`,
    plain, .gz or .xz) or `SOURCE_FILE,TARGET_FILE`; the others have the splits SPLITS.
    UserError, of one line, for whatever the user can mend: a name, a file, a network. `key` is what
    it calls the split by.
    """
    if "://" in data_dir:
        raise UserError(f"data_dir must be a local folder, found {data_dir!r}")
    data_dir = os.path.abspath(os.path.expanduser(data_dir))
    languages = source_language, target_language
    known = ("builtin", "parallel_text", *wmt.CORPORA)
    if corpus not in known:
        nearest = difflib.get_close_matches(corpus, known, n=1, cutoff=0.0)[0]
        raise UserError(
            f"config.data.corpus is one of {', '.join(known)}, found {corpus!r}; did you mean "
            f"{nearest}?"
        )
    files = []
    if corpus == "parallel_text":
        files = text_files.find(pathlib.Path(directory).expanduser(), split, languages, key)
        config = _text_config(files, languages)
        build = functools.partial(ParallelText, config=config, data_dir=data_dir)
        home = _home(data_dir, ParallelText, config)
        split = "pairs"
    else:
        pair = ("ko", "en") if corpus == "builtin" else tuple(corpus.split("/")[1].split("-"))
        if sorted(languages) != sorted(pair):
            raise UserError(
                f"config.data: {corpus} has the languages {pair[0]!r} and {pair[1]!r}, found "
                f"source {source_language!r} and target {target_language!r}"
            )
        if split not in SPLITS:
            raise UserError(f"{key}: {corpus} has the splits {', '.join(SPLITS)}, found {split!r}")
        if corpus == "builtin":
            config = _builtin_config()
            build = functools.partial(Builtin, config=config, data_dir=data_dir)
            home = _home(data_dir, Builtin, config)
        else:
            build = functools.partial(wmt.builder, corpus, data_dir)
            home = wmt.home(corpus, data_dir)
    with storage.cache_in(pathlib.Path(data_dir)):
        builder = _prepared(build, home, split)
    info = builder.info.splits[split]
    content = builder.info.full_name, split, languages, info.shard_lengths, info.num_bytes
    digest = hashlib.sha256(repr(content).encode()).hexdigest()
    records = builder.as_data_source(split=split)
    name = f"{builder.name}-{digest[:16]}"
    return Corpus(name, *languages, records, tuple(map(str, files)))


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


def _builtin_config() -> PairsConfig:
    sources = [pathlib.Path(module.__file__).read_bytes() for module in (lexicon, grammar)]
    digest = hashlib.sha256(b"%d %s %s" % (grammar.SEED, *sources)).hexdigest()

    def splits():
        pairs = grammar.sentence_pairs(grammar.SEED)
        return {split: (len(pairs[split]), iter(pairs[split])) for split in SPLITS}

    return PairsConfig(name=f"ko-en-{digest[:16]}", languages=("ko", "en"), splits=splits)


def _text_config(files: list[pathlib.Path], languages: Sequence[str]) -> PairsConfig:
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


def _home(data_dir: str, corpus: type[Pairs], config: PairsConfig) -> pathlib.Path:
    return pathlib.Path(data_dir, corpus.name, config.name, str(corpus.VERSION))


def _prepared(build: Callable[[], Any], home: pathlib.Path, split: str) -> Any:
    """A builder whose data set is in `home` (data_dir/name/config/version), put there by this
    process or another, and whose `split` is undamaged."""
    info = home / "dataset_info.json"
    if not info.exists() or _faults(home, split):
        # TFDS writes into a folder of its own and renames it at the end: nothing breaks without
        # the lock, but the second process to finish does the work in vain and then fails.
        name, root = "/".join(home.parts[-3:-1]), home.parents[2]
        lock = home.parents[1] / ".lock"
        storage.make_folder(lock.parent)
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
                storage.write_file(home / checksums.NAME, checksums.seal(home))
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
    return checksums.damaged(home, wanted=wanted, alone=True) or []


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
