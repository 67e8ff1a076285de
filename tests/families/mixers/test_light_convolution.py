"""Lightweight and dynamic convolutions, against a loop over positions, channels and taps."""

import dataclasses
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from families.mixers.short_texts import (
    OPTIONS,
    D,
    H,
    assert_is_the_loop,
    mix,
    params_of,
    rows,
    taps,
)

from transformer.errors import UserError
from transformer.families.mixers.light_convolution import (
    DynamicConvolution,
    LightConvolution,
    sum_taps,
)

KINDS = pytest.mark.parametrize("kind", [LightConvolution, DynamicConvolution])


def mixer_of(kind, width, causal=True, **changes):
    options = dataclasses.replace(OPTIONS, **{"attention_dropout_rate": 0.0, **changes})
    return kind(options=options, causal=causal, dtype=jnp.dtype("float32"), width=width)


def linear(params, x):
    kernel, bias = (np.asarray(params[name], np.float64) for name in ("kernel", "bias"))
    return x.astype(np.float64) @ kernel + bias


def gated(params, x):
    """What is convolved."""
    both = linear(params["inner"], x)
    return both[..., :D] / (1 + np.exp(-both[..., D:]))


def weights_at(params, vector):
    """The weights [J, H] at a position whose gated input is `vector`."""
    scores = params["weights"]
    if isinstance(scores, dict):
        scores = (vector @ np.asarray(scores["kernel"], np.float64)).reshape(-1, H)
    scores = np.exp(np.asarray(scores, np.float64))
    return scores / scores.sum(axis=0)


def naive(params, x, offsets):
    """The paper's sums in float64, channel by channel."""
    h = gated(params, x)
    y = np.zeros(x.shape)
    for b, t, read in taps(offsets):
        weights = weights_at(params, h[b, t])
        for c, (j, s) in itertools.product(range(D), read):
            y[b, t, c] += weights[j, c * H // D] * h[b, s, c]
    return linear(params["outer"], y)


@pytest.mark.parametrize(
    ("width", "causal", "offsets"),
    [
        (1, True, [0]),
        (3, True, [-2, -1, 0]),
        (3, False, [-1, 0, 1]),
        (4, False, [-2, -1, 0, 1]),
        (25, False, range(-12, 13)),  # wider than the row
    ],
)
@KINDS
def test_it_is_the_loop_of_the_paper(kind, width, causal, offsets):
    assert_is_the_loop(mixer_of(kind, width, causal), naive, offsets, atol=1e-5)


@KINDS
def test_normalised_weights_are_dropped_in_training(kind):
    """Half of them; the others are doubled. Of shared weights, the same ones at all positions."""
    J, (x, view) = 3, rows()
    mixer = mixer_of(kind, J, attention_dropout_rate=0.5)
    params = params_of(mixer)
    params["outer"] = {"kernel": np.eye(D, dtype=np.float32), "bias": np.zeros(D, np.float32)}
    rngs = {"dropout": jax.random.key(3)}
    y = mixer.apply({"params": params}, x, view, train=True, rngs=rngs)[1].reshape(-1, H, D // H)
    h = gated(params, x)[1]
    subsets, drawn = np.array([*itertools.product([0, 2], repeat=J)]), set()
    for t, head in itertools.product(range(J - 1, len(h)), range(H)):
        weights = weights_at(params, h[t])[:, head]
        taps = h[t - J + 1 : t + 1].reshape(J, H, -1)[:, head]
        errors = np.abs(y[t, head] - (subsets * weights) @ taps).max(axis=1)
        assert errors.min() < 1e-5, f"y at {t} is the sum of no set of taps"
        drawn.add((head, int(errors.argmin())))
    assert (len(drawn) == H) == (kind is LightConvolution)
    assert np.array_equal(mix(mixer, params, x, view), mix(mixer_of(kind, J), params, x, view))


@pytest.mark.parametrize("J", [1, 2, 5, 12])
def test_the_gradient_of_a_sum_of_taps_is_that_of_autodiff(J):
    B, T, C, random = 2, 8, 3, np.random.default_rng(0)
    draw = lambda *shape: random.standard_normal(shape).astype(np.float32)
    weights, x, gradient = draw(B, T, J, H), draw(B, T + J - 1, H, C), draw(B, T, H, C)

    def product(weights, x):
        taps = jnp.stack([x[:, j : j + T] for j in range(J)], axis=2)
        return jnp.einsum("BTJH,BTJHC->BTHC", weights, taps)

    expected, backward = jax.vjp(product, weights, x)
    y, written_out = jax.vjp(sum_taps, weights, x)
    np.testing.assert_allclose(y, expected, atol=1e-5)
    for actual, right in zip(written_out(gradient), backward(gradient), strict=True):
        np.testing.assert_allclose(actual, right, atol=1e-5)


def test_taps_in_bfloat16_are_summed_in_float32():
    """256 and eight times 1: in bfloat16 256 + 1 is 256."""
    x = jnp.ones((1, 9, 1, 1), jnp.bfloat16).at[:, 0].set(256)
    y, backward = jax.vjp(sum_taps, jnp.ones((1, 1, 9, 1)), x)
    assert (y.dtype, float(y[0, 0, 0, 0])) == (jnp.bfloat16, 264)
    assert [gradient.dtype for gradient in backward(y)] == [jnp.float32, jnp.bfloat16]


@KINDS
def test_wrong_sizes_are_the_users_mistake(kind):
    with pytest.raises(UserError, match=r"d_model=16 must be a multiple of .*num_heads=3"):
        mixer_of(kind, 3, num_heads=3).init(jax.random.key(0), *rows(), train=False)
