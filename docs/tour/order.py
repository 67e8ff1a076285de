"""A task that needs positions: who sees whom."""

import functools
import itertools

import flax.linen as nn
import jax
import numpy as np

from docs.tour import picture, tiny

NOUNS = {
    **{"dog": ("개가", "개를"), "cat": ("고양이가", "고양이를"), "bird": ("새가", "새를")},
    **{"bear": ("곰이", "곰을"), "boy": ("소년이", "소년을"), "girl": ("소녀가", "소녀를")},
}
KINDS = {"none": "none", "sinusoids": "interleaved"}  # {in the picture: of config.model.positions}
VERBS = {"sees": "봐", "helps": "도와", "chases": "쫓아"}


def sentence_pairs() -> list[tuple[str, str]]:
    """Returns 90 Korean and English sentences: who sees, helps or chases whom."""
    cases = itertools.product(itertools.permutations(NOUNS, 2), VERBS)
    return [
        (f"{NOUNS[a][0]} {NOUNS[b][1]} {VERBS[verb]}", f"the {a} {verb} the {b}")
        for (a, b), verb in cases
    ]


def learn(model: nn.Module, batch: dict, steps: int = 120) -> tuple[tiny.Tree, float]:
    """Trains on one batch of sentence pairs; returns the params and the share that is right."""
    params, _ = tiny.train(model, itertools.repeat(batch), steps=steps, rate=5e-3)
    forward = jax.jit(functools.partial(model.apply, {"params": params}, train=False))
    right = forward(**batch["inputs"]).argmax(-1) == batch["targets"]
    return params, float(np.all(right | (batch["weights"] == 0), axis=1).mean())


def show() -> picture.Chart:
    """Trains in both directions, with and without positions; returns the sentences said right."""
    korean_english = sentence_pairs()
    pieces = tiny.vocabulary(korean_english, size=408)
    directions = {
        "Korean to English": korean_english,
        "English to Korean": [(english, korean) for korean, english in korean_english],
    }
    rows = []
    for direction, kind in itertools.product(directions, KINDS):
        batch = tiny.batch_of(pieces, directions[direction])
        _, share = learn(tiny.transformer(len(pieces), positions=KINDS[kind]), batch)
        print(f"{direction}, positions {kind:12} {share:6.1%} of the sentences right")
        rows.append({"direction": direction, "positions": kind, "right": share})
    return {
        "title": "Sentences said right, of those trained on",
        **{"width": 300, "height": 200, "data": {"values": rows}, "mark": "bar"},
        "encoding": {
            "x": {"field": "direction", "sort": None, "axis": {"labelAngle": 0, "title": None}},
            "xOffset": {"field": "positions", "sort": None},
            "y": {"field": "right", "type": "quantitative", "title": None, "axis": {"format": "%"}},
            "color": {"field": "positions", "type": "nominal", "sort": None},
        },
    }
