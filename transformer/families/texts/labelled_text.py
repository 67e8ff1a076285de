"""Labelled text: lines LABEL<tab>TEXT or LABEL<tab>A<tab>B.

Each text is an item, so that the two texts of a line are tokenised like any text.
"""

import dataclasses
import functools
import unicodedata
from collections.abc import Iterator

from transformer.data import corpora, text_files
from transformer.data.text_files import Part
from transformer.errors import UserError

FORMS = {1: "TEXT", 2: "A<tab>B"}  # of a line without its label, by config.data.num_texts


@dataclasses.dataclass(frozen=True, kw_only=True)
class LabelledText(corpora.Corpus):
    """One split of labelled text: a corpus with the side 'text', and the lines' labels.

    With two texts per line, line i has the texts 2 i and 2 i + 1.
    """

    labels: tuple[str, ...]  # of every line
    parts: tuple[Part, ...]  # of `files`, in the order of the texts
    num_texts: int  # per line

    @property
    def lines(self) -> list[str]:
        """Every line without its label: TEXT, or A<tab>B."""
        (texts,) = self.read()
        columns = [texts[i :: self.num_texts] for i in range(self.num_texts)]
        return ["\t".join(line) for line in zip(*columns, strict=True)]

    def place(self, i: int) -> str:
        """Returns the origin of line i: 'train.tsv, line 3'."""
        # In parts of 3 and 5 lines, line 4 is the second line of the second part.
        for part in self.parts:
            if i < part.last - part.first:
                return f"{part.file}, line {part.first + i + 1}"
            i -= part.last - part.first  # the line's index within the next part
        raise IndexError(i)


def load(split: str, num_texts: int = 1, *, directory: str, key: str = "split") -> LabelledText:
    """Returns the lines of labelled files.

    `split` names files in `directory`, or parts of them: 'train.tsv', 'train.tsv[:90%]' (see
    `text_files.find_parts`). `key` is the split's config key, for error messages. UserError, with
    file and line, for a line that is not LABEL<tab>TEXT, or LABEL<tab>A<tab>B for two texts.
    """
    parts = tuple(text_files.find_parts(corpora.folder(directory), split, key))
    if any(part.in_characters for part in parts):
        raise UserError(f"{key}={split!r}: labelled text can be cut between lines only")
    labels = read_labels(parts, num_texts)
    read = lambda: ((text,) for _, texts in _rows(parts, num_texts) for text in texts)
    return LabelledText(
        fingerprint=corpora.fingerprint("labelled_text", ([part[1:] for part in parts], num_texts)),
        size=len(labels) * num_texts,
        items=functools.partial(corpora.select, read),
        files=tuple(str(part.file) for part in parts),
        labels=labels,
        parts=parts,
        num_texts=num_texts,
    )


# Cached, because a task loads a split several times before its first step.
@functools.lru_cache(maxsize=4)
def read_labels(parts: tuple[Part, ...], num_texts: int) -> tuple[str, ...]:
    """Returns the label of every line.

    Labels are stripped and NFC-normalised: 'good ' is the class 'good', and '한' is the same class
    in one character or in three.
    """
    labels = (label for label, _ in _rows(parts, num_texts))
    return tuple(unicodedata.normalize("NFC", label.strip()) for label in labels)


def columns(line: str, num_texts: int) -> list[str]:
    """Returns the texts of a line: the whole line, including tabs, or its `num_texts` columns.

    [] for a line with another number of columns, or a blank one.
    """
    if num_texts == 1:
        return [line]
    texts = line.split("\t")
    return texts if len(texts) == num_texts and all(map(str.strip, texts)) else []


def _rows(parts: tuple[Part, ...], num_texts: int) -> Iterator[tuple[str, list[str]]]:
    """Yields (label, texts) of each line; tabs in the only text of a line are text."""
    for part in parts:
        for number, line in enumerate(text_files.lines_of_part(part), start=part.first + 1):
            # Split at the first tab: "good<tab>a<tab>b" has the text "a<tab>b".
            label, _, text = line.partition("\t")
            texts = columns(text, num_texts)
            if not (texts and label.strip() and text.strip()):
                expected = f"expected LABEL<tab>{FORMS[num_texts]}, found {line[:60]!r}"
                raise UserError(f"{part.file}, line {number}: {expected}")
            yield label, texts
