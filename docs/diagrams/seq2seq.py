"""Recurrent encoder and decoder, with one fixed vector between them and with attention.

The encoder is below, the decoder above. Left the two ends of the encoder's states become one vector
of fixed size, from which the decoder begins. Right each step of the decoder has a vector of its
own, a weighted sum of all states of the encoder; besides, the decoder begins as on the left.
"""

import itertools

from docs.diagrams import drawing
from docs.diagrams.calls import Call, call, find, shape
from docs.diagrams.drawing import arrows, path, rect, small, text
from docs.tour import tiny

SOURCE, TARGET = (side.split() for side in tiny.HELD_OUT)
READ, FED, SAID = (*SOURCE, "</s>"), ("<s>", *TARGET), (*TARGET, "</s>")
CELL, STEP, VECTOR = 40, 47, 12  # the width of a cell, from one to the next, the height of a state
ENCODER, STATES, CONTEXTS, DECODER = 40, 88, 180, 218  # heights
STRONG = 1  # the step of decoding whose attention is drawn strongly


def draw() -> str:
    """Returns the picture."""
    top = DECODER + 118
    drawn = path((200, 20), (200, top - 20), kind="dotted")
    for attention, centre, title in (
        ("none", 101, "One fixed vector"),
        ("additive", 299, "Attention"),
    ):
        model = call(tiny.recurrent(300, attention, d_model=32))
        xs = [centre + STEP * (i - (len(READ) - 1) / 2) for i in range(len(READ))]
        between, note = (fixed if attention == "none" else attended)(xs, model)
        drawn += cells(xs, model) + between
        drawn += text(centre, top - 30, title, "title") + text(centre, top - 48, note)
        states = shape(find(model, ".encode").output)
        drawn += text(centre, 20, f"{model.module.cell}, states {states}")
    return drawing.document(__doc__, top, drawn)


def cells(xs: list[float], model: Call) -> str:
    """Draws the cells that read the source, their states, and the cells that say the target."""
    drawn, ways = "", []
    for x, read, fed, said in zip(xs, READ, FED, SAID, strict=True):
        drawn += small(x, ENCODER, CELL, "network", read) + small(x, DECODER, CELL, "network", fed)
        drawn += vector(x, STATES) + text(x, DECODER + 44, said, "small")
        ways += [((x, y + 20), (x, end)) for y, end in ((ENCODER, STATES), (DECODER, DECODER + 38))]
    for a, b in itertools.pairwise(xs):
        a, b = a + CELL / 2, b - CELL / 2
        ways += [((a, y), (b, y)) for y in (DECODER + 10, ENCODER + 14)]
        ways += [((b, ENCODER + 6), (a, ENCODER + 6))] * model.module.bidirectional
    return drawn + arrows(*ways)


def fixed(xs: list[float], model: Call) -> tuple[str, str]:
    """Draws the vector that is all that the decoder learns of the source; returns a note on it."""
    x, y, (B, _, D) = sum(xs) / len(xs), (STATES + CONTEXTS) / 2 - 8, find(model, "first_0").output
    ways = [((end, STATES + VECTOR), (x + (end - x) / 3, y)) for end in (xs[0], xs[-1])]
    ways.append(((x, y + 20), (x, CONTEXTS), (xs[0], CONTEXTS), (xs[0], DECODER)))
    drawn = small(x, y, 90, "state", f"{D} numbers") + arrows(*ways)
    return drawn, f"{shape((B, D))}, whatever the length"


def attended(xs: list[float], model: Call) -> tuple[str, str]:
    """Draws a vector for each token that is said; returns a note on the weights."""
    drawn = ""
    for (t, x), start in itertools.product(enumerate(xs), xs):
        ends = (start, STATES + VECTOR), (x, CONTEXTS)
        drawn += path(*ends, kind="attention", opacity=1 if t == STRONG else 0.3)
    drawn += "".join(vector(x, CONTEXTS) for x in xs)
    drawn += arrows(*(((x, CONTEXTS + VECTOR), (x, DECODER)) for x in xs))
    _, (B, _, S), *_ = find(model, "decoder._attend").output
    return drawn, f"weights of each step: {shape((B, S))}"


def vector(x: float, y: float) -> str:
    """Draws a state."""
    return rect(x - CELL / 2, y, CELL, VECTOR, "state", 3)
