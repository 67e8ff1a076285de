"""GPT, the decoder alone: the next character of a text."""

import itertools
from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np

from docs.tour import picture, tiny
from transformer.data.characters import Characters
from transformer.families.language_model import streams
from transformer.families.language_model.continuations import unprompted
from transformer.tools.quickstart import grammar

CONTEXT, ROWS, STEPS = 48, 16, 400


def batches(ids: np.ndarray) -> Iterator[dict]:
    """Yields batches of windows of the text, drawn at random."""
    windows = len(ids) // CONTEXT
    for step in itertools.count():
        items = np.random.default_rng((0, step)).choice(windows, ROWS, replace=False)
        yield streams.assemble_shifted(ids, items, np.arange(ROWS), (ROWS, CONTEXT), (0, step))


def show() -> picture.Chart:
    """Trains on English sentences; returns the surprisal of each character of an unseen one."""
    corpus = grammar.sentence_pairs()
    lines = [english for _, english in corpus["train"]]
    vocabulary = Characters("".join(sorted(set("".join(lines)))))
    ids = np.concatenate(vocabulary.encode(lines))
    model = tiny.language_model(len(vocabulary), d_model=64, d_ff=256, num_layers=2, num_heads=4)
    params, history = tiny.train(model, batches(ids), steps=STEPS, rate=1e-2)
    nats = np.mean([metrics["nats_per_token"] for metrics in history[-30:]])
    print(f"{len(ids):,} characters, {STEPS} steps: {nats:.2f} nats a character\n")

    options = {"temperature": 0.5, "top_k": 0, "top_p": 1.0, "seed": 0}
    options |= {"context": CONTEXT, "max_tokens": 2 * CONTEXT, "num_lines": 1}
    for text in unprompted(params, 4, model=model, vocabulary=vocabulary, **options):
        print(f"sampled: {text}")

    text = next(english for _, english in corpus["test"] if 30 < len(english) < CONTEXT)
    stream = np.array(vocabulary.encode([text])[0])
    batch = streams.assemble(stream, np.arange(1), np.arange(1), (1, len(stream)))
    logits = model.apply({"params": params}, **batch["inputs"], train=False)
    log_p_TV = jax.nn.log_softmax(logits[0])
    surprisal_T = -jnp.take_along_axis(log_p_TV, stream[:, None], axis=1)[:, 0]
    characters = [*text.replace(" ", "␣"), "⏎"]
    starts = [True] + [before in " " for before in text]
    rows = [
        {"place": i, "character": c, "nats": float(x), "is": "first of a word" if s else "later"}
        for i, (c, x, s) in enumerate(zip(characters, surprisal_T, starts, strict=True))
    ]
    print("\n" + " ".join(f"{c}:{x:.1f}" for c, x in zip(characters, surprisal_T, strict=True)))
    labels = f"{characters}[datum.value]"
    axis = {"labelExpr": labels, "labelAngle": 0, "title": None, "ticks": False}
    return {
        **{"title": "-log P of each character, given those before it (nats)"},
        **{"width": 16 * len(characters), "height": 170, "data": {"values": rows}, "mark": "bar"},
        "encoding": {
            "x": {"field": "place", "type": "ordinal", "axis": axis},
            "y": {"field": "nats", "type": "quantitative", "title": None},
            "color": {"field": "is", "type": "nominal", "sort": None, "title": None},
        },
    }
