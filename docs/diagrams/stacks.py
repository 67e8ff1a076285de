"""A layer of the encoder and one of the decoder, side by side."""

from collections.abc import Callable
from typing import NamedTuple

from docs.diagrams.calls import Call, find, shape, sublayers
from docs.diagrams.drawing import GAP, Box, Point, arrows, chain, column, path, rect, text

CENTRES = {"encoder": 102, "decoder": 298}
WIDTH, LOOP, PANEL = 142, 80, 87  # of boxes; from a centre to residual connections, to a border


class Tower(NamedTuple):
    """The drawing of a layer, and the places in it."""

    drawn: str
    boxes: dict[str, Box]  # by name
    output: Point  # where the layer's output comes from
    top: float


def tower(side: str, bottom: float, layer: Call, row: Callable[[Call], tuple], note: str) -> Tower:
    """Draws a layer, from an arrow below its border on; `row` describes a sub-layer's box."""
    x, drawn, boxes = CENTRES[side], "", {}
    edge, loop = (x - d if side == "encoder" else x + d for d in (WIDTH / 2, LOOP))
    below, y = bottom - GAP, bottom + 20
    for calls in sublayers(layer):
        placed = column(x, y, WIDTH, rows(calls, row))
        # What is inside of a box has arrows of its own.
        kind = "line" if placed[0].room else "arrow"
        drawn += path((x, below), (x, y), kind=kind) + chain(placed)
        for it in placed:
            boxes[it.lines[0]] = it
            if it.lines[0].startswith("add"):
                drawn += path((x, y - 9), (loop, y - 9), (loop, it.middle), (edge, it.middle))
        below, y = placed[-1].top, placed[-1].top + 25
    top = below + 27
    drawn = rect(x - PANEL, bottom, 2 * PANEL, top - bottom, "panel", 10) + drawn
    drawn += text(x - 9, below + 10, side, "name right") + text(
        x + 9, below + 10, note, "note left"
    )
    return Tower(drawn, boxes, (x, below), top)


def rows(calls: list[Call | None], row: Callable[[Call], tuple]) -> list[tuple]:
    """Returns the rows of a sub-layer; a norm after the sum is in its box."""
    made = []
    for call in calls:
        if call is None:
            made.append(("plain", ("add",)))
        elif not call.name.endswith("_norm"):
            made.append(row(call))
        elif made and made[-1][1] == ("add",):
            made[-1] = "plain", (f"add, {term(call)}",)
        else:
            made.append(("plain", (term(call),)))
    return made


def memory(encoder: Tower, output: Call, *ways: tuple[Point, ...]) -> str:
    """Draws the ways of the encoder's output into the decoder; each ends with these points."""
    (x, y), up, across = encoder.output, encoder.top + 14, sum(CENTRES.values()) / 2
    begin = (x, y), (x, up), (across, up)
    words = text(x, up + 9, f"memory {shape(output.output)}")
    return words + arrows(*((*begin, (across, way[0][1]), *way) for way in ways))


def heading(y: float, title: str, *facts: str) -> str:
    """Writes a title and facts where there is no layer, above the encoder."""
    lines = [text(18, y - 20 - 16 * i, fact, "note left") for i, fact in enumerate(facts) if fact]
    return text(18, y, title, "title left") + "".join(lines)


def score(attention: Call) -> str:
    """Writes the score of a query and a key."""
    kind, size = attention.module.options.score, find(attention, "query").output[-1]
    return f"q·k / √{size}" if kind == "scaled_dot" else kind.replace("_", " ")


def term(call: Call) -> str:
    """Writes a module's name as a word: self-attention."""
    return call.name.replace("_", "-")
