"""Labelled text, LABEL<tab>TEXT or LABEL<tab>A<tab>B a line, through TFDS.

Each text is a record, so that two texts of a line are tokenised as any others are.

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

FORMS = {1: "TEXT", 2: "A<tab>B"}  # of a line without its label, by config.data.num_texts


@dataclasses.dataclass(frozen=True)
class LabelledText(corpora.Corpus):
    """One split of labelled text: a corpus whose only side is 'text', and the lines' labels.

    A corpus with two texts a line has those of line i as its texts 2 i and 2 i + 1.
    """

    # {"label": text, "text": text}. Not compared: the fingerprint says whether contents are equal,
    # and `read_labels` is cached by it.
    records: Sequence[dict[str, bytes]] = dataclasses.field(compare=False)
    parts: tuple[Part, ...] = ()  # of `files`, in the order of the texts
    num_texts: int = 1  # a line

    @property
    def labels(self) -> tuple[str, ...]:
        """The label of every line."""
        return read_labels(self)

    @property
    def lines(self) -> list[str]:
        """Every line without its label: TEXT, or A<tab>B."""
        (texts,) = self.read(range(len(self)))
        columns = [texts[i :: self.num_texts] for i in range(self.num_texts)]
        return ["\t".join(line) for line in zip(*columns, strict=True)]

    def place(self, i: int) -> str:
        """Returns where line i is from: 'train.tsv, line 3'."""
        # Of parts with 3 and 5 lines, line 4 is the second line of the second part.
        for part in self.parts:
            first, last = _range(part)
            if i < last - first:
                return f"{part.file}, line {first + i + 1}"
            i -= last - first  # becomes the number of the line within the next part
        raise IndexError(i)


# A task loads a split several times before its first step; 60,000 labels take a second to read.
@functools.lru_cache(maxsize=4)
def read_labels(corpus: LabelledText) -> tuple[str, ...]:
    """Returns the label of every line of a split, read once for all corpora of the same content.

    Labels are stripped and NFC-normalised: 'good ' is the class 'good', and '한' is one class,
    whether it is written in one character or in three.
    """
    records = corpus.records.__getitems__([*range(0, len(corpus), corpus.num_texts)])
    return tuple(
        unicodedata.normalize("NFC", record["label"].decode().strip()) for record in records
    )


def load(
    split: str, num_texts: int = 1, *, directory: str, data_dir: str, key: str = "split"
) -> LabelledText:
    """Returns the lines of labelled files; prepares them under `data_dir` first if necessary.

    `split` names files in `directory`, or parts of them: 'train.tsv', 'train.tsv[:90%]' (see
    `text_files.find_parts`). `key` is the split's config key, named in errors. UserError, with file
    and line, for a line that is not LABEL<tab>TEXT; with two texts a line, LABEL<tab>A<tab>B.
    """
    from transformer.data import builders

    data_dir = corpora.local_folder(data_dir)
    parts = text_files.find_parts(pathlib.Path(os.path.expanduser(directory)), split, key)
    if any(part.in_characters for part in parts):
        raise UserError(f"{key}={split!r}: labelled text can be cut between lines only")
    config = _config(parts, num_texts)
    records, fingerprint = corpora.prepared(builders.LabelledLines, config, data_dir, "text")
    files = tuple(str(part.file) for part in parts)
    return LabelledText(fingerprint, records, ("text",), files, tuple(parts), num_texts)


def columns(line: str, num_texts: int) -> list[str]:
    """Returns the texts of a line: the whole line, in which tabs are text, or its columns.

    Nothing if one of several texts is missing, or there is one too many.
    """
    if num_texts == 1:
        return [line]
    texts = line.split("\t")
    return texts if len(texts) == num_texts and all(map(str.strip, texts)) else []


def _config(parts: Sequence[Part], num_texts: int) -> Any:
    """Returns the builder's `RecordsConfig` of these parts, named after their content."""
    import tensorflow_datasets as tfds

    from transformer.data import builders

    def splits() -> dict[str, tuple[int, Iterator]]:
        ranges = [_range(part) for part in parts]
        for part, (first, last) in zip(parts, ranges, strict=True):
            if first == last:
                raise text_files.empty(part)
        count = sum(last - first for first, last in ranges) * num_texts
        records = itertools.chain.from_iterable(_records(part, num_texts) for part in parts)
        return {"text": (count, records)}

    features = {"label": tfds.features.Text(), "text": tfds.features.Text()}
    return builders.RecordsConfig(
        name=text_files.digest_of_parts(parts)[:16] + ("-pairs" if num_texts > 1 else ""),
        features=tfds.features.FeaturesDict(features),
        splits=splits,
    )


def _range(part: Part) -> tuple[int, int]:
    """Returns (first, stop), a part's range of lines from 0: [50%:] of 5 lines is (2, 5)."""
    _, count = text_files.digest_and_count(part.file)
    return count * part.start // 100, count * part.stop // 100


def _records(part: Part, num_texts: int) -> Iterator[dict]:
    """Yields {'label', 'text'} of each text; tabs in the only text of a line are text."""
    first, last = _range(part)
    numbered = itertools.islice(enumerate(text_files.lines(part.file), start=1), first, last)
    for number, line in numbered:
        # At the first tab: "good<tab>a<tab>b" is the text "a<tab>b".
        label, _, text = line.decode().partition("\t")
        texts = columns(text, num_texts)
        if not (texts and label.strip() and text.strip()):
            expected, found = f"LABEL<tab>{FORMS[num_texts]}", line.decode()[:60]
            raise UserError(f"{part.file}, line {number}: expected {expected}, found {found!r}")
        for text in texts:
            yield {"label": label, "text": text}
