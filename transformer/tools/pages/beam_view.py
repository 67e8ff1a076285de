"""A search drawn as a tree: which hypotheses lived, died and finished, step by step."""

import collections
from collections.abc import Sequence

from transformer.data import tokenizer
from transformer.data.tokenizer import Pieces
from transformer.decoding import compiled
from transformer.decoding.batch_decoder import Part
from transformer.decoding.translator import Translator
from transformer.tools.pages import beam_path
from transformer.tools.pages.attention_view import readable
from transformer.tools.pages.beam_path import Candidate, Step
from transformer.tools.pages.page import Plot, Table

Tree = dict
MAX_STEPS = 24  # of a tree, which is as tall as its translation is long

# {fate of a candidate at the end of the search: its name in the legend}
FATES = {
    "best": "of the translation",
    "finished": "finished, but worse",
    "alive": "lived, and went on",
    "dead": "lived, and died",
    "dropped": "dropped",
}
ABOUT = (
    "Beam search keeps the W likeliest beginnings of a translation. Each step continues them by "
    "every piece of the vocabulary, and looks at the 2W likeliest of these candidates. Of those "
    "that do not end, the best W live on. One that ends, among the best W, is finished: its score "
    "is log P over the length penalty. The rest is dropped; the table has it. A row has what was "
    "kept, best first, and lines from what it continues. What has lived dies when nothing that "
    "continues it is kept. Point at a piece for its hypothesis, log P and score."
)


def searched(translator: Translator, params: Tree, text: str) -> Plot | None:
    """Returns the search of a text; None for one that is searched in parts, or without a beam."""
    decoder, [ids] = translator.batch_decoder, translator.vocabulary.source.encode([text])
    decode = translator.decode
    if decode.method != "beam" or not text.strip() or len(ids) > decode.max_length:
        return None
    params = compiled.cast_params(params, translator.model)
    steps = list(beam_path.beam_path(decoder, params, Part(tuple(ids))))
    return plot(final_fates(steps), translator.vocabulary.target)


def final_fates(steps: Sequence[Step]) -> list[list[Candidate]]:
    """Returns the candidates of each step, with their fates (FATES) at the end of the search."""
    best, continued, path = steps[-1].finished[0][0], set(), []
    # Backwards, because the step after a candidate says whether it died: (5, 8) is alive if (5, 8,
    # 2) is kept in that step.
    for step in reversed(steps):
        row = []
        for candidate in step.candidates:
            ids, fate = candidate.ids, candidate.fate
            if fate == "lives":
                fate = "alive" if ids in continued else "dead"
            if fate != "dropped" and ids == best[: len(ids)]:
                fate = "best"
            row.append(candidate._replace(fate=fate))
        continued = {x.ids[:-1] for x in row if x.fate != "dropped"}
        path.insert(0, row)
    return path


def plot(path: Sequence[Sequence[Candidate]], side: Pieces) -> Plot:
    """Returns the first steps of a search as a tree that grows downwards, a row per step."""
    # `places` has the column of each kept hypothesis in its row; () is the root, <s>.
    values = [{"step": 0, "place": 1, "piece": "<s>"}]
    rows, places, kept = [], {(): 1}, collections.Counter()
    for step, candidates in enumerate(path, start=1):
        for rank, (ids, log_prob, score, fate) in enumerate(candidates, start=1):
            piece, [text] = readable(side.pieces(ids))[-1], side.decode([list(ids)])
            shown = {"piece": piece, "hypothesis": text, "log P": round(log_prob, 3)}
            shown |= {"score": round(score, 3), "fate": FATES[fate]}
            if ids[-1] == tokenizer.END:
                shown["hypothesis"] += f" {piece}"
            rows.append([step, rank, *shown.values()])
            if fate != "dropped" and step <= MAX_STEPS:
                # The candidate's place in its row, and its parent's place in the row above.
                kept[step] += 1
                places[ids] = kept[step]
                line = {"before": step - 1, "parent": places[ids[:-1]]}
                values.append({"step": step, "place": places[ids], **line, **shown})
    columns = ["step", "rank", "piece", "hypothesis", "log P", "score", "fate"]
    return Plot("", _tree(values), _in_words(path, side), Table(columns, rows))


def _in_words(path: Sequence[Sequence[Candidate]], side: Pieces) -> str:
    """Says which translation the search returned, and which was second."""
    # The finished hypotheses, ranked by score, as the search ranks them.
    ended = [x for row in path for x in row if x.ids[-1] == tokenizer.END and x.fate != "dropped"]
    ended = sorted(ended, key=lambda x: -x.score)[:2]
    texts = side.decode([list(x.ids) for x in ended])
    words = [f"“{text}” with score {x.score:.3f}" for text, x in zip(texts, ended, strict=True)]
    about = f"Found after {len(path)} steps: {'; next is '.join(words)}."
    if len(path) > MAX_STEPS:
        about += f" The first {MAX_STEPS} steps are drawn; the table has all."
    return about


def _tree(values: list[dict]) -> dict:
    """Returns the Vega-Lite specification of a tree: pieces, and lines from parent to child."""
    steps, places = (max(value[name] for value in values) for name in ("step", "place"))
    is_best = f"datum.fate === '{FATES['best']}'"
    place = {"type": "quantitative", "axis": None, "scale": {"domain": [0.5, places + 0.5]}}
    axis = {"grid": False, "domain": False, "ticks": False}
    step = {"type": "ordinal", "title": "step", "axis": axis, "sort": None}
    width, weight = f"{is_best} ? 3 : 1.5", f"{is_best} ? 'bold' : 'normal'"
    colour = {"field": "fate", "type": "nominal", "scale": {"domain": list(FATES.values())[:-1]}}
    # The root, step 0, has no parent: no line. A line begins 10 pixels below the parent's text and
    # ends 10 above the child's. Dropped candidates have no colour, because only the table has them.
    lines = {
        "transform": [{"filter": "datum.step"}],
        "mark": {"type": "rule", "yOffset": 10, "y2Offset": -10, "strokeWidth": {"expr": width}},
        "encoding": {
            "x": {"field": "parent", **place},
            "x2": {"field": "place"},
            "y": {"field": "before", **step},
            "y2": {"field": "step"},
            "color": {**colour, "legend": {"columns": 2, "symbolType": "stroke"}},
        },
    }
    room = {"expr": f"width / {places} - 6"}  # a longer piece is cut off
    size = {"expr": "width < 500 ? 10 : 13"}
    tooltip = [{"field": x, "type": "nominal"} for x in ("hypothesis", "log P", "score", "fate")]
    pieces = {
        "mark": {"type": "text", "fontSize": size, "limit": room, "fontWeight": {"expr": weight}},
        "encoding": {
            "x": {"field": "place", **place},
            "y": {"field": "step", **step},
            "text": {"field": "piece"},
            "tooltip": tooltip,
        },
    }
    return {"data": {"values": values}, "height": 44 * (steps + 1), "layer": [lines, pieces]}
