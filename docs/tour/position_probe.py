"""What is left of a word's position after each layer, with and without residual connections."""

import functools

import flax.linen as nn
import jax
import numpy as np

from docs.tour import picture, sense, tiny
from transformer.data.tokens import Side
from transformer.families.texts import texts
from transformer.models.layers import Layer
from transformer.models.positions import PositionEncoding
from transformer.tasks.task import init_params
from transformer.tools.quickstart import grammar

LAYERS, LENGTH, STEPS, PROBED = 4, 16, 400, 2000
KINDS = {
    "post-norm (the paper)": {},
    "no residuals": {"residual": False},
    "no positions": {"positions": "none"},
}


def vectors(model: nn.Module, params: tiny.Tree, side: Side) -> tuple[list[np.ndarray], np.ndarray]:
    """Returns the vectors [N, D] of all words, below the first and after each layer, and the words'
    positions."""
    every = np.arange(len(side.lengths))
    inputs = texts.inputs(side, every, every, (len(every), LENGTH))
    kept = (PositionEncoding, Layer)
    outputs = {"capture_intermediates": lambda module, _: isinstance(module, kept)}
    encode = functools.partial(model.apply, train=False, method="encode", **outputs)
    state = jax.jit(encode)({"params": params}, **inputs)[1]["intermediates"]
    layers = [state["encoder"][f"layers_{i}"]["__call__"][0][0] for i in range(LAYERS)]
    is_word = inputs["positions"] > 0  # without the symbol that begins a text, and padding
    below = state["add_positions"]["__call__"][0]
    return [np.asarray(x_BTD)[is_word] for x_BTD in (below, *layers)], inputs["positions"][is_word]


def explained(x_ND: np.ndarray, positions_N: np.ndarray) -> float:
    """Returns the share of the positions' variance (R squared) that a linear map of the vectors
    explains, of those in the second half, where it was fitted to the first (ridge regression)."""
    x_ND = (x_ND - x_ND.mean(axis=0)) / x_ND.std(axis=0)
    x_ND = np.concatenate([x_ND, np.ones_like(x_ND[:, :1])], axis=1).astype(np.float64)
    half = len(x_ND) // 2
    penalised_DD = x_ND[:half].T @ x_ND[:half] + np.eye(x_ND.shape[1])
    map_D = np.linalg.solve(penalised_DD, x_ND[:half].T @ positions_N[:half])
    error = ((x_ND[half:] @ map_D - positions_N[half:]) ** 2).mean()
    return float(1 - error / positions_N[half:].var())


def show() -> picture.Chart:
    """Trains a BERT of each kind; returns what a linear probe knows of positions, by layer."""
    sentences = [english.split() for _, english in grammar.sentence_pairs()["train"]]
    sentences = [words for words in sentences if len(words) < LENGTH]
    ids = {word: i for i, word in enumerate(sorted(set().union(*sentences)), texts.FIRST_PIECE)}
    unseen, known = (sense.tokenised(x, ids) for x in (sentences[:PROBED], sentences[PROBED:]))
    vocab_size = texts.FIRST_PIECE + len(ids)
    print(vocab_size, len(sentences), np.bincount(unseen.lengths))
    rows = []
    print(f"{'layer':36}" + "".join(f"{i:8}" for i in range(LAYERS + 1)))
    for kind, changes in KINDS.items():
        data = sense.batches(known, vocab_size, LENGTH)
        model = tiny.masked_language_model(vocab_size, num_layers=LAYERS, **changes)
        before = init_params(model, next(data), jax.random.key(0))
        after, history = tiny.train(model, data, steps=STEPS, rate=5e-3)
        loss = np.mean([x["nats_per_token"] for x in history[-50:]])
        for when, params in {"before": before, "after": after}.items():
            xs, positions = vectors(model, params, unseen)
            shares = [explained(x_ND, positions) for x_ND in xs]
            print(f"{kind:24}{when:12}" + "".join(f"{x:8.3f}" for x in shares), f"{loss:.2f}")
            rows += [
                {"kind": kind, "when": f"{when} training", "layer": i, "known": x}
                for i, x in enumerate(shares)
            ]
    y = {"field": "known", "type": "quantitative", "title": None, "scale": {"domain": [0, 1]}}
    return {
        "title": "Position explained by a linear map of the word's vector (R²)",
        "data": {"values": rows},
        "facet": {"column": {"field": "when", "sort": None}},
        "spec": {
            **{"width": 260, "height": 200, "mark": {"type": "line", "point": True}},
            "encoding": {
                "x": {"field": "layer", "type": "quantitative", "axis": {"tickCount": LAYERS}},
                "y": y,
                "color": {"field": "kind", "type": "nominal", "sort": None, "title": None},
            },
        },
    }
