"""Attention in several heads, as figure 2 of the paper.

Left one head: scores of queries and keys, a mask, a softmax, and the sum of the values by these
weights. Right all heads: each has its own projections of values, keys and queries; their outputs
are concatenated and projected once more.
"""

from docs.diagrams import drawing
from docs.diagrams.calls import Call, find, paper, shape
from docs.diagrams.drawing import Box, arrows, box, chain, column, rect, text
from docs.diagrams.stacks import score

ONE, ALL = 76, 278  # the centres of the halves
ENTRY, BOTTOM, TOP = 56, 84, 378  # where arrows begin, where boxes do, where arrows end
SHEETS, APART = 3, 5  # how many heads are drawn, and how far apart


def draw() -> str:
    """Returns the picture."""
    memory, attention = (find(paper(), f"cross_attention{of}") for of in (".project", ""))
    drawn = one_head(attention) + all_heads(attention, memory)
    heads = attention.module.options.num_heads
    for x, width, title in ((14, 158, "One head"), (184, 202, f"{heads} heads")):
        drawn += rect(x, 66, width, TOP - 30, "panel", 10) + text(
            x + 12, TOP + 14, title, "name left"
        )
    return drawing.document(__doc__, TOP + 50, drawn)


def one_head(attention: Call) -> str:
    """Draws what each head does: figure 2, left."""
    (B, T, _, C), (*_, S) = find(attention, f"{attention.name}.attend_to").output
    rows = [
        ("attention", ("scores", score(attention))),
        ("plain", ("mask",)),
        ("attention", ("softmax", shape((B, T, S)))),
        ("attention", ("sum of values", shape((B, T, C)))),
    ]
    first, *_, last = boxes = column(ONE, BOTTOM, 108, rows, 35)
    q, k, v, side = ONE - 26, ONE + 26, ONE + 72, ONE + 54
    ways = [((x, ENTRY), (x, first.y)) for x in (q, k)]
    ways += [((v, ENTRY), (v, last.middle), (side, last.middle)), ((ONE, last.top), (ONE, TOP))]
    words = "".join(text(x, 40, name, "name") for x, name in ((q, "Q"), (k, "K"), (v, "V")))
    return chain(boxes) + arrows(*ways) + words


def all_heads(attention: Call, memory: Call) -> str:
    """Draws all heads: figure 2, right; values and keys are of the encoder's output."""
    (B, T, H, C), D = find(attention, "query").output, attention.output[-1]
    _, S, *_ = find(memory, "key").output
    rows = [
        ("attention", ("attention", f"{H} times, {C} wide")),
        ("plain", ("concatenate", shape((B, T, H * C)))),
        ("attention", ("output", f"{H * C} → {D}")),
    ]
    first, *rest = column(ALL, BOTTOM + 75, 150, rows, 30)
    drawn, behind = sheets(first) + chain(rest), (SHEETS - 1) * APART
    ways = [((ALL, first.top + behind), (ALL, rest[0].y)), ((ALL, rest[-1].top), (ALL, TOP))]
    for i, (name, call) in enumerate((("value", memory), ("key", memory), ("query", attention))):
        x = ALL + 56 * (i - 1)
        it = Box(x, BOTTOM, 46, "attention", (name, f"→ {find(call, name).output[-1]}"))
        drawn += sheets(it) + text(x, 40, name[0].upper(), "name")
        ways += ((x, ENTRY), (x, it.y)), ((x, it.top + behind), (x, first.y))
    drawn += text(ALL - 28, 22, shape((B, S, D))) + text(ALL + 56, 22, shape((B, T, D)))
    return drawn + arrows(*ways)


def sheets(it: Box) -> str:
    """Draws a box, and the others of its kind behind it."""
    drawn = ""
    for i in reversed(range(SHEETS)):
        area = it.x - it.width / 2 + i * APART, it.y + i * APART, it.width, it.top - it.y
        drawn += rect(*area, "paper") + (rect(*area, it.kind) if i else box(it))
    return drawn
