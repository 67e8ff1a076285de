"""The section on the beam: which hypotheses of a search lived, died and finished, step by step."""

import collections
from collections.abc import Sequence
from typing import NamedTuple

from transformer.data import tokenizer
from transformer.data.tokenizer import SideVocabulary
from transformer.decoding import compiled
from transformer.decoding.parts import Part
from transformer.decoding.translator import Translator
from transformer.tasks import vocabularies
from transformer.tools.pages.page import Plot, Section, Table
from transformer.tools.report import beam_path, inside
from transformer.tools.report.attention_view import readable
from transformer.tools.report.inside import Inside

SENTENCES, MOST_CHARACTERS = 3, 60
MOST_STEPS = 24  # of a tree, which is as tall as its translation is long

# What becomes of a candidate, as it is drawn.
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


class Node(NamedTuple):
    """A candidate of step `step`, from 1; `rank` is from 1, best first."""

    step: int
    rank: int
    parent: int  # the rank, in the step before, of what it continues
    ids: tuple[int, ...]
    log_prob: float
    score: float
    fate: str  # a key of FATES


def section(this: Inside) -> Section | None:
    """Returns the paths of a few sentences; None for a run that does not translate by a beam."""
    config = this.run.config
    if "decode" not in config or config.decode.method != "beam" or not this.items:
        return None
    vocabulary = vocabularies.read(this.run.workdir, config)
    translator = Translator(this.model, vocabulary, **config.decode)
    params = compiled.cast_params(this.params, dtype=getattr(this.model, "dtype", "float32"))
    parts = [ABOUT]
    for item in inside.sentences(this, SENTENCES, MOST_CHARACTERS).items:
        [ids] = vocabulary.source.encode([item["input"]])
        if len(ids) <= config.decode.max_length:  # a longer line is searched in parts
            steps = beam_path.beam_path(translator.batch_decoder, params, Part(tuple(ids)))
            # A paragraph between the plots keeps them below each other.
            parts += [item["input"], plot("", nodes(list(steps)), vocabulary.target)]
    return Section("The beam, step by step", parts) if len(parts) > 1 else None


def nodes(steps: Sequence[beam_path.Step]) -> list[Node]:
    """Returns the candidates of all steps, each with its fate, what became of it later."""
    best = steps[-1].finished[0][0]
    kept = {()}  # beginnings of what is kept in the step after
    # ranks[t] has the ranks after step t by ids; before step 1 there is the empty beginning alone.
    ranks = [{(): 1}] + [{c.ids: i + 1 for i, c in enumerate(step.candidates)} for step in steps]
    rows = []
    # Backwards, because the step after a candidate says whether it died.
    for t in reversed(range(len(steps))):
        last, row = t + 1 == len(steps), []
        for i, candidate in enumerate(steps[t].candidates):
            ids, log_prob, score, fate = candidate
            if fate == "lives":
                fate = "alive" if ids in kept and not last else "dead"
            if fate != "dropped" and ids == best[: len(ids)]:
                fate = "best"
            row.append(Node(t + 1, i + 1, ranks[t][ids[:-1]], ids, log_prob, score, fate))
        kept = {c.ids[:-1] for c in steps[t].candidates if c.fate != "dropped"}
        rows = row + rows
    return rows


def plot(title: str, path: Sequence[Node], side: SideVocabulary) -> Plot:
    """Returns the first steps of a path as a tree that grows downwards, a row a step."""
    values = [{"step": 0, "place": 1, "piece": "<s>"}]
    rows, places, kept = [], {(): 1}, collections.Counter()
    for node in path:
        pieces = readable(side.pieces(node.ids))
        text = side.decode([list(node.ids)])[0]
        text += f" {pieces[-1]}" if node.ids[-1] == tokenizer.END else ""
        numbers = {"log P": round(node.log_prob, 3), "score": round(node.score, 3)}
        shown = {"piece": pieces[-1], "hypothesis": text, **numbers, "fate": FATES[node.fate]}
        rows.append([node.step, node.rank, *shown.values()])
        if node.fate != "dropped" and node.step <= MOST_STEPS:
            kept[node.step] += 1
            places[node.ids] = kept[node.step]
            line = {"before": node.step - 1, "parent": places[node.ids[:-1]]}
            values.append({"step": node.step, "place": places[node.ids], **line, **shown})
    columns = ["step", "rank", "piece", "hypothesis", "log P", "score", "fate"]
    return Plot(title, _tree(values), _in_words(path, side), Table(columns, rows))


def _in_words(path: Sequence[Node], side: SideVocabulary) -> str:
    """Says in words which translation the search found, and which came second."""
    finished = sorted(
        (node for node in path if node.ids[-1] == tokenizer.END and node.fate != "dropped"),
        key=lambda node: -node.score,
    )
    texts = side.decode([list(node.ids) for node in finished])
    best, *others = (
        f"“{text}” with score {node.score:.3f}" for text, node in zip(texts, finished, strict=True)
    )
    second = f"; next is {others[0]}" if others else ""
    steps = path[-1].step
    cut = f" The first {MOST_STEPS} steps are drawn; the table has all." * (steps > MOST_STEPS)
    return f"Found after {steps} steps: {best}{second}.{cut}"


def _tree(values: list[dict]) -> dict:
    """Returns the Vega-Lite specification of a tree: pieces, and lines from parent to child."""
    steps, places = (max(value[name] for value in values) for name in ("step", "place"))
    kept = [fate for name, fate in FATES.items() if name != "dropped"]
    is_best = f"datum.fate === '{FATES['best']}'"
    place = {"type": "quantitative", "axis": None, "scale": {"domain": [0.5, places + 0.5]}}
    axis = {"grid": False, "domain": False, "ticks": False}
    step = {"type": "ordinal", "title": "step", "axis": axis, "sort": None}
    width, weight = f"{is_best} ? 3 : 1.5", f"{is_best} ? 'bold' : 'normal'"
    lines = {
        "transform": [{"filter": "datum.step"}],
        "mark": {"type": "rule", "yOffset": 10, "y2Offset": -10, "strokeWidth": {"expr": width}},
        "encoding": {
            "x": {"field": "parent", **place},
            "x2": {"field": "place"},
            "y": {"field": "before", **step},
            "y2": {"field": "step"},
            "color": {
                "field": "fate",
                "type": "nominal",
                "scale": {"domain": kept},
                "legend": {"columns": 2, "symbolType": "stroke"},
            },
        },
    }
    room = {"expr": f"width / {places} - 6"}  # a longer piece is cut off
    size = {"expr": "width < 500 ? 10 : 13"}
    pieces = {
        "mark": {"type": "text", "fontSize": size, "limit": room, "fontWeight": {"expr": weight}},
        "encoding": {
            "x": {"field": "place", **place},
            "y": {"field": "step", **step},
            "text": {"field": "piece"},
            "tooltip": [
                {"field": name, "type": "nominal"}
                for name in ("hypothesis", "log P", "score", "fate")
            ],
        },
    }
    return {"data": {"values": values}, "height": 44 * (steps + 1), "layer": [lines, pieces]}
