"""The whole Transformer, as figure 1 of the paper.

From below: source and target are embedded, and positions added. Left the encoder's layers, each
self-attention and feed-forward network; right the decoder's, each masked self-attention,
cross-attention to the encoder's output, and feed-forward network. A residual connection leads
around each of these. Above, logits and softmax.
"""

import flax.linen as nn

from docs.diagrams import drawing
from docs.diagrams.calls import Call, every, find, layers, paper, shape
from docs.diagrams.drawing import GAP, Box, arrows, chain, column, text
from docs.diagrams.stacks import CENTRES, PANEL, WIDTH, heading, memory, term, tower

INPUTS = {"encoder": ("source", "source"), "decoder": ("target", "target, shifted right")}
SINUSOIDS = ("interleaved", "concatenated", "halves")


def draw() -> str:
    """Returns the picture."""
    model, towers = paper(), {}
    table = embedding(model)
    drawn = drawing.box(table)
    for side, (name, words) in INPUTS.items():
        x, call, made = CENTRES[side], find(model, f"{name}_positions"), layers(find(model, side))
        kind = call.module.options.positions
        lines = "+ positions", f"{kind} sinusoids" if kind in SINUSOIDS else kind
        [added] = column(x, table.top + GAP, WIDTH, [("plain", lines)])
        towers[side] = tower(side, added.top + GAP, made[0], row, f"{len(made)} layers")
        drawn += text(x, 33, words, "name") + text(x, 18, shape(call.output[:2]))
        drawn += arrows(((x, 46), (x, table.y)), ((x, table.top), (x, added.y)))
        drawn += drawing.box(added) + towers[side].drawn
    it, (x, y) = towers["decoder"].boxes["cross-attention"], towers["decoder"].output
    drawn += memory(towers["encoder"], find(model, "encoder"), ((it.x - WIDTH / 2, it.middle),))

    matrix = "a matrix of its own" if model.module.tied_embeddings == "none" else "the same matrix"
    output = [("words", ("logits", f"by {matrix}")), ("words", ("softmax",))]
    ends = column(x, towers["decoder"].top + GAP, WIDTH, output)
    top = ends[-1].top + GAP
    drawn += chain(ends) + arrows(((x, y), (x, ends[0].y)), ((x, ends[-1].top), (x, top)))
    drawn += text(x, top + 6, shape(model.output)) + text(x, top + 21, "P(next token)", "name")
    base = f"the paper's base, {model.module.options.d_model} wide:"
    facts = base, f"{model.params:,} parameters", "(M: million of them)", ""
    facts += "B sentence pairs of", "S source tokens and", "T target tokens"
    drawn += heading(top + 14, "The Transformer", *facts)
    return drawing.document(__doc__, top + 44, drawn)


def embedding(model: Call) -> Box:
    """Returns the box of the embeddings, across both columns."""
    tables = {x.name for x in every(model) if isinstance(x.module, nn.Embed)}
    table, (left, right) = find(model, "target_embedding"), CENTRES.values()
    size, width = table.module.num_embeddings, table.module.features
    sharing = "one for both sides" if len(tables) == 1 else "another for the source"
    lines = f"embedding, times √{width}", f"{size:,} × {width}, {sharing}: {millions(table)}"
    return Box((left + right) / 2, 62, right - left + 2 * PANEL, "words", lines)


def row(call: Call) -> tuple:
    """Describes the box of a sub-layer."""
    options = call.module.options
    if call.name == "feed_forward":
        return "network", (term(call), f"{options.d_ff:,} wide, {millions(call)}")
    masked = ["masked"] * call.module.causal
    return "attention", (term(call), *masked, f"{options.num_heads} heads, {millions(call)}")


def millions(call: Call) -> str:
    """Writes a number of params, as 1.05 M."""
    return f"{call.params / 1e6:.2f} M"
