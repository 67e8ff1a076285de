"""Encoding and decoding as they go: attention at each step, and the beam as it grows.

Above, lines of attention: within the source, from the decoder's inputs, and from the source to each
token that the decoder says. Below, the four likeliest continuations of each step of a beam search,
joined to what they continue, with their log-probabilities.
"""

import math
from collections.abc import Sequence

import numpy as np

from docs.diagrams import drawing, motion
from docs.diagrams.drawing import Point, path, rect, small, text
from docs.diagrams.motion import Beat
from docs.tour import beam, picture, tiny
from transformer.decoding import compiled
from transformer.decoding.batch_decoder import BatchDecoder, Part
from transformer.tasks import attention_weights
from transformer.tools.pages import beam_view

LEFT, STEP, BETWEEN = 32, 46, 56  # the first word, from word to word, from source to target
INPUTS, MEMORY, OUTPUTS, TITLE = 260, 332, 410, 496  # heights of vectors, and of the title
# The beam: its root, its best candidates, from step to step, from rank to rank; the legend.
ROOT, TREE, ACROSS, DOWN, LEGEND = 26, 146, 86, 42, 198
FATES = {"lives": "network", "finished": "words", "dropped": "plain"}


def show() -> picture.Chart:
    """Returns attention and beam of the model of step 1, for the sentence held out."""
    pieces, model, params, _ = tiny.translator()
    inputs = tiny.batch_of(pieces, [tiny.HELD_OUT])["inputs"]
    weights = attention_weights.batch_weights(params, inputs, model=model)
    # Of the only layer and the only sentence, the mean over the heads.
    maps = {name: np.asarray(x[0, 0].mean(axis=0), float).tolist() for name, x in weights.items()}
    ids = inputs["source"][0].tolist()
    decoder = BatchDecoder(model, None, beam_width=2, **beam.SEARCH)
    params = compiled.cast_params(params, model)
    steps = []
    for step in beam_view.beam_path(decoder, params, Part(tuple(ids))):
        steps.append([])
        for it in step.candidates:
            says = tiny.names(pieces, it.ids)
            steps[-1].append({"says": says, "log P": it.log_prob, "fate": it.fate})
            print(f"step {len(steps)}  {it.log_prob:8.2f}  {it.fate:9} {' '.join(says)}")
    return {"source": tiny.names(pieces, ids), "maps": maps, "steps": steps}


def draw(chart: picture.Chart) -> str:
    """Returns the picture, which moves."""
    source, maps, steps = chart["source"], chart["maps"], chart["steps"]
    [said] = [it["says"] for it in steps[-1] if it["fate"] == "finished"]
    log_probs = {tuple(it["says"]): it["log P"] for step in steps for it in step} | {(): 0.0}
    p = lambda t: math.exp(log_probs[tuple(said[: t + 1])] - log_probs[tuple(said[:t])])
    read, memory = ([(LEFT + STEP * i, y) for i in range(len(source))] for y in (INPUTS, MEMORY))
    right = read[-1][0] + BETWEEN
    fed, output = ([(right + STEP * i, y) for i in range(len(said))] for y in (INPUTS, OUTPUTS))
    encoder = fan(read, memory, maps["encoder"], "network")
    beats = [
        Beat("The source: all its tokens at once.", vectors(read, source)),
        Beat("The encoder: each token attends to all.", vectors(memory), encoder),
    ]
    for t, (reads, says) in enumerate(zip(["<s>", *said], said, strict=False)):
        attends = fan(fed, output[t : t + 1], [maps["decoder"][t]], "words")
        attends += fan(memory, output[t : t + 1], [maps["cross"][t]], "attention")
        both, (x, y) = vectors(fed[t : t + 1], [reads]) + vectors(output[t : t + 1]), output[t]
        answer = text(x, y + 18, says, "name") + text(x, y + 33, f"{p(t):.2f}")
        told = f"It says {says}, with probability {p(t):.2f}."
        beats.append(Beat(f"The decoder reads {reads}, and attends.", both, attends))
        beats.append(Beat(told, answer + considered(steps, t)))
    beats.append(Beat("All steps at once; a line is as strong as its weight."))

    title = f"{' '.join(source[:-1])} → {' '.join(said[:-1])}"
    drawn = text(16, TITLE, title, "title left") + motion.groups(beats, 16, TITLE - 20)
    for row, side in ((read, "encoder"), (fed, "decoder")):
        drawn += text((row[0][0] + row[-1][0]) / 2, INPUTS - 32, side)
    drawn += text(16, LEGEND, "A beam of two, with log P", "note left")
    for x, (fate, kind) in zip((200, 250, 318), FATES.items(), strict=True):
        drawn += rect(x, LEGEND, 9, 9, kind, 2) + text(x + 14, LEGEND, fate, "note left")
    drawn += small(ROOT, TREE + 7, 34, "plain", "<s>")
    return drawing.document(__doc__, TITLE + 34, drawn, motion.style(beats))


def vectors(places: Sequence[Point], words: Sequence[str] = ()) -> str:
    """Draws a vector at each place, and words below."""
    drawn = "".join(rect(x - 15, y, 30, 10, "state", 3) for x, y in places)
    named = zip(places, words, strict=False)
    return drawn + "".join(text(x, y - 15, word, "name") for (x, y), word in named)


def fan(keys: Sequence[Point], queries: Sequence[Point], weights_TS: list, kind: str) -> str:
    """Draws a line from each key to each query, as strong as its weight."""
    drawn = ""
    for query, weights_S in zip(queries, weights_TS, strict=True):
        for (x, y), weight in zip(keys, weights_S, strict=True):
            drawn += path((x, y + 10), query, kind=kind, opacity=weight) * (weight >= 0.01)
    return drawn


def considered(steps: list[list[dict]], t: int) -> str:
    """Draws the candidates of step t, best first, each joined to what it continues."""
    before, drawn = [it["says"] for it in steps[t - 1]] if t else [[]], ""
    x, start = ROOT + ACROSS * (t + 1) - 16, ROOT + (ACROSS * t + 15 if t else 17)
    for rank, it in enumerate(steps[t]):
        y, kind = TREE - DOWN * rank, FATES[it["fate"]]
        parent = TREE - DOWN * before.index(it["says"][:-1])
        log_prob = f"{it['log P']:.2f}".replace("-", "\u2212")  # a minus
        drawn += path((start, parent + 17), (x - 31, y + 17), kind=kind, opacity=0.8)
        drawn += small(x, y, 62, kind, it["says"][-1], log_prob)
    return drawn


def page(svg: str) -> str:
    """Returns a page in which the reader goes through the picture's beats."""
    return motion.stepped("Encoding and decoding, step by step", svg)
