"""The causal mask: without it, each position sees the token that it should predict."""

import functools
import itertools

import flax.linen as nn
import jax
import numpy as np

from docs.tour import picture, tiny

FLOOR = (np.log(4) + np.log(9)) / 4  # nats a token: four subjects, nine objects, then no choice


def inputs_of(data: dict, masked: bool, segments: np.ndarray) -> dict:
    """Returns the inputs of a GPT, or of a BERT that is to predict at every position."""
    inputs = {"positions": data["positions"], "segments": segments}
    if masked:
        return inputs | {"tokens": data["tokens"]}
    return inputs | {"ids": data["tokens"], "masked": data["positions"]}


def measure(model: nn.Module, masked: bool, data: dict) -> tuple[float, float, np.ndarray]:
    """Trains; returns the loss in training, when generating, and what depends on which token.

    When generating, position t is given the tokens up to t and nothing of those behind.
    """
    whole = np.ones_like(data["tokens"])
    batch = {"inputs": inputs_of(data, masked, whole), "targets": data["targets"]}
    batch["weights"] = whole.astype(np.float32)
    params, history = tiny.train(model, itertools.repeat(batch), steps=200, rate=5e-3)
    apply = jax.jit(functools.partial(model.apply, {"params": params}, train=False))
    p = lambda data, segments: jax.nn.softmax(apply(**inputs_of(data, masked, segments)))
    seen, T = p(data, whole), data["tokens"].shape[1]

    parts = [p(data, (data["positions"] <= t).astype(np.int32))[:, t] for t in range(T)]
    alone = np.take_along_axis(np.stack(parts, axis=1), data["targets"][..., None], axis=-1)
    influence_TS = np.zeros((T, T))
    for s in range(1, T):  # another sentence's token in the place of token s
        tokens = data["tokens"].copy()
        tokens[:, s] = np.roll(tokens[:, s], 13)
        changed = np.abs(p({**data, "tokens": tokens}, whole) - seen).sum(axis=-1) / 2
        influence_TS[:, s] = changed.mean(axis=0)
    return history[-1]["nats_per_token"], float(-np.log(alone).mean()), influence_TS


def show() -> picture.Chart:
    """Returns which input each prediction depends on, and the losses, with and without a mask."""
    pieces = tiny.vocabulary(tiny.clauses(), size=350)
    data = tiny.next_tokens(pieces, tiny.clauses())
    inputs, targets = (tiny.names(pieces, data[side][0]) for side in ("tokens", "targets"))
    build = {"causal mask": tiny.language_model, "no mask": tiny.masked_language_model}
    maps, bars = [], []
    print(f"at least {FLOOR:.3f} nats a token can be reached\n")
    for name, make in build.items():
        model = make(len(pieces))
        trained, alone, influence_TS = measure(model, name == "causal mask", data)
        print(f"{name:12} training {trained:.3f}   generating {alone:.3f} nats a token")
        bars += [{"model": name, "when": "training", "nats": trained}]
        bars += [{"model": name, "when": "generating", "nats": alone}]
        rows = [
            {"change of": inputs[s], "prediction of": targets[t], "TV": influence_TS[t, s]}
            for t, s in itertools.product(range(len(targets)), range(1, len(inputs)))
        ]
        size = {"width": 190, "height": 180, "title": f"{name}: how far P moves"}
        maps.append(picture.heatmap(rows, "change of", "prediction of", "TV", **size))
    nats = {"field": "nats", "type": "quantitative", "title": "nats a token"}
    encoding = {
        "x": {"field": "when", "type": "nominal", "sort": None, "axis": {"labelAngle": 0}},
        "xOffset": {"field": "model", "sort": None},
        "y": nats,
        "color": {"field": "model", "type": "nominal", "sort": None},
    }
    losses_chart = {"width": 180, "height": 180, "title": "Loss", "data": {"values": bars}}
    return {"hconcat": [*maps, {**losses_chart, "mark": "bar", "encoding": encoding}]}
