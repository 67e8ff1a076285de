"""Draws attention (paper, figures 3 to 5): words in two columns, and lines between them.

A word under the pointer or with the focus shows only its own lines, and shades the words on the
other side. A heat map, a table of numbers, shows the same weights. The drawing is HTML with its own
script, because the Tab key does not reach words in a Vega-Lite plot, and the plot's table would not
follow the choice of sentence, layer and head.
"""

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from transformer.tasks import attention_weights
from transformer.tasks.saved_model import SavedModel
from transformer.tools.pages import page
from transformer.tools.pages.page import Markup

MAX_NUMBERS = 300_000  # in a page: just below 1 MB

ABOUT = (
    "A line is as strong as its weight: the share of its attention that a position on the left "
    "gives to one on the right; those below 0.1 are left out. Point at a word, or move to it with "
    "the Tab key, to see its lines alone, the weak ones, too. The same weights are a heat map: its "
    "rows are the words on the left, its columns those on the right. A dot before a piece says "
    "that it continues the word before; </s> is the end of a sentence, <s> its start. Attention "
    "says where information was read, not why."
)
KINDS = {
    "cross": "cross-attention",
    "encoder": "encoder self-attention",
    "decoder": "decoder self-attention",
}


class Map(NamedTuple):
    """The weights of one kind of attention in one sentence, in all layers and heads.

    `queries` and `keys` are words, or pieces made `readable`; a word may occur twice. `first` is
    the index of the query shown at first; -1: all queries.
    """

    name: str
    queries: list[str]
    keys: list[str]
    weights_LHTS: np.ndarray
    left: str = "from"  # heading of the queries, the words on the left
    right: str = "to"
    first: int = -1


class Example(NamedTuple):
    """A sentence, and the attention in it."""

    title: str
    maps: list[Map]


def view(examples: Sequence[Example]) -> Markup:
    """Returns the drawing, without later examples if the page would be too large.

    All examples have the same maps, layers and heads.
    """
    data, numbers = [], 0
    for example in examples:
        # The first example is always drawn. The sum includes the examples left out, so that no
        # later, shorter example is drawn instead.
        numbers += sum(m.weights_LHTS.size for m in example.maps)
        if not data or numbers <= MAX_NUMBERS:
            data.append({"title": example.title, "maps": [_values(m) for m in example.maps]})
    return page.markup("pages/attention", examples=data)


def pair_example(run: SavedModel, source: str, target: str) -> Example:
    """Returns the attention of a model that predicts a given translation by teacher forcing.

    A model without attention has no maps.
    """
    arrays = attention_weights.pair_weights(run, source, target)
    sources, targets = (readable(arrays[side].tolist()) for side in ("source", "target"))
    # The decoder's input is shifted right: it predicts targets[t] from <s> and targets[:t].
    axes = {
        "cross": ("predicts", targets, "source", sources),
        "encoder": ("source", sources, "source", sources),
        "decoder": ("predicts", targets, "has seen", ["<s>", *targets[:-1]]),
    }
    maps = [
        Map(KINDS[kind], queries, keys, arrays[kind], left, right)
        for kind, (left, queries, right, keys) in axes.items()
        if kind in arrays
    ]
    return Example(f"{source} → {target}", maps)


def _values(m: Map) -> dict:
    """Returns a map with weights in thousandths: {'weights': [layer][head][t * S + s], ...}."""
    values = m._asdict()
    weights_LHTS = np.rint(1000 * values.pop("weights_LHTS")).astype(int)
    # One list per head, row by row: with S = 5 keys, weight (t, s) = (2, 3) is at 2 * 5 + 3 = 13.
    flat = weights_LHTS.reshape(*weights_LHTS.shape[:2], -1)
    return values | {"weights": flat.tolist()}


def readable(pieces: Sequence[str]) -> list[str]:
    """Returns pieces for display: 'the' for '▁the', and '·at' for 'at' inside a word.

    A '▁' alone becomes '␣', and the piece after it begins a word. If no piece has a '▁', as in a
    vocabulary of characters, only spaces become '␣'.
    """
    if not any(piece.startswith("▁") for piece in pieces):
        return [piece.replace(" ", "␣") for piece in pieces]
    shown = []
    # Each piece with the piece before it; the first piece begins a word, as if after a '▁'.
    for before, piece in itertools.pairwise(["▁", *pieces]):
        is_special = piece.startswith("<") and piece.endswith(">")
        if piece.startswith("▁"):
            shown.append(piece[1:] or "␣")
        else:
            shown.append(piece if is_special or before == "▁" else f"·{piece}")
    return shown
