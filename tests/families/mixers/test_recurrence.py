"""The LSTM layer against its equations, position by position."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from families.mixers import packed_texts
from families.mixers.packed_texts import sigmoid
from helpers import tiny

from transformer.errors import UserError
from transformer.families.mixers import recurrence

T = 7


def read(x_TD, kernel, bias, recurrent):
    """One direction of one text: h of each position."""
    c = h = np.zeros(len(recurrent))
    outputs = []
    for x in x_TD:
        i, f, o, g = np.split(x @ kernel + bias + h @ recurrent, 4)
        c = sigmoid(f + 0.5) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        outputs.append(h)
    return np.array(outputs)


def naive(p, x, causal):
    """The columns of an encoder are those of the forward direction, then of the backward one."""
    kernel, bias = p["input"]["kernel"], p["input"]["bias"]
    if causal:
        return read(x, kernel, bias, p["forward_recurrent"])
    half = 4 * len(p["forward_recurrent"])
    forward = read(x, kernel[:, :half], bias[:half], p["forward_recurrent"])
    backward = read(x[::-1], kernel[:, half:], bias[half:], p["backward_recurrent"])[::-1]
    return np.concatenate([forward, backward], axis=1)


@pytest.mark.parametrize("causal", [True, False])
def test_an_lstm_is_its_equations(causal):
    packed_texts.assert_is_the_loop(packed_texts.mixer("lstm(forget_bias=0.5)", causal), naive)


def test_the_gradients_are_those_of_autodiff():
    """With texts that start, and a state before the first position."""
    B, E, random = 2, 5, np.random.default_rng(0)
    normal = lambda *shape: jnp.asarray(random.standard_normal(shape), jnp.float32)
    starts_TB = jnp.asarray(random.random((T, B)) < 0.3)
    weights_TBE = normal(T, B, E)

    def loss(read, recurrent_EF, x_TBF, carry):
        y_TBE, (c_BE, h_BE) = read(0.5, recurrent_EF, x_TBF, starts_TB, carry)
        return (weights_TBE * y_TBE).sum() + jnp.sin(c_BE).sum() + (h_BE**2).sum()

    gradient = jax.value_and_grad(loss, argnums=(1, 2, 3))
    arguments = normal(E, 4 * E), normal(T, B, 4 * E), (normal(B, E), normal(B, E))
    assert starts_TB[0].any()
    assert starts_TB[1:].any()
    actual = gradient(recurrence.read_positions, *arguments)
    expected = gradient(recurrence.scan_positions, *arguments)
    for a, b in zip(jax.tree.leaves(actual), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-5)


def test_each_gate_begins_with_an_orthogonal_matrix():
    params = packed_texts.params_of(packed_texts.mixer("lstm"), noise=0)
    for gate in np.split(params["forward_recurrent"], 4, axis=1):
        np.testing.assert_allclose(gate @ gate.T, np.eye(len(gate)), atol=1e-5)


def test_an_encoder_needs_two_halves():
    mixer = recurrence.Lstm(tiny.model(d_model=5).options, False, jnp.float32, 1.0)
    with pytest.raises(UserError, match=r"config\.model\.d_model must be even"):
        mixer.init(np.array([0, 1], np.uint32), jnp.ones((1, 2, 5)), None, train=False)
