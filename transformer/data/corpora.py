"""Loads a corpus through TFDS: WMT 2014, parallel text, the built-in corpus; or plain text.

A corpus is prepared once, as ArrayRecord files under `data_dir`, and read by index from then on.

The functions that read a corpus import `builders` and `wmt`, and with them TFDS:
0.2 s of the 1.5 s that --mode=translate, which reads no corpus, would take for a line.
"""

import dataclasses
import functools
import hashlib
import os
import pathlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from transformer import registry
from transformer.data import text_files
from transformer.errors import UserError, check_values
from transformer.runtime import paths

SPLITS = ("train", "validation", "test")
CHUNK = 8192  # items to read at once: a corpus need not fit into memory


@dataclasses.dataclass(frozen=True)
class Corpus:
    """One split of a corpus by index: sentence pairs, or the lines of plain text."""

    fingerprint: str  # of the content and the direction; part of every cache key derived from it
    records: Sequence[dict[str, bytes]]  # the TFDS data source: {column: text}
    columns: tuple[str, ...]  # of each side: the languages of source and target, or 'text'
    files: tuple[str, ...] = ()  # that the text is from: a file of each side, or those of the text

    def __len__(self) -> int:
        return len(self.records)

    def read(self, indices: Iterable[int]) -> tuple[list[str], ...]:
        """Returns the texts of each side of these records, in this order."""
        # One call is ten times as fast as indexing; it takes a list of Python ints only.
        records = self.records.__getitems__([int(i) for i in indices])
        return tuple([record[column].decode() for record in records] for column in self.columns)


def load_text(split: str, *, directory: str, data_dir: str, key: str) -> Corpus:
    """Returns the lines of text files; prepares them under `data_dir` first if necessary.

    `split` names files in `directory`, or parts of them (`text_files.find_parts`). Record i is line
    i: where documents are to be kept apart, a line is one; where the text is one stream, the line
    breaks between records are part of it. `key` is the config key of the split, for error messages.
    """
    from transformer.data import builders

    data_dir = local_folder(data_dir)
    parts = text_files.find_parts(pathlib.Path(os.path.expanduser(directory)), split, key)
    config = builders.plain_text_config(parts)
    records, fingerprint = prepared(builders.PlainText, config, data_dir, "text")
    return Corpus(fingerprint, records, ("text",), tuple(str(part.file) for part in parts))


def load(
    corpus: str, split: str, languages: tuple[str, str], *, directory: str, data_dir: str, key: str
) -> Corpus:
    """Returns one split of sentence pairs; prepares it under `data_dir` first if necessary.

    `corpus` is `parallel_text`, or a name in registry.CORPORA or wmt.CORPORA, in either direction:
    `languages` are those of the source and the target.
    For `parallel_text` the split is a file stem in `directory` (`train`: `train.de` and `train.en`,
    plain, .gz or .xz) or `SOURCE_FILE,TARGET_FILE`; the others have the splits SPLITS.
    UserError, of one line, for what the user can mend: a name, a file, a network. `key` is the
    config key of the split, for error messages.
    """
    from transformer.data import builders, wmt

    data_dir = local_folder(data_dir)
    known = (*registry.CORPORA, "parallel_text", *wmt.CORPORA)
    check_values("data", {"corpus": corpus}, {"corpus": known})
    files, check = [], lambda: None
    if corpus == "parallel_text":
        files = text_files.find(pathlib.Path(os.path.expanduser(directory)), split, languages, key)
        builder, config = builders.ParallelText, builders.text_config(files, languages)
        split = "pairs"
    else:
        if corpus in registry.CORPORA:
            builder, config = builders.Builtin, registry.load(registry.CORPORA[corpus])()
            first, second = config.features.languages
        else:
            builder, config = wmt.BUILDER, wmt.CORPORA[corpus]
            first, second = config.language_pair
            check = functools.partial(wmt.check_archives, corpus, data_dir)
        if {*languages} != {first, second}:
            raise UserError(
                f"config.data: {corpus} has the languages {first!r} and {second!r}, found source "
                f"{languages[0]!r} and target {languages[1]!r}"
            )
        if split not in SPLITS:
            raise UserError(f"{key}: {corpus} has the splits {', '.join(SPLITS)}, found {split!r}")
    records, fingerprint = prepared(
        builder, config, data_dir, split, direction=languages, check=check
    )
    return Corpus(fingerprint, records, languages, tuple(map(str, files)))


def prepared(
    builder: type,
    config: Any,
    data_dir: str,
    split: str,
    *,
    direction: tuple[str, ...] = (),
    check: Callable[[], None] = lambda: None,
) -> tuple[Sequence[dict], str]:
    """Returns the records of a split, and a fingerprint of its content and the direction.

    `builder` is the class of TFDS builder; the arguments are those of
    `builders.prepare_corpus`.
    """
    from transformer.data import builders

    with paths.full_disk_as_user_error(pathlib.Path(data_dir)):
        corpus = builders.prepare_corpus(builder, config, data_dir, split, check)
    info = corpus.info.splits[split]
    # Cache key: the full name of a user's corpus has a hash of its text; sizes tell others apart.
    content = corpus.info.full_name, split, direction, info.shard_lengths, info.num_bytes
    digest = hashlib.sha256(repr(content).encode()).hexdigest()
    return corpus.as_data_source(split=split), f"{corpus.name}-{digest[:16]}"


def local_folder(data_dir: str) -> str:
    """Returns the absolute path of `data_dir`; UserError if it is a URL."""
    if "://" in data_dir:
        raise UserError(f"config.data.data_dir must be a local folder, found {data_dir!r}")
    return os.path.abspath(os.path.expanduser(data_dir))
