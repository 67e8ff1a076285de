"""A treebank: text files of trees in brackets -> sentence pairs of words and symbols."""

import dataclasses
import functools
from collections.abc import Iterator

from transformer.data import corpora, text_files
from transformer.data.text_files import Part
from transformer.errors import UserError
from transformer.families.parsing import trees
from transformer.families.parsing.trees import Tree


@dataclasses.dataclass(frozen=True, kw_only=True)
class Treebank(corpora.Corpus):
    """One split of a treebank: pairs of a sentence and its tree's symbols, joined by spaces."""

    trees: tuple[Tree, ...]


def load(split: str, *, directory: str, key: str) -> Treebank:
    """Returns the trees of the files that a split names: 'train.mrg', 'all.trees[:90%]'.

    A tree may take several lines, as in the Penn Treebank, or one. `split` and `key` are as in
    `text_files.find_parts`; a part is cut between lines. UserError, with file and line, for text
    that is not a tree.
    """
    parts = tuple(text_files.find_parts(corpora.folder(directory), split, key))
    if any(part.in_characters for part in parts):
        raise UserError(f"{key}={split!r}: a treebank can be cut between lines only")
    files = tuple(str(part.file) for part in parts)
    loaded = read_trees(parts)
    if not loaded:
        raise UserError(f"{key}={split!r}: there is no tree in {' and '.join(files)}")
    pairs = lambda: ((" ".join(tree.words), " ".join(trees.symbols(tree))) for tree in loaded)
    return Treebank(
        fingerprint=corpora.fingerprint("treebank", [part[1:] for part in parts]),
        size=len(loaded),
        items=functools.partial(corpora.select, pairs),
        files=files,
        trees=loaded,
    )


# Cached, because a task loads a split several times before its first step.
@functools.lru_cache(maxsize=4)
def read_trees(parts: tuple[Part, ...]) -> tuple[Tree, ...]:
    """Returns the trees of parts of files, in order."""
    return tuple(
        trees.from_text(text, f"{part.file}, line {number}")
        for part in parts
        for number, text in _texts(part)
    )


def _texts(part: Part) -> Iterator[tuple[int, str]]:
    """Yields (number of the first line, text) of each tree; a tree ends with its last bracket."""
    lines, depth = [], 0
    for number, line in enumerate(text_files.lines_of_part(part), start=part.first + 1):
        if lines or line.strip():
            lines.append(line)
            depth += line.count("(") - line.count(")")
        if lines and depth <= 0:
            yield number - len(lines) + 1, " ".join(lines)
            lines, depth = [], 0
    if lines:
        yield number - len(lines) + 1, " ".join(lines)
