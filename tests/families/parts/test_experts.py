"""A mixture of experts against a loop over tokens."""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import tiny
from helpers.layers import randomised

from transformer.families.parts.experts import Experts
from transformer.models.masks import View
from transformer.tasks import losses

OPTIONS = tiny.model(num_layers=1).options
D, E = OPTIONS.d_model, 3
SEGMENTS = np.array([[1] * 7 + [2] * 4 + [0], [1] * 2 + [0] * 10])
ALL, SOME = (4.0, 0.5)  # capacities: room for all tokens of a row, and for two an expert


def experts(capacity=SOME, **changes):
    return Experts(OPTIONS, jnp.float32, count=E, capacity=capacity, **changes)


def draw(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal((*shape, D)).astype(np.float32)


def view_of(segments):
    return View(None, None, None, jnp.asarray(segments))


def params_of(module):
    init = functools.partial(module.init, train=False)
    params = randomised(init(jax.random.key(0), draw(1, 2), view_of([[1, 1]]))["params"])
    return {**params, "router": {"kernel": 5 * params["router"]["kernel"]}}


@functools.partial(tiny.jit, static_argnames=("module", "train"))
def run(module, params, x, view, train):
    """Returns the output, and the loss sown for each row."""
    y, sown = module.apply({"params": params}, x, view, train=train, mutable=["losses"])
    return y, sown["losses"]["balance"][0]


def looped(params, x, segments, room, balance):
    """Fedus et al. 2021, equations 1 to 6, token by token; and how many found no room."""
    p = jax.tree.map(np.float64, params)
    inner, outer = p["experts"]["inner"], p["experts"]["outer"]
    y, loss, dropped = np.zeros(x.shape), np.zeros(len(x)), 0
    for b in range(len(x)):
        tokens, f, P, used = np.flatnonzero(segments[b]), np.zeros(E), np.zeros(E), [0] * E
        for t in tokens:
            h = x[b, t] @ p["router"]["kernel"]
            probabilities = np.exp(h) / np.exp(h).sum()
            i = probabilities.argmax()
            f[i] += 1 / len(tokens)
            P += probabilities / len(tokens)
            used[i] += 1
            dropped += used[i] > room
            if used[i] <= room:
                activations = np.maximum(x[b, t] @ inner["kernel"][i] + inner["bias"][i], 0)
                output = activations @ outer["kernel"][i] + outer["bias"][i]
                y[b, t] = probabilities[i] * output
        loss[b] = balance * E * (f @ P) * len(tokens)
    return y, loss, dropped


@pytest.mark.parametrize(("capacity", "train"), [(ALL, True), (SOME, True), (SOME, False)])
def test_it_is_the_loop_of_the_paper(capacity, train):
    """Later tokens find no room, in training alone; rows, texts of a row and padding are apart."""
    module, x, T = experts(capacity, balance=0.3), draw(*SEGMENTS.shape), SEGMENTS.shape[1]
    params = params_of(module)
    room = math.ceil(capacity * T / E) if train else T
    *expected, dropped = looped(params, x, SEGMENTS, room, 0.3)
    outputs = run(module, params, x, view_of(SEGMENTS), train)
    for actual, right in zip(outputs, expected, strict=True):
        np.testing.assert_allclose(actual, right, atol=1e-5)
    assert (dropped > 2) == (train and capacity == SOME)
    if not dropped:  # a row without segments is one text
        whole = run(module, params, x, View(None, None, None), train)[0]
        np.testing.assert_allclose(whole[SEGMENTS > 0], outputs[0][SEGMENTS > 0], atol=1e-6)


def test_the_balance_of_all_layers_is_in_the_loss_of_a_model():
    model = tiny.model(feed_forward="experts(count=3, balance=0.1)", num_layers=1)
    batch = tiny.batch([tiny.pairs(), [], tiny.pairs(seed=1)], 14, 14)
    sums = functools.partial(losses.token_loss, model=model, blocks=2, **tiny.SMOOTHING)
    logged = tiny.jit(sums)(tiny.parameters(model, batch["inputs"]), batch, rng=jax.random.key(0))
    # Of two layers, each 1 or more a token.
    assert logged["balance"] / logged["weight"] > 2 * 0.1
    assert logged["loss"] > logged["balance"]
