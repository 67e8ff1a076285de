"""The boxes of figure 1, each with the names of the parts that it takes.

From below: positions are given to the input; in each layer a mixer lets the positions read each
other, and a feed-forward network follows. A residual connection leads around each of the two, and
has a norm. Attention, as a mixer, has a score of queries and keys. Beside each box are the values
of its key of config.model.
"""

import textwrap

from docs.diagrams import drawing
from docs.diagrams.drawing import GAP, LINE, Box, arrows, path, rect, small, text
from transformer import registry

X, BROAD, LOOP, PANEL = 86, 116, 72, 78  # a box's centre and width; to a loop, to the border
NAMES, LETTERS = X + PANEL + 10, 38  # where names begin, and how many letters a line has
LAYER = (
    ("attention", "mixer", "score"),
    ("plain", "residual", "norm"),
    ("network", "feed_forward"),
)


def draw() -> str:
    """Returns the picture."""
    drawn, below, y = text(X, 18, "embedded input", "name"), 34, 36 + GAP
    places = []
    for kind, *names in (("words", "positions"), *LAYER):
        it, names_drawn = part(y, kind, *names)
        drawn += names_drawn + arrows(((X, below), (X, it.y)))
        places.append(it)
        below, y = it.top, it.top + 2 * GAP
    positions, mixer, residual, network = places
    again = Box(X, y, BROAD, "plain", ("residual, norm",))
    drawn += drawing.box(again) + arrows(
        ((X, below), (X, y)), ((X, again.top), (X, again.top + 40))
    )
    for first, to in ((mixer, residual), (network, again)):
        turn, edge = first.y - 9, X - BROAD / 2
        drawn += path((X, turn), (X - LOOP, turn), (X - LOOP, to.middle), (edge, to.middle))
    bottom, top = positions.top + 8, again.top + 22
    panel = rect(X - PANEL, bottom, 2 * PANEL, top - bottom, "panel", 10)
    drawn = panel + drawn + text(X + 9, top - 16, "num_layers", "note left")
    drawn += text(NAMES, top + 12, "Figure 1, and what", "title left")
    drawn += text(NAMES, top - 8, "each of its boxes takes", "title left")
    return drawing.document(__doc__, top + 44, drawn)


def part(y: float, kind: str, name: str, inner: str = "") -> tuple[Box, str]:
    """Returns the place of a box, and draws it, with the names of its parts beside it."""
    rows = [
        (key, textwrap.wrap(", ".join(registry.PARTS[key]), LETTERS))
        for key in (name, inner)
        if key
    ]
    heights = [LINE * max(2, len(lines)) + 8 for _, lines in rows]
    it = Box(X, y, BROAD, kind, (), sum(heights) - LINE)
    drawn = drawing.box(it) + text(X, it.top - 19, name, "name")
    if inner:
        drawn += small(X, y + 8, BROAD - 24, kind, inner)
    top = it.top
    for (_, lines), height in zip(rows, heights, strict=True):
        for i, line in enumerate(lines):
            drawn += text(NAMES, top - 15 - LINE * i, line, "note left")
        top -= height
    return it, drawn
