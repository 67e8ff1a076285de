"""Beam search, where the likeliest first word is not that of the likeliest sentence."""

import itertools

from docs.tour import picture, tiny
from transformer.decoding import compiled
from transformer.decoding.batch_decoder import BatchDecoder, Part
from transformer.tools.pages import beam_view

SOURCE = "밥 먹었어?"
# What "밥 먹었어?" was translated as, ten times.
TRANSLATIONS = {
    "have you eaten ?": 4,
    "did you eat yet ?": 2,
    "did you eat rice ?": 2,
    "did you have a meal ?": 2,
}
SEARCH = {
    **{"method": "beam", "length_penalty": "none", "length_alpha": 0.0, "stopping": "best"},
    **{"num_hypotheses": 1, "seed": 0, "min_length": 0, "extra_length": 8},
    **{"batch_tokens": 64, "workers": 1, "rules": ""},
}


def show() -> picture.Chart:
    """Trains on ten translations of one sentence; returns all that a beam of two considers."""
    counted = [[(SOURCE, text)] * count for text, count in TRANSLATIONS.items()]
    sentences = list(itertools.chain(*counted))
    pieces = tiny.vocabulary(sentences, size=320)
    model = tiny.transformer(len(pieces))
    batches = itertools.repeat(tiny.batch_of(pieces, sentences))
    params, _ = tiny.train(model, batches, steps=200, rate=5e-3)
    params = compiled.cast_params(params, model)
    source = Part(tuple(pieces.encode([SOURCE])[0]))

    for width in (1, 2):
        decoder = BatchDecoder(model, None, beam_width=width, **SEARCH)
        steps = list(beam_view.beam_path(decoder, params, source))
        (ids, score), *_ = steps[-1].finished
        print(f"beam of {width}: {pieces.decode([ids])[0]:24} log P = {score:.2f}")
    nodes, edges, places = [], [], {(): (0, 1)}
    for length, step in enumerate(steps, start=1):
        print(f"\nstep {length}")
        for rank, candidate in enumerate(step.candidates, start=1):
            words = tiny.names(pieces, candidate.ids)
            print(f"  {candidate.log_prob:7.2f}  {candidate.fate:9} {' '.join(words)}")
            places[candidate.ids] = length, rank
            label = f"{words[-1]}  {candidate.log_prob:.2f}"
            nodes.append({"step": length, "rank": rank, "says": label, "fate": candidate.fate})
            before, parent = places[candidate.ids[:-1]]
            edges.append({**nodes[-1], "step before": before, "parent": parent})
    return chart([{"step": 0, "rank": 1, "says": "<s>", "fate": "lives"}, *nodes], edges)


def chart(nodes: list[dict], edges: list[dict]) -> picture.Chart:
    """Returns the candidates of each step, best first, joined to what they continue."""
    place = {
        "x": {"field": "step", "type": "quantitative", "title": "step"},
        "y": {"field": "rank", "type": "quantitative", "title": "rank"},
    }
    place["x"] |= {"scale": {"padding": 40}, "axis": {"tickMinStep": 1}}
    place["y"] |= {"scale": {"domain": [4.4, 0.6]}, "axis": {"values": [1, 2, 3, 4]}}
    colors = {
        "domain": ["lives", "finished", "dropped"],
        "range": [picture.BLUE, picture.GREEN, picture.GREY],
    }
    color = {"color": {"field": "fate", "type": "nominal", "scale": colors, "title": None}}
    start = {"x2": {"field": "step before"}, "y2": {"field": "parent"}}
    label, point = {"type": "text", "dy": -11}, {"type": "point", "filled": True, "opacity": 1}
    return {
        **{"title": f"{SOURCE} A beam of 2: the candidates of each step, with log P"},
        **{"width": 620, "height": 220, "encoding": place},
        "layer": [
            {"data": {"values": edges}, "mark": "rule", "encoding": {**start, **color}},
            {"data": {"values": nodes}, "mark": point, "encoding": color},
            {"data": {"values": nodes}, "mark": label, "encoding": {"text": {"field": "says"}}},
        ],
    }
