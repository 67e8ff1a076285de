"""Trees: text in the brackets of the Penn Treebank, and the symbols that a model writes.

    text       (TOP (S (NP-SBJ (DT The) (NN cat)) (VP (VBZ sleeps)) (. .)))
    symbols    (S (NP DT NN )NP (VP VBZ )VP . )S

Symbols are depth-first, with labelled closing brackets, as in Vinyals et al. 2015, "Grammar as a
Foreign Language". Each word is written as its tag, as in tensor2tensor, because the words are in
the input. Vinyals et al. write XX for every tag, so that a model has to count words. Punctuation is
a word, too. A tree has neither traces nor function tags: (NP-SBJ-1 (-NONE- *)) is dropped, and
NP-SBJ becomes NP. It has no root: constituents with a label in ROOTS are dropped.
"""

import collections
import re
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from transformer.errors import UserError

UNTAGGED = "XX"  # the tag of a word that a parser has not reached
TRACE = "-NONE-"  # the tag of a trace
ROOTS = ("", "TOP", "ROOT", "S1")
# Brackets in words, as the Penn Treebank writes them.
ESCAPES = {"(": "-LRB-", ")": "-RRB-", "[": "-LSB-", "]": "-RSB-", "{": "-LCB-", "}": "-RCB-"}
# (TAG WORD), (LABEL, anything outside brackets, or a closing bracket, which has no group. Only
# ASCII spaces separate, because words may contain others, such as U+200A.
PART = re.compile(
    r"\(\s*([^\s()]+)\s+([^\s()]+)\s*\)|\(\s*([^\s()]*)|([^\s()]+)|\)", flags=re.ASCII
)


class Constituent(NamedTuple):
    """The words start, ..., stop - 1 of a sentence, with a label such as NP."""

    label: str
    start: int
    stop: int


class Tree(NamedTuple):
    """A sentence and its constituents, in the order of their opening brackets."""

    words: tuple[str, ...]
    tags: tuple[str, ...]  # of the words: parts of speech, or UNTAGGED
    constituents: tuple[Constituent, ...]


def words_of(line: str) -> list[str]:
    """Returns the words of a sentence, which spaces separate; -LRB- is read as (."""
    return [_unescaped(word) for word in re.findall(r"\S+", line, flags=re.ASCII)]


def _unescaped(word: str) -> str:
    for bracket, escape in ESCAPES.items():
        word = word.replace(escape, bracket)
    return word


def from_text(text: str, place: str = "tree") -> Tree:
    """Returns the tree of a text in brackets; UserError, which begins with `place`, for another."""
    words, tags, constituents, opened = [], [], [], []
    is_complete = False
    for match in PART.finditer(text):
        tag, word, label, outside = match.groups()
        if outside or is_complete:
            break
        if word:
            if tag != TRACE:
                words.append(_unescaped(word))
                tags.append(tag)
        elif label is not None:
            # NP of NP-SBJ-1 and NP=2.
            opened.append((len(constituents), re.split("[-=]", label)[0], len(words)))
            constituents.append(None)  # until it is closed
        elif opened:
            _close(opened, constituents, len(words))
        else:
            break
        is_complete = not opened
    else:
        if is_complete:
            return _tree(words, tags, constituents)
    raise UserError(f"{place}: expected one tree in balanced brackets, found {text[:60]!r}")


def repaired(symbols: Iterable[str], words: Sequence[str]) -> Tree:
    """Returns a tree over exactly `words` from any symbols.

    A closing bracket also closes what was opened after its opening bracket. Dropped are closing
    brackets without an opening bracket, tags after the last word, and constituents without words.
    At the end all brackets are closed, and the words left are children of the root.
    """
    constituents, opened, tags = [], [], []
    for symbol in symbols:
        if symbol.startswith("("):
            opened.append((len(constituents), symbol[1:], len(tags)))
            constituents.append(None)  # until it is closed
        elif not symbol.startswith(")"):
            if len(tags) < len(words):
                tags.append(symbol)
        elif any(label == symbol[1:] for _, label, _ in opened):
            while _close(opened, constituents, len(tags)) != symbol[1:]:
                pass
    while opened:
        _close(opened, constituents, len(tags))
    tags += [UNTAGGED] * (len(words) - len(tags))
    return _tree(words, tags, constituents)


def _close(
    opened: list[tuple[int, str, int]], constituents: list[Constituent | None], stop: int
) -> str:
    """Closes the last of `opened`, (index in `constituents`, label, start); returns its label."""
    i, label, start = opened.pop()
    constituents[i] = Constituent(label, start, stop)
    return label


def _tree(words: Sequence[str], tags: Sequence[str], constituents: Iterable[Constituent]) -> Tree:
    """Returns a tree without the root, and without constituents of no words."""
    kept = (x for x in constituents if x.start < x.stop and x.label not in ROOTS)
    return Tree(tuple(words), tuple(tags), tuple(kept))


def symbols(tree: Tree) -> list[str]:
    """Returns the symbols of a tree."""
    return _depth_first(tree, tree.tags, close=lambda label: f"){label}")


def to_text(tree: Tree) -> str:
    """Returns a tree as text on one line, with the root TOP."""
    escaped = ("".join(ESCAPES.get(x, x) for x in word) for word in tree.words)
    leaves = [f"({tag} {word})" for tag, word in zip(tree.tags, escaped, strict=True)]
    parts = ["(TOP", *_depth_first(tree, leaves, close=lambda label: ")"), ")"]
    return " ".join(parts).replace(" )", ")")


def _depth_first(tree: Tree, leaves: Sequence[str], close: Callable[[str], str]) -> list[str]:
    """Returns opening brackets, leaves and closing brackets; `leaves` has a text per word."""
    parts, opened, waiting = [], [], collections.deque(tree.constituents)
    for i, leaf in enumerate(leaves):
        while waiting and waiting[0].start == i:
            opened.append(waiting.popleft())
            parts.append(f"({opened[-1].label}")
        parts.append(leaf)
        while opened and opened[-1].stop == i + 1:
            parts.append(close(opened.pop().label))
    return parts
