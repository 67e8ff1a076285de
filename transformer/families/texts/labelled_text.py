"""Labelled text, LABEL<tab>TEXT a line, through TFDS: texts and labels by index.

TFDS is imported by the functions that need it (see corpora.py).
"""

import dataclasses
import functools
import itertools
import os
import pathlib
import unicodedata
from collections.abc import Iterator, Sequence
from typing import Any

from transformer.data import corpora, text_files
from transformer.data.text_files import Part
from transformer.errors import UserError


@dataclasses.dataclass(frozen=True)
class LabelledText(corpora.Corpus):
    """One split of labelled text: a corpus whose only side is 'text', and the labels."""

    # {"label": text, "text": text}. Not compared: the fingerprint says whether contents are equal,
    # and `read_labels` is cached by it.
    records: Sequence[dict[str, bytes]] = dataclasses.field(compare=False)
    parts: tuple[Part, ...] = ()  # of `files`, in the order of the texts

    @property
    def labels(self) -> tuple[str, ...]:
        """The label of every text."""
        return read_labels(self)

    def place(self, i: int) -> str:
        """Returns where text i is from: 'train.tsv, line 3'."""
        # Of parts with 3 and 5 lines, text 4 is the second text of the second part.
        for part in self.parts:
            first, last = _range(part)
            if i < last - first:
                return f"{part.file}, line {first + i + 1}"
            i -= last - first  # becomes the number of the text within the next part
        raise IndexError(i)


# A task loads a split several times before its first step; 60,000 labels take a second to read.
@functools.lru_cache(maxsize=4)
def read_labels(corpus: LabelledText) -> tuple[str, ...]:
    """Returns the label of every text of a split, read once for all corpora of the same content.

    Labels are stripped and NFC-normalised: 'good ' is the class 'good', and '한' is one class,
    whether it is written in one character or in three.
    """
    records = corpus.records.__getitems__([*range(len(corpus))])
    return tuple(
        unicodedata.normalize("NFC", record["label"].decode().strip()) for record in records
    )


def load(split: str, *, directory: str, data_dir: str, key: str = "split") -> LabelledText:
    """Returns the lines of labelled files; prepares them under `data_dir` first if necessary.

    `split` names files in `directory`, or parts of them: 'train.tsv', 'train.tsv[:90%]' (see
    `text_files.find_parts`). `key` is the split's config key, named in errors. UserError, with file
    and line, for a line that is not LABEL<tab>TEXT.
    """
    from transformer.data import builders

    data_dir = corpora.local_folder(data_dir)
    parts = text_files.find_parts(pathlib.Path(os.path.expanduser(directory)), split, key)
    if any(part.in_characters for part in parts):
        raise UserError(f"{key}={split!r}: labelled text can be cut between lines only")
    config = _config(parts)
    records, fingerprint = corpora.prepared(builders.LabelledLines, config, data_dir, "text")
    files = tuple(str(part.file) for part in parts)
    return LabelledText(fingerprint, records, ("text",), files, tuple(parts))


def _config(parts: Sequence[Part]) -> Any:
    """Returns the builder's `RecordsConfig` of these parts, named after their content."""
    import tensorflow_datasets as tfds

    from transformer.data import builders

    def splits() -> dict[str, tuple[int, Iterator]]:
        ranges = [_range(part) for part in parts]
        for part, (first, last) in zip(parts, ranges, strict=True):
            if first == last:
                raise text_files.empty(part)
        count = sum(last - first for first, last in ranges)
        return {"text": (count, itertools.chain.from_iterable(map(_records, parts)))}

    features = {"label": tfds.features.Text(), "text": tfds.features.Text()}
    return builders.RecordsConfig(
        name=text_files.digest_of_parts(parts)[:16],
        features=tfds.features.FeaturesDict(features),
        splits=splits,
    )


def _range(part: Part) -> tuple[int, int]:
    """Returns (first, stop), a part's range of lines from 0: [50%:] of 5 lines is (2, 5)."""
    _, count = text_files.digest_and_count(part.file)
    return count * part.start // 100, count * part.stop // 100


def _records(part: Part) -> Iterator[dict]:
    """Yields {'label', 'text'} of each line; further tabs are text."""
    first, last = _range(part)
    numbered = itertools.islice(enumerate(text_files.lines(part.file), start=1), first, last)
    for number, line in numbered:
        # At the first tab: "good<tab>a<tab>b" is the text "a<tab>b".
        label, _, text = line.decode().partition("\t")
        if not label.strip() or not text.strip():
            raise UserError(
                f"{part.file}, line {number}: expected LABEL<tab>TEXT, found {line.decode()[:60]!r}"
            )
        yield {"label": label, "text": text}
