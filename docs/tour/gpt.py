"""GPT, the decoder alone: the next character of a text."""

import itertools
from collections.abc import Iterator

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from docs.tour import picture, tiny
from transformer.families.language_model import streams
from transformer.families.language_model.characters import Characters
from transformer.families.language_model.continuations import unprompted
from transformer.tools.quickstart import grammar

CONTEXT, ROWS, STEPS = 48, 16, 400
COUNTED = (" a", " a ", "strawberry", "strawberries")


def batches(ids: np.ndarray) -> Iterator[dict]:
    """Yields batches of windows of the text, drawn at random."""
    windows = len(ids) // CONTEXT
    for step in itertools.count():
        items = np.random.default_rng((0, step)).choice(windows, ROWS, replace=False)
        yield streams.assemble_shifted(ids, items, np.arange(ROWS), (ROWS, CONTEXT), (0, step))


def surprisal(model: nn.Module, params: tiny.Tree, ids: np.ndarray) -> np.ndarray:
    """Returns -log P of each character of a text, given those before it in a window."""
    every = np.arange(-(-len(ids) // CONTEXT))
    batch = streams.assemble(ids, every, every, (len(every), CONTEXT))
    log_p_BTV = jax.nn.log_softmax(model.apply({"params": params}, **batch["inputs"], train=False))
    log_p_BT1 = jnp.take_along_axis(log_p_BTV, batch["targets"][..., None], axis=-1)
    return -np.asarray(log_p_BT1).ravel()[: len(ids)]


def begins(vocabulary: Characters, ids: np.ndarray) -> np.ndarray:
    """Returns which characters of a text are the first of a word: behind a space or a line."""
    [space, _] = vocabulary.encode([" "])[0]
    return np.isin(np.append(vocabulary.end, ids[:-1]), (space, vocabulary.end))


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

    text = " ".join(lines)
    print("\nthe corpus has " + ", ".join(f"{text.count(x):,} of {x!r}" for x in COUNTED))
    unseen = [english for _, english in corpus["test"]]
    stream = np.concatenate(vocabulary.encode(unseen))
    surprisal_T, first_T = surprisal(model, params, stream), begins(vocabulary, stream)
    print(f"\n{len(unseen)} unseen sentences, nats a character:")
    for name, chosen_T in {"first of a word": first_T, "later": ~first_T}.items():
        print(f"{name:16} {surprisal_T[chosen_T].mean():.2f}")

    text = next(english for english in unseen if 30 < len(english) < CONTEXT)
    stream = np.array(vocabulary.encode([text])[0])
    surprisal_T, first_T = surprisal(model, params, stream), begins(vocabulary, stream)
    characters = [*text.replace(" ", "␣"), "⏎"]
    rows = [
        {"place": i, "character": c, "nats": float(x), "is": "first of a word" if s else "later"}
        for i, (c, x, s) in enumerate(zip(characters, surprisal_T, first_T, strict=True))
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
