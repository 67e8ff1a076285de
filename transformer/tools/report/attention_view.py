"""The picture of attention (paper, figures 3 to 5): words in two columns, lines between them.

A word that is pointed at, or has the focus (by a click or a key), shows its own lines, and shades
the words on the other side. The same weights are a heat map, which is a table of numbers. This is
HTML with a script of its own, because a picture by Vega-Lite has no words to tab to, and its table
would not follow the choice of sentence, layer and head.
"""

import functools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from transformer.tools.pages.page import Markup

HERE = Path(__file__).parent
MOST_NUMBERS = 300_000  # in a page: just below 1 MB


class Map(NamedTuple):
    """The weights of one kind of attention in one sentence, of all its layers and heads.

    `queries` and `keys` are words, or pieces made `readable`; two may be the same. `first` is the
    query that is shown before one is pointed at; -1: all.
    """

    name: str
    queries: list[str]
    keys: list[str]
    weights_LHTS: np.ndarray
    of_queries: str = "from"  # what the left column is
    of_keys: str = "to"
    first: int = -1


class Example(NamedTuple):
    """A sentence, and the attention in it."""

    title: str
    maps: list[Map]


def view(examples: Sequence[Example]) -> Markup:
    """Returns the picture; examples after the first are left out if the page would grow too large.

    All examples have the same maps, layers and heads.
    """
    sizes = np.cumsum([sum(m.weights_LHTS.size for m in example.maps) for example in examples])
    count = max(1, int((sizes <= MOST_NUMBERS).sum()))
    data = [
        {"title": example.title, "maps": [_values(m) for m in example.maps]}
        for example in examples[:count]
    ]
    labels = "".join(
        f"<label>{name} <select></select></label>"
        for name in ("Sentence", "Attention", "Layer", "Head")
    )
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
    body = (
        f'<div class="attention"><div class="controls">{labels}</div>'
        '<div class="views"><div class="pair"><h3></h3><h3></h3><ol></ol>'
        '<svg aria-hidden="true" preserveAspectRatio="none"></svg><ol></ol></div>'
        '<div class="table" tabindex="0"><table aria-label="Weights: rows are the words on the '
        'left, columns those on the right"></table></div></div>'
        '<p class="said" aria-live="polite"></p>'
        f'<script type="application/json">{text}</script></div>\n'
    )
    return Markup(body, _file("attention.css"), _file("attention.js"))


def _values(m: Map) -> dict:
    """Returns a map with weights in thousandths: {'weights': [layer][head][t * S + s], ...}."""
    weights_LHTS = np.rint(1000 * m.weights_LHTS).astype(int)
    values = m._asdict() | {"weights": weights_LHTS.reshape(*weights_LHTS.shape[:2], -1).tolist()}
    del values["weights_LHTS"]
    return values


def readable(pieces: Sequence[str]) -> list[str]:
    """Returns pieces for the eye: '▁the' is 'the', and 'at', which continues a word, '·at'.

    A '▁' alone is '␣', and what follows it begins a word. Without any '▁', as of characters, pieces
    stay as they are, a space as '␣'.
    """
    if not any(piece.startswith("▁") for piece in pieces):
        return [piece.replace(" ", "␣") for piece in pieces]
    shown = []
    for before, piece in zip(["▁", *pieces], pieces, strict=False):
        is_special = piece.startswith("<") and piece.endswith(">")
        if piece.startswith("▁"):
            shown.append(piece[1:] or "␣")
        else:
            shown.append(piece if is_special or before == "▁" else f"·{piece}")
    return shown


@functools.cache
def _file(name: str) -> str:
    return (HERE / name).read_text("utf-8")
