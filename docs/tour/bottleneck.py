"""One fixed vector between encoder and decoder, and what does not fit through it."""

import functools
import itertools
from collections.abc import Iterator

import jax
import numpy as np

from docs.tour import picture, tiny
from transformer.data.tokenizer import END

LETTERS = range(4, 16)  # ids: 0 to 3 are special
LONGEST, LENGTHS = 10, (2, 4, 6, 8, 10)
KINDS = {
    "a vector of 32 numbers": ("none", 32),
    "a vector of 64 numbers": ("none", 64),
    "attention, states of 32": ("additive", 32),
}


def copies(random: np.random.Generator, count: int, lengths: range) -> dict:
    """Returns a batch of random letters to be said again."""
    sizes = random.choice(lengths, count)
    texts = [[*random.choice(LETTERS, size).tolist(), END] for size in sizes]
    sources = texts
    return tiny.batch(sources, texts, length=LONGEST + 1)


def training() -> Iterator[dict]:
    for step in itertools.count():
        yield copies(np.random.default_rng((0, step)), 32, range(1, LONGEST + 1))


def shares(kind: str, steps: int = 160) -> list[float]:
    """Trains a kind on copying; returns the share of tokens that it says right, by length."""
    attention, d_model = KINDS[kind]
    model = tiny.recurrent(LETTERS.stop, attention, d_model, bidirectional=False)
    params, _ = tiny.train(model, training(), steps=steps, rate=1e-2)
    forward = jax.jit(functools.partial(model.apply, {"params": params}, train=False))
    by_length = []
    for length in LENGTHS:
        test = copies(np.random.default_rng(length), 400, range(length, length + 1))
        right = forward(**test["inputs"]).argmax(-1) == test["targets"]
        by_length.append(float((right * test["weights"]).sum() / test["weights"].sum()))
    return by_length


def show() -> picture.Chart:
    """Trains each kind; returns what it says right."""
    print(f"{'letters':26}" + "".join(f"{length:8}" for length in LENGTHS))
    by_kind = {}
    for kind in KINDS:
        by_kind[kind] = shares(kind)
        print(f"{kind:26}" + "".join(f"{share:8.1%}" for share in by_kind[kind]))
    return chart(by_kind)


def chart(by_kind: dict[str, list[float]]) -> picture.Chart:
    """Returns the chart of the shares of each kind, by length."""
    rows = [
        {"between": kind, "letters": length, "right": share}
        for kind, by_length in by_kind.items()
        for length, share in zip(LENGTHS, by_length, strict=True)
    ]
    return {
        "title": "Copy a row of letters: the share said right",
        "width": 360,
        "height": 220,
        "data": {"values": rows},
        "mark": {"type": "line", "point": True},
        "encoding": {
            "x": {"field": "letters", "type": "quantitative", "axis": {"values": LENGTHS}},
            "y": {
                "field": "right",
                "type": "quantitative",
                "axis": {"format": ".0%", "grid": True},
                "scale": {"domain": [0, 1]},
                "title": None,
            },
            "color": {"field": "between", "type": "nominal", "sort": None, "title": "in between"},
        },
    }
