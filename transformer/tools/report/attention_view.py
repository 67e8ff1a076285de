"""The picture of attention (paper, figures 3 to 5): words in two columns, lines between them.

A word that is pointed at, or has the focus (by a click or a key), shows its own lines, and shades
the words on the other side. The same weights are a heat map, which is a table of numbers. This is
HTML with a script of its own, because a picture by Vega-Lite has no words to tab to, and its table
would not follow the choice of sentence, layer and head.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from transformer.tools.pages import page
from transformer.tools.pages.page import Markup

MAX_NUMBERS = 300_000  # in a page: just below 1 MB


class Map(NamedTuple):
    """The weights of one kind of attention in one sentence, of all its layers and heads.

    `queries` and `keys` are words, or pieces made `readable`; a word may be there twice. `first` is
    the index of the query that is shown until a reader points at another; -1: all queries.
    """

    name: str
    queries: list[str]
    keys: list[str]
    weights_LHTS: np.ndarray
    left: str = "from"  # what the queries are, the words on the left
    right: str = "to"
    first: int = -1


class Example(NamedTuple):
    """A sentence, and the attention in it."""

    title: str
    maps: list[Map]


def view(examples: Sequence[Example]) -> Markup:
    """Returns the picture; examples after the first are left out if the page would grow too large.

    All examples have the same maps, layers and heads.
    """
    data, numbers = [], 0
    for example in examples:
        numbers += sum(m.weights_LHTS.size for m in example.maps)
        if not data or numbers <= MAX_NUMBERS:
            data.append({"title": example.title, "maps": [_values(m) for m in example.maps]})
    return page.markup("report/attention", examples=data)


def _values(m: Map) -> dict:
    """Returns a map with weights in thousandths: {'weights': [layer][head][t * S + s], ...}."""
    values = m._asdict()
    weights_LHTS = np.rint(1000 * values.pop("weights_LHTS")).astype(int)
    # One list a head, row by row: weight (t, s) is at t * S + s.
    flat = weights_LHTS.reshape(*weights_LHTS.shape[:2], -1)
    return values | {"weights": flat.tolist()}


def readable(pieces: Sequence[str]) -> list[str]:
    """Returns pieces for the eye: '▁the' is 'the', and 'at', which continues a word, '·at'.

    A '▁' alone is '␣', and what follows it begins a word. Without any '▁', as of characters, pieces
    stay as they are, a space as '␣'.
    """
    if not any(piece.startswith("▁") for piece in pieces):
        return [piece.replace(" ", "␣") for piece in pieces]
    shown = []
    # Each piece with the one before it; the first one begins a word.
    for before, piece in zip(["▁", *pieces], pieces, strict=False):
        is_special = piece.startswith("<") and piece.endswith(">")
        if piece.startswith("▁"):
            shown.append(piece[1:] or "␣")
        else:
            shown.append(piece if is_special or before == "▁" else f"·{piece}")
    return shown
