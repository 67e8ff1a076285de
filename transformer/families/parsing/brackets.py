"""The vocabulary of a tree's symbols: two brackets for each label, and the tags.

Its file is vocabulary/brackets.txt of a workdir, one symbol per line.
"""

import dataclasses
import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path

from ml_collections import ConfigDict

from transformer.data.tokenizer import END, FIRST_PIECE, PAD, START, UNKNOWN
from transformer.families.parsing import trees
from transformer.tasks import vocabularies

NAME = "brackets.txt"


@dataclasses.dataclass(frozen=True)
class Brackets:
    """The symbols of trees, as ids from FIRST_PIECE on; texts are symbols joined by spaces."""

    symbols: tuple[str, ...]
    normalisation = ""
    pad, end, unknown, start = PAD, END, UNKNOWN, START

    def __len__(self) -> int:
        return FIRST_PIECE + len(self.symbols)

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Returns the ids of texts, each ending with END; UNKNOWN for another symbol."""
        ids = {symbol: i for i, symbol in enumerate(self.symbols, start=FIRST_PIECE)}
        return [[*(ids.get(x, UNKNOWN) for x in text.split()), END] for text in texts]

    def decode(self, ids: Sequence[Sequence[int]]) -> list[str]:
        """Returns the texts of lists of ids; special ids are dropped."""
        return [" ".join(self.symbols[i - FIRST_PIECE] for i in x if i >= FIRST_PIECE) for x in ids]

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """Returns the symbols of ids as words, for terms and forbidden phrases."""
        names = ["<special>"] * FIRST_PIECE + [f"▁{symbol}" for symbol in self.symbols]
        return [names[i] for i in ids]

    @property
    def fingerprint(self) -> str:
        return hashlib.sha256(self.content).hexdigest()[:16]

    @property
    def content(self) -> bytes:
        """The content of the vocabulary's file."""
        return "".join(f"{symbol}\n" for symbol in self.symbols).encode()


def learn(corpus: Iterable[trees.Tree]) -> Brackets:
    """Returns the vocabulary of trees; ids do not depend on their order."""
    return Brackets(tuple(sorted({x for tree in corpus for x in trees.symbols(tree)})))


def prepare(
    config: ConfigDict, workdir: Path, saved_config: ConfigDict | None, corpus: Iterable[trees.Tree]
) -> Brackets:
    """Returns the vocabulary of a run; a new run learns it from `corpus` and writes it.

    Fills in `vocabulary.brackets_fingerprint`. `saved_config` is as in a task's `prepare`.
    """
    if saved_config is None:
        vocabulary = learn(corpus)
        vocabularies.write_files(workdir, {NAME: vocabulary.content})
    else:
        vocabulary = read(workdir, saved_config.vocabulary.get("brackets_fingerprint", ""))
    config.vocabulary.brackets_fingerprint = vocabulary.fingerprint
    return vocabulary


def read(workdir: Path, expected: str) -> Brackets:
    """Returns the vocabulary of a workdir.

    UserError if the file is missing or damaged, or if its fingerprint differs from `expected` (""
    if unknown).
    """
    content = vocabularies.read_files(workdir, [NAME])[NAME]
    vocabulary = Brackets(tuple(content.decode().split()))
    vocabularies.check_fingerprint(workdir, vocabulary.fingerprint, expected)
    return vocabulary
