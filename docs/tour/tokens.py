"""A sentence becomes another, token by token, between a start and an end symbol."""

import functools

import jax
import numpy as np

from docs.tour import picture, tiny
from transformer.data import pairs
from transformer.data.tokenizer import END, START


def show() -> picture.Chart:
    """Prints what is learnt and how the answer comes about; returns each step's probabilities."""
    pieces, model, params, history = tiny.translator()
    example = tiny.batch_of(pieces, [tiny.HELD_OUT])
    source = example["inputs"]["source"]
    for what, ids in (
        ("source", source),
        ("decoder's input", example["inputs"]["target"]),
        ("target", example["targets"]),
    ):
        print(f"{what:16}" + "".join(f"{name:10}" for name in tiny.names(pieces, ids[0])))

    count, last = len(tiny.sentence_pairs()), history[-1]["nats_per_token"]
    print(f"\ntrained on {count} other pairs, to {last:.3f} nats a token\n")

    static = ("method", "train", "room", "num_beams")
    apply = jax.jit(functools.partial(model.apply, {"params": params}), static_argnames=static)
    positions, segments = pairs.positions_and_segments(source)
    memory = apply(source, positions, segments, train=False, method="encode")
    memory, cache = apply(memory, segments > 0, room=8, num_beams=1, method="prepare")
    words = [*tiny.SUBJECTS.values(), *tiny.VERBS.values(), *tiny.OBJECTS.values()]
    ids = [i for i, *_ in pieces.encode(words)] + [END]
    rows, token, position = [], START, 0
    while token != END and position < 8:
        logits, cache = apply(np.array([[[token]]]), position, memory, cache, method="step")
        p_V = np.asarray(jax.nn.softmax(logits[0, 0, 0]))
        [given], token, position = tiny.names(pieces, [token]), int(p_V.argmax()), position + 1
        print(f"after {given:8} {tiny.names(pieces, [token])[0]:8} P = {p_V[token]:.3f}")
        candidates = zip(tiny.names(pieces, ids), ids, strict=True)
        rows += [{"after": given, "next": name, "P": float(p_V[i])} for name, i in candidates]
    title = "나는 사과를 좋아해: P(next token | source, tokens before)"
    return picture.heatmap(rows, "after", "next", "P", width=330, height=330, title=title)
