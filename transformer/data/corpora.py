"""Loads a split of a corpus: your own text files, generated sentence pairs, or WMT 2014."""

import dataclasses
import functools
import hashlib
import itertools
import os
import pathlib
from collections.abc import Callable, Iterable, Iterator, Sequence

from transformer import registry
from transformer.data import text_files
from transformer.errors import UserError, check_value

SPLITS = ("train", "validation", "test")
CHUNK = 8192  # items to read at once, because a corpus need not fit into memory


@dataclasses.dataclass(frozen=True)
class Corpus:
    """One split of a corpus, as text: sentence pairs, or the lines of plain text."""

    fingerprint: str  # of the content and the direction; part of every derived cache key
    size: int  # number of items
    # (sorted indices, perhaps repeated) -> the text of each side of the items
    items: Callable[[Sequence[int]], Iterator[tuple[str, ...]]]
    files: tuple[str, ...] = ()  # one per side, or the files of plain text
    mixture: Sequence[dict] = ()  # its corpora, one after the other, see packing.mix
    # (vocabulary of a side, texts, index of the first) -> their ids; the fingerprint covers it
    encode: Callable = lambda side, texts, first: side.encode(texts)

    def __len__(self) -> int:
        return self.size

    def chunks(self, indices: Sequence[int] | None = None) -> Iterator[tuple[list[str], ...]]:
        """Yields the texts of each side, CHUNK items at a time, of increasing indices or of all."""
        items = self.items(range(len(self)) if indices is None else indices)
        while chunk := list(itertools.islice(items, CHUNK)):
            yield tuple(map(list, zip(*chunk, strict=True)))

    def read(self) -> tuple[list[str], ...]:
        """Returns all texts of each side."""
        return tuple(map(list, zip(*self.items(range(len(self))), strict=True)))


def load_text(split: str, *, directory: str, key: str) -> Corpus:
    """Returns the lines of text files.

    `split` names files in `directory`, or parts of them (`text_files.find_parts`). Item i is line
    i. If documents are kept apart, each line is a document; in a stream, the line breaks between
    items are part of the text. `key` is the config key of the split, for error messages.
    """
    parts = text_files.find_parts(folder(directory), split, key)
    read = lambda: ((line,) for part in parts for line in text_files.lines_of_part(part))
    return Corpus(
        # Without the path, so that a file may be moved.
        fingerprint=fingerprint("plain_text", [part[1:] for part in parts]),
        size=sum(map(text_files.count_lines, parts)),
        items=functools.partial(select, read),
        files=tuple(str(part.file) for part in parts),
    )


def load(
    corpus: str, split: str, languages: tuple[str, str], *, directory: str, data_dir: str, key: str
) -> Corpus:
    """Returns one split of sentence pairs.

    `corpus` is `parallel_text`, or a name in registry.CORPORA or tfds_corpora.WMT. `languages` are
    those of the source and the target, in either direction. TFDS prepares missing WMT corpora under
    `data_dir`. For `parallel_text` the split is a file stem in `directory` (`train`: `train.de` and
    `train.en`, plain, .gz or .xz), `SOURCE_FILE,TARGET_FILE`, or a file of registry.PAIR_FILES;
    other corpora have the splits SPLITS. UserError for a wrong name, file or network. `key` is the
    config key of the split, for error messages.
    """
    if corpus == "parallel_text":
        return parallel_text(folder(directory), split, languages, key)
    if corpus in registry.CORPORA:
        its_languages, splits = registry.load(registry.CORPORA[corpus])()
        _check_names(corpus, split, languages, its_languages, key)
        order = [its_languages.index(language) for language in languages]
        pairs = [tuple(pair[i] for i in order) for pair in splits[split]]
        items = functools.partial(select, lambda: pairs)
        return Corpus(fingerprint(corpus, (languages, pairs)), len(pairs), items)
    # Imported here, because TFDS takes a second to import.
    from transformer.data import tfds_corpora

    check_value("data.corpus", corpus, (*registry.CORPORA, "parallel_text", *tfds_corpora.WMT))
    _check_names(corpus, split, languages, tfds_corpora.WMT[corpus].language_pair, key)
    prepared = tfds_corpora.prepare_wmt(corpus, local_folder(data_dir))
    records, info = prepared.as_data_source(split=split), prepared.info.splits[split]
    content = prepared.info.full_name, split, languages, info.shard_lengths, info.num_bytes
    items = functools.partial(_records, records, languages)
    return Corpus(fingerprint(prepared.name, content), len(records), items)


def pair_file(split: str) -> str:
    """Returns the code in registry.PAIR_FILES that reads a file of this name, or ""."""
    kind = pathlib.Path(split.removesuffix(".gz").removesuffix(".xz")).suffix
    return registry.PAIR_FILES.get(kind, "") if "," not in split else ""


def parallel_text(
    folder: pathlib.Path, split: str, languages: tuple[str, str], key: str, **options: bool
) -> Corpus:
    """Returns the pairs of two aligned files in a folder, or of a file of registry.PAIR_FILES."""
    if code := pair_file(split):
        return registry.load(code)(folder, split, languages, key, **options)
    files = text_files.find(folder, split, languages, key)
    digests, counts = zip(*map(text_files.digest_and_count, files), strict=True)
    if counts[0] != counts[1] or not counts[0]:
        raise UserError(
            f"{files[0]} has {counts[0]} lines and {files[1]} has {counts[1]}: line i of one must "
            "translate line i of the other"
        )
    return Corpus(
        fingerprint=fingerprint("parallel_text", (languages, digests)),
        size=counts[0],
        items=functools.partial(select, lambda: zip(*map(text_files.lines, files), strict=True)),
        files=tuple(map(str, files)),
    )


def select(read: Callable[[], Iterable], indices: Iterable[int]) -> Iterator:
    """Yields the items of read() at sorted indices, and stops reading after the last."""
    items = iter(read())
    position = 0  # of the next item
    for index in indices:
        if index >= position:  # otherwise the index is repeated
            item = next(itertools.islice(items, index - position, None))
        position = index + 1
        yield item


def _records(
    records: Sequence[dict[str, bytes]], languages: tuple[str, str], indices: Sequence[int]
) -> Iterator[tuple[str, ...]]:
    """Yields the pairs of a TFDS data source at the indices."""
    for start in range(0, len(indices), CHUNK):
        # One call is ten times as fast as indexing; it takes only a list of Python ints.
        for record in records.__getitems__([int(i) for i in indices[start : start + CHUNK]]):
            yield tuple(record[language].decode() for language in languages)


def _check_names(
    corpus: str, split: str, languages: tuple[str, str], known: tuple[str, str], key: str
) -> None:
    """Raises UserError unless a corpus has the split and, in either direction, the languages."""
    if {*languages} != {*known}:
        raise UserError(
            f"config.data: {corpus} has the languages {known[0]!r} and {known[1]!r}, found source "
            f"{languages[0]!r} and target {languages[1]!r}"
        )
    if split not in SPLITS:
        raise UserError(f"{key}: {corpus} has the splits {', '.join(SPLITS)}, found {split!r}")


def fingerprint(name: str, content: object) -> str:
    """Returns a name and a hash of the content's `repr`."""
    return f"{name}-{hashlib.sha256(repr(content).encode()).hexdigest()[:16]}"


def folder(directory: str) -> pathlib.Path:
    """Returns the folder of `config.data.directory`."""
    return pathlib.Path(os.path.expanduser(directory))


def local_folder(data_dir: str) -> str:
    """Returns the absolute path of `data_dir`; UserError if it is a URL."""
    if "://" in data_dir:
        raise UserError(f"config.data.data_dir must be a local folder, found {data_dir!r}")
    return os.path.abspath(os.path.expanduser(data_dir))
