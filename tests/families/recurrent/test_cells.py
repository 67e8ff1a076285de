"""The cells are the papers' equations, normalised or not."""

import jax
import numpy as np
import pytest

from transformer.families.recurrent.cells import GATES, Cell

D, C = 3, 5
CARRY, X = (np.full((2, C), 0.7, np.float32), np.full((2, C), -0.2, np.float32)), np.ones((2, D))


def cell_of(kind, **options):
    """A cell, its carry, and params of which none is zero."""
    cell, carry = Cell(kind, C, 0.5, **options), CARRY if kind == "lstm" else CARRY[1]
    random = np.random.default_rng(0)
    noise = lambda p: p + 0.3 * random.standard_normal(p.shape).astype(np.float32)
    return cell, carry, jax.tree.map(noise, cell.init(jax.random.key(0), carry, X)["params"])


def test_the_map_of_each_gate_begins_orthogonal():
    for kind, count in GATES.items():
        cell, carry, _ = cell_of(kind)
        kernel = cell.init(jax.random.key(0), carry, X)["params"]["state"]["kernel"]
        for gate in np.split(np.asarray(kernel), count, axis=1):
            np.testing.assert_allclose(gate.T @ gate, np.eye(C), atol=1e-5)


@pytest.mark.parametrize("normalised", [False, True])
@pytest.mark.parametrize("kind", GATES)
def test_it_is_the_equations(kind, normalised):
    cell, carry, params = cell_of(kind, normalised=normalised)
    p = jax.tree.map(np.float64, params)
    linear = lambda side, x: x @ p[side]["kernel"] + p[side].get("bias", 0)
    sigmoid = lambda a: 1 / (1 + np.exp(-a))

    def norm(name, a):
        if not normalised:
            return a
        a = (a - a.mean(-1, keepdims=True)) / np.sqrt(a.var(-1, keepdims=True) + 1e-6)
        return a * p[name]["scale"] + p[name]["bias"]

    h = CARRY[1].astype(np.float64)
    x, u = linear("input", X), linear("state", h)
    if kind in ("rnn", "relu"):
        a = norm("norm", x + u)
        expected = np.tanh(a) if kind == "rnn" else np.maximum(a, 0)
    else:
        x, u = (
            np.split(y, GATES[kind], -1) for y in (norm("input_norm", x), norm("state_norm", u))
        )
    if kind == "gru":
        z, r = sigmoid(x[1] + u[1]), sigmoid(x[0] + u[0])
        expected = (1 - z) * np.tanh(x[2] + r * u[2]) + z * h
    if kind == "lstm":
        i, f, o, g = (a + b for a, b in zip(x, u, strict=True))
        c = sigmoid(f + 0.5) * CARRY[0] + sigmoid(i) * np.tanh(g)
        expected = sigmoid(o) * np.tanh(norm("memory_norm", c))
        np.testing.assert_allclose(cell.apply({"params": params}, carry, X)[0][0], c, atol=1e-5)
    np.testing.assert_allclose(cell.apply({"params": params}, carry, X)[1], expected, atol=1e-5)
