"""Residual layers are like an ensemble: what a trained model loses with one of its layers."""

import functools
import itertools

import jax
import numpy as np

from docs.tour import picture, tiny
from transformer.tasks import losses

LAYERS, STEPS = 4, 150
KINDS = {
    "pre-norm": {"residual": "pre", "final_norm": True},
    "post-norm (the paper)": {"residual": "post", "final_norm": False},
    "no residuals": {"residual": "none", "final_norm": False},
}


def translations() -> tuple[dict, int]:
    """Returns Korean and then English as one text a row, the English to be predicted."""
    pairs = tiny.sentence_pairs()
    pieces = tiny.vocabulary(pairs)
    korean, english = (np.array(pieces.encode(side), np.int32) for side in zip(*pairs, strict=True))
    ids = np.concatenate([korean, english[:, :-1]], axis=1)  # without the English </s>
    tokens, targets = ids[:, :-1], ids[:, 1:]
    positions = np.broadcast_to(np.arange(tokens.shape[1], dtype=np.int32), tokens.shape)
    inputs = {"tokens": tokens, "positions": positions, "segments": np.ones_like(tokens)}
    weights = np.float32(positions >= korean.shape[1] - 1)  # from Korean's </s> on
    return {"inputs": inputs, "targets": targets, "weights": weights}, len(pieces)


def without(params: tiny.Tree, left_out: int) -> tiny.Tree:
    """Returns the params of a model that lacks one layer."""
    decoder = dict(params["decoder"])
    layers = [decoder.pop(f"layers_{i}") for i in range(LAYERS)]
    del layers[left_out]
    return {**params, "decoder": decoder | {f"layers_{i}": p for i, p in enumerate(layers)}}


def show() -> picture.Chart:
    """Returns the share of words said right by trained models, whole and without each layer."""
    batch, vocab_size = translations()
    rows = []
    print(
        f"{'words said right':24}   whole" + "".join(f"{f'no {i + 1}':>8}" for i in range(LAYERS))
    )
    for kind, changes in KINDS.items():
        build = functools.partial(tiny.language_model, vocab_size, **changes)
        whole = build(num_layers=LAYERS)
        params, _ = tiny.train(whole, itertools.repeat(batch), steps=STEPS, rate=5e-3)

        @functools.partial(jax.jit, static_argnames="model")
        def score(params: tiny.Tree, model: object) -> jax.Array:
            sums = losses.token_loss(params, batch, model=model, rng=jax.random.key(0), **tiny.LOSS)
            return sums["accuracy"] / sums["weight"]

        shares = {"none": float(score(params, whole))}
        shorter = build(num_layers=LAYERS - 1)
        for i in range(LAYERS):
            shares[f"layer {i + 1}"] = float(score(without(params, i), shorter))
        print(f"{kind:24}" + "".join(f"{share:8.0%}" for share in shares.values()))
        rows += [{"kind": kind, "left out": layer, "right": x} for layer, x in shares.items()]
    return {
        "title": "Words said right with one layer left out",
        **{"width": 440, "height": 200, "data": {"values": rows}, "mark": "bar"},
        "encoding": {
            "x": {"field": "left out", "sort": None, "axis": {"labelAngle": 0}},
            "xOffset": {"field": "kind", "sort": None},
            "y": {"field": "right", "type": "quantitative", "title": None, "axis": {"format": "%"}},
            "color": {"field": "kind", "type": "nominal", "sort": None, "title": None},
        },
    }
