"""Follows a beam search step by step, and draws its hypotheses as a tree.

The search calls the compiled functions of `BatchDecoder` in the same order, one step at a time. The
fates of candidates are read from the states between steps.
"""

import collections
import functools
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import numpy as np

from transformer.data import tokenizer
from transformer.data.tokenizer import Pieces
from transformer.decoding import beam_search, compiled
from transformer.decoding.batch_decoder import BatchDecoder, Part
from transformer.decoding.beam_search import Bounds
from transformer.decoding.translator import Translator
from transformer.distributed import layout
from transformer.tools.pages.attention_view import readable
from transformer.tools.pages.page import Plot, Table

Tree = Any
MAX_STEPS = 24  # of a tree, one row per step

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


class Candidate(NamedTuple):
    """A candidate of a step: a live hypothesis with one more token."""

    ids: tuple[int, ...]  # a finished one ends with the end symbol
    log_prob: float
    score: float  # log P / length penalty, of the length so far
    fate: str  # after the step: 'lives', 'finished' or 'dropped'


class Step(NamedTuple):
    """One step of a search for one sentence; both lists are best first."""

    candidates: list[Candidate]
    finished: list[tuple[tuple[int, ...], float]]  # the best so far, and their scores


def beam_path(decoder: BatchDecoder, params: Tree, part: Part) -> Iterator[Step]:
    """Yields each step of the beam search for one sentence.

    The hypotheses of `decoder(params, [part])` are the first of the last step's `finished`. A live
    candidate dies if the next step drops all its continuations; candidates alive after the last
    step could not have won. `params` come from `compiled.cast_params`.
    """
    search = decoder.begin(params, [part])
    # Row 0 of the batch is the sentence, the others are padding. All stay, with room to the end.
    most_room = search.bounds.prefix_BM.shape[1]
    search = compiled.resize(search, np.arange(len(search.rng_B)), room=most_room)
    memory, state, bounds, _ = layout.shard_rows(search, params)
    options = dict(decoder.method.options)
    while beam_search.is_unfinished(0, state):
        considered, state = _extend(
            params, memory, state, bounds, model=decoder.model, options=decoder.method.options
        )
        # After the step, state.t includes its token: the length of every candidate.
        penalty = beam_search.length_penalty(int(state.t), options["penalty"], options["alpha"])
        live = _hypotheses(state.live_tokens_BWT, state.live_log_probs_BW)
        finished = _hypotheses(state.tokens_BWT, state.scores_BW)
        # A candidate in neither list was dropped.
        fates = dict.fromkeys(live, "lives") | dict.fromkeys(finished, "finished")
        candidates = []
        for ids, log_prob in _hypotheses(considered.tokens_BET, considered.log_probs_BE).items():
            score = log_prob / float(penalty)
            candidates.append(Candidate(ids, log_prob, score, fates.get(ids, "dropped")))
        yield Step(candidates, list(finished.items()))


@functools.partial(jax.jit, static_argnames=("model", "options"))
def _extend(
    params: Tree,
    memory: Tree,
    state: beam_search.DecodingState,
    bounds: Bounds,
    *,
    model: nn.Module,
    options: tuple,
) -> tuple[beam_search.Candidates, beam_search.DecodingState]:
    """Returns the candidates and the state after one step, as in `compiled.proceed`."""
    step = functools.partial(model.apply, {"params": params}, method="step")
    options = dict(options)
    given = {"never": compiled.NEVER, "rules": options.pop("rules", ())}
    candidates, cache = beam_search.find_candidates(step, memory, bounds, state, **given)
    return candidates, beam_search.select(candidates, cache, state, bounds, **options)


def _hypotheses(tokens_BET: np.ndarray, values_BE: np.ndarray) -> dict[tuple[int, ...], float]:
    """Returns {ids: value} of row 0, the sentence, without padding; hypotheses are unique."""
    rows = zip(np.asarray(tokens_BET)[0].tolist(), np.asarray(values_BE)[0].tolist(), strict=True)
    # An empty beam has log P -inf.
    return {tuple(i for i in ids if i != tokenizer.PAD): x for ids, x in rows if x > -np.inf}


def searched(translator: Translator, params: Tree, text: str) -> Plot | None:
    """Returns the search of a text; None for a text in several parts, or without a beam."""
    decoder, decode = translator.batch_decoder, translator.decode
    [ids] = translator.vocabulary.source.encode([tokenizer.tagged(decode.tag, text)])
    if decode.method != "beam" or not text.strip() or len(ids) > decode.max_length:
        return None
    params = compiled.cast_params(params, translator.model)
    steps = list(beam_path(decoder, params, Part(tuple(ids))))
    return plot(final_fates(steps), translator.vocabulary.target)


def final_fates(steps: Sequence[Step]) -> list[list[Candidate]]:
    """Returns the candidates of each step, with their fates (FATES) at the end of the search."""
    best, _ = steps[-1].finished[0]
    continued, path = set(), []
    # Backwards, because a candidate lives on if the next step keeps a continuation: (5, 8) lives on
    # if (5, 8, 2) is kept.
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


def plot(path: Sequence[Sequence[Candidate]], vocabulary: Pieces) -> Plot:
    """Returns the first steps of a search as a tree that grows downwards, a row per step."""
    # `places` maps kept hypotheses to columns in their row; () is the root, <s>.
    values = [{"step": 0, "place": 1, "piece": "<s>"}]
    rows, places, kept = [], {(): 1}, collections.Counter()
    for step, candidates in enumerate(path, start=1):
        for rank, (ids, log_prob, score, fate) in enumerate(candidates, start=1):
            piece = readable(vocabulary.pieces(ids))[-1]
            [text] = vocabulary.decode([list(ids)])
            shown = {"piece": piece, "hypothesis": text, "log P": round(log_prob, 3)}
            shown |= {"score": round(score, 3), "fate": FATES[fate]}
            if ids[-1] == tokenizer.END:
                shown["hypothesis"] += f" {piece}"
            rows.append([step, rank, *shown.values()])
            if fate != "dropped" and step <= MAX_STEPS:
                # The columns of the candidate, and of its parent in the row above.
                kept[step] += 1
                places[ids] = kept[step]
                line = {"before": step - 1, "parent": places[ids[:-1]]}
                values.append({"step": step, "place": places[ids], **line, **shown})
    columns = ["step", "rank", "piece", "hypothesis", "log P", "score", "fate"]
    return Plot("", _tree(values), _in_words(path, vocabulary), Table(columns, rows))


def _in_words(path: Sequence[Sequence[Candidate]], vocabulary: Pieces) -> str:
    """Returns text on the best and the second translation of the search."""
    # The finished hypotheses, ranked by score, as the search ranks them.
    ended = [x for row in path for x in row if x.ids[-1] == tokenizer.END and x.fate != "dropped"]
    ended = sorted(ended, key=lambda x: -x.score)[:2]
    texts = vocabulary.decode([list(x.ids) for x in ended])
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
    # The root, step 0, has no parent and no line. Lines run from 10 pixels below the parent's text
    # to 10 above the child's. Dropped candidates are only in the table, so they have no colour.
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
    room = {"expr": f"width / {places} - 6"}  # longer pieces are cut
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
