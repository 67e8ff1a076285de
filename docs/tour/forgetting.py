"""What is left of a letter in a recurrent network's last state, by how long ago it was read."""

import functools
import itertools
from collections.abc import Callable, Iterable, Iterator

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from jax import random

from docs.tour import picture, tiny
from transformer.families.recurrent.cells import Cell
from transformer.models.attention import SelfAttention
from transformer.models.masks import self_view
from transformer.models.positions import sinusoids
from transformer.tools.pages import charts

LETTERS, D, LENGTH = 10, 32, 12
FAR, SHOWN = 64, (0, 4, 16, 32, 63)  # of the gradients
CELLS = {
    "tanh": Cell("rnn", D, 0.0),
    "ReLU": Cell("relu", D, 0.0),
    "GRU": Cell("gru", D, 0.0),
    "LSTM, forget bias 1": Cell("lstm", D, 1.0),
    "LSTM, forget bias 0": Cell("lstm", D, 0.0),
    "tanh, normalised": Cell("rnn", D, 0.0, normalised=True),
    "LSTM, normalised": Cell("lstm", D, 1.0, normalised=True),
}
ACTIVATIONS = {"tanh": jnp.tanh, "ReLU": nn.relu, "GELU": nn.gelu}
TRAINED = ("tanh", "ReLU", "GRU", "LSTM, forget bias 1")
COLOUR = charts.CATEGORIES["light"]
COLOURS = [*COLOUR[:4], COLOUR[3], COLOUR[0], COLOUR[3], "black"]
DASHES = [[1, 0]] * 4 + [[2, 2]] + [[6, 3]] * 2 + [[1, 0]]


class Attention(nn.Module):
    """Self-attention of one head: its last position is the query, and all others are keys."""

    @nn.compact
    def __call__(self, x_BTD: jax.Array) -> jax.Array:
        positions_BT = jnp.broadcast_to(jnp.arange(x_BTD.shape[1]), x_BTD.shape[:2])
        view = self_view(positions_BT, jnp.ones_like(positions_BT), causal=True)
        options = tiny.language_model(LETTERS, num_heads=1, d_model=D).options
        x_BTD += sinusoids(positions_BT, D)
        return SelfAttention(options, True, jnp.float32)(x_BTD, view, train=False)


class Reader(nn.Module):
    """Reads a row of letters, then says the letter of every place from the last state alone."""

    reader: nn.Module

    @nn.compact
    def __call__(self, ids_BT: jax.Array, *, train: bool) -> jax.Array:
        del train
        last_BD = self.reader(nn.Embed(LETTERS, D)(ids_BT))[:, -1]
        return nn.DenseGeneral((LENGTH, LETTERS))(last_BD)


def both_ways(cell: Cell) -> nn.Module:
    """Returns a network of two directions of half the width; last, each has read the whole row."""
    half = lambda: nn.RNN(cell.clone(features=D // 2))
    join = lambda forward, backward: jnp.concatenate([forward, backward[:, ::-1]], axis=-1)
    return nn.Bidirectional(half(), half(), merge_fn=join)


def batches(seed: int, count: int) -> Iterator[dict]:
    """Yields rows of random letters, all of which are to be said."""
    draws = np.random.default_rng(seed)
    while True:
        ids_BT = draws.integers(0, LETTERS, (count, LENGTH)).astype(np.int32)
        yield {"inputs": {"ids_BT": ids_BT}, "targets": ids_BT, "weights": np.ones_like(ids_BT)}


def gradient(reader: nn.Module) -> np.ndarray:
    """Returns |d last state / d letter| before training, by letters ago, relative to the last's."""
    x_BTD = random.normal(random.key(1), (32, FAR, D)) * D**-0.5  # as of an embedding
    params = jax.jit(reader.init)(random.key(0), x_BTD)
    direction_D = random.normal(random.key(2), D)
    along = lambda x_BTD: (reader.apply(params, x_BTD)[:, -1] @ direction_D).sum()
    norms_T = np.linalg.norm(jax.jit(jax.grad(along))(x_BTD), axis=-1).mean(axis=0)[::-1]
    return norms_T / norms_T[0]


def accuracy(reader: nn.Module) -> np.ndarray:
    """Trains for 400 steps; returns the share of letters said right, by letters ago."""
    params, _ = tiny.train(model := Reader(reader), batches(0, 64), steps=400, rate=1e-2)
    ids_BT = next(batches(1, 2_000))["targets"]
    logits_BTV = jax.jit(functools.partial(model.apply, {"params": params}, train=False))(ids_BT)
    return (logits_BTV.argmax(axis=-1) == ids_BT).mean(axis=0)[::-1]


def chart(title: str, curves: dict, shown: Iterable[int], y: picture.Chart) -> picture.Chart:
    """Prints some points of the curves by letters ago, and returns their chart."""
    print(f"{title:32}" + "".join(f"{k:7}" for k in shown), "letters ago")
    for name, curve in curves.items():
        print(f"{name:32}" + "".join(f"{curve[k]:7{y['axis']['format']}}" for k in shown))
    points = [(name, k, float(y)) for name in curves for k, y in enumerate(curves[name])]
    names = [*CELLS, "attention"]
    style = lambda values: {"field": "reader", "scale": {"domain": names, "range": values}}
    encoding = {
        "x": {"field": "letters ago", "type": "quantitative"},
        "y": {"field": "y", "type": "quantitative", "title": None, **y},
        "color": {**style(COLOURS), "title": None, "legend": {"orient": "right"}},
        "strokeDash": {**style(DASHES), "title": None},
    }
    values = [dict(zip(("reader", "letters ago", "y"), point, strict=True)) for point in points]
    size = {"title": title, "width": 160, "height": 220, "data": {"values": values}}
    return {**size, "mark": "line", "encoding": encoding}


def saturation() -> picture.Chart:
    """Returns tanh and its slope, a factor of the gradient: beyond 2.5 it is nearly 0."""
    curves = {"tanh x": np.tanh, "its slope": lambda x: 1 - np.tanh(x) ** 2}
    print(f"the slope of tanh is {curves['its slope'](2.5):.2f} at 2.5")
    values = np.linspace(-4, 4, 81)
    rows = [{"x": x, "y": y(x), "of": name} for name, y in curves.items() for x in values]
    place = {axis: {"field": axis, "type": "quantitative", "title": None} for axis in "xy"}
    color = {"color": {"field": "of", "sort": None, "title": None}}
    line = {"mark": "line", "encoding": {**place, **color}}
    marked = [{"mark": "rule", "encoding": {"x": {"datum": x}}} for x in (-2.5, 2.5)]
    size = {"title": "tanh is flat beyond 2.5", "width": 360, "height": 120}
    return {**size, "data": {"values": rows}, "layer": [line, *marked]}


def norms(activation: Callable, factor: float) -> list[float]:
    """Returns |h| by letters read, where U is `factor` times an orthogonal matrix."""
    x_BTD = random.normal(random.key(1), (32, FAR, D)) * D**-0.5
    W, U = (nn.initializers.orthogonal()(random.key(i), (D, D)) for i in range(2))
    step = lambda h, x_BD: (activation(x_BD @ W + h @ U * factor),) * 2
    _, h_TBD = jax.lax.scan(step, jnp.zeros((32, D)), x_BTD.swapaxes(0, 1))
    return jnp.linalg.norm(h_TBD, axis=-1).mean(axis=1).tolist()


def growth() -> picture.Chart:
    """Returns how long the state gets: if U doubles vectors, without end by ReLU and GELU."""
    rows = []
    for (name, activation), factor in itertools.product(ACTIVATIONS.items(), (1, 2)):
        lengths = norms(activation, factor)
        print(f"{name}, U times {factor}: norm {lengths[-1]:.2g} after {FAR} letters")
        of = {"of": name, "U": f"U × {factor}"}
        rows += [{**of, "letters read": k, "norm": y} for k, y in enumerate(lengths, start=1)]
    legend = {"title": None, "sort": None}
    encoding = {
        "x": {"field": "letters read", "type": "quantitative"},
        "y": {"field": "norm", "type": "quantitative", "title": None, "scale": {"type": "log"}},
        "color": {"field": "of", **legend},
        "strokeDash": {"field": "U", **legend},
    }
    encoding["y"]["axis"] = {"format": ".0e", "tickCount": 4}
    size = {"title": "Norm of the state", "width": 200, "height": 120}
    return {**size, "data": {"values": rows}, "mark": "line", "encoding": encoding}


def show() -> picture.Chart:
    """Returns tanh, norms and gradients before training, and what is said right after it."""
    networks = {name: nn.RNN(cell) for name, cell in CELLS.items()}
    gradients = {name: gradient(x) for name, x in {**networks, "attention": Attention()}.items()}
    one = {name: accuracy(networks[name]) for name in TRAINED}
    two = {name: accuracy(both_ways(CELLS[name])) for name in TRAINED}
    log = {"scale": {"type": "log", "domain": [1e-9, 1e2]}, "axis": {"format": ".0e", "grid": True}}
    share = {"scale": {"domain": [0, 1]}, "axis": {"format": ".0%", "grid": True}}
    log["title"] = "of the last letter's"
    left = chart("Gradient before training", gradients, SHOWN, log)
    middle = chart("Said right, one direction", one, range(LENGTH), share)
    right = chart("Said right, two directions", two, range(LENGTH), share)
    own = {"resolve": {"scale": {"color": "independent", "strokeDash": "independent"}}}
    rows = [{"hconcat": [saturation(), growth()], **own}, {"hconcat": [left, middle, right]}]
    return {"vconcat": rows, **own}
