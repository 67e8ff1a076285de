"""A layer of the encoder and one of the decoder, with what is inside of their sub-layers.

In each attention, value, key and query are projections; the softmax of the scores weights the
values; an output projection follows. In cross-attention value and key come from the encoder's
output. A feed-forward network is two linear maps with an activation between them.
"""

from docs.diagrams import drawing
from docs.diagrams.calls import Call, find, layers, paper, shape
from docs.diagrams.drawing import GAP, Box, arrows, small, text
from docs.diagrams.stacks import CENTRES, WIDTH, heading, memory, score, term, tower

THIRD = WIDTH / 3 - 2  # from value to key, from key to query
INNER = 3 * THIRD - 6  # the width of what is inside of a box
INPUTS, WEIGHTS, OUTPUT = 22, 57, 105  # heights in an attention
FIRST, SECOND = 14, 54  # heights in a feed-forward network


def draw() -> str:
    """Returns the picture."""
    model, drawn, towers = paper(), "", {}
    for side, x in CENTRES.items():
        stack = find(model, side)
        layer = layers(stack)[0]
        made = towers[side] = tower(side, 50, layer, row, f"{layer.params:,}")
        drawn += text(x, 18, f"x {shape(stack.output)}") + made.drawn
        for name, it in made.boxes.items():
            if it.room:
                inside = feed_forward if it.kind == "network" else attention
                drawn += inside(it, find(layer, name.replace("-", "_")))
    it, (x, y), top = made.boxes["cross-attention"], made.output, made.top + GAP
    ways = (((it.x - d, it.y + 12), (it.x - d, it.y + INPUTS)) for d in (0, THIRD))
    drawn += memory(towers["encoder"], find(model, "encoder"), *ways)
    drawn += arrows(((x, y), (x, top))) + text(x, top + 7, shape(stack.output))
    dropout = f"dropout of {stack.module.options.dropout_rate}", "before each sum"
    facts = "of the paper's base;", "numbers: parameters", "", *dropout
    drawn += heading(top, "A layer of each side", *facts)
    return drawing.document(__doc__, top + 30, drawn)


def row(call: Call) -> tuple:
    """Describes the box of a sub-layer, with room for what is inside."""
    params = f"{call.params:,}"
    if call.name == "feed_forward":
        return "network", (term(call), params), SECOND + 20
    masked = "masked, " * call.module.causal
    return "attention", (term(call), f"{masked}{params}"), OUTPUT + 20


def attention(it: Box, call: Call) -> str:
    """Draws the projections, the weighted sum and the output of an attention."""
    (x, y, *_), drawn, ways = it, "", [((it.x, it.y + WEIGHTS + 35), (it.x, it.y + OUTPUT))]
    crossed = call.name == "cross_attention"  # value and key come from elsewhere
    turn = y + (5 if crossed else 12)
    for name, at in (("value", x - THIRD), ("key", x), ("query", x + THIRD)):
        drawn += small(at, y + INPUTS, THIRD - 6, it.kind, name)
        ways.append(((at, y + INPUTS + 20), (at, y + WEIGHTS)))
        if name == "query" or not crossed:
            ways.append(((x, y), (x, turn), (at, turn), (at, y + INPUTS)))
    (_, weights), (*_, H, K) = (find(call, x).output for x in (f"{call.name}.attend_to", "query"))
    lines = f"softmax({score(call)}) v", f"weights {shape(weights)}"
    drawn += small(x, y + WEIGHTS, INNER, it.kind, *lines)
    drawn += small(x, y + OUTPUT, INNER, it.kind, f"output {H} × {K} → {call.output[-1]}")
    return drawn + arrows(*ways)


def feed_forward(it: Box, call: Call) -> str:
    """Draws the two maps of a feed-forward network, and the activation between them."""
    (x, y, *_), F, D = it, find(call, "inner").output[-1], find(call, "outer").output[-1]
    drawn = small(x, y + FIRST, INNER, it.kind, f"inner {D} → {F:,}")
    drawn += small(x, y + SECOND, INNER, it.kind, f"outer {F:,} → {D}")
    drawn += text(x + 9, y + FIRST + 26, call.module.options.feed_forward, "note left")
    return drawn + arrows(((x, y), (x, y + FIRST)), ((x, y + FIRST + 20), (x, y + SECOND)))
