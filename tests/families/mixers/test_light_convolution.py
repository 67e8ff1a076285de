"""Lightweight and dynamic convolutions, against sums over their taps."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conformance.mixing import D, mix, row
from families.mixers import packed_texts
from families.mixers.packed_texts import linear, params_of, sigmoid, taps
from helpers import tiny

from transformer.errors import UserError
from transformer.families.mixers.light_convolution import sum_taps

H = tiny.ARGUMENTS["num_heads"]
KINDS = pytest.mark.parametrize("kind", ["light", "dynamic"])


def mixer_of(kind, width, causal=True, **changes):
    return packed_texts.mixer(f"{kind}_convolution(width={width})", causal, **changes)


def gated(p, x):
    """What is convolved."""
    a, b = np.split(linear(p["inner"], x), 2, axis=1)
    return a * sigmoid(b)


def weights_of(p, h):
    """The weights [T, J, H] of the taps, where the gated input is `h`."""
    scores = p["weights"]
    if isinstance(scores, dict):
        scores = (h @ scores["kernel"]).reshape(len(h), -1, H)
    scores = np.exp(scores)
    return np.broadcast_to(
        scores / scores.sum(axis=-2, keepdims=True), (len(h), *scores.shape[-2:])
    )


def naive(p, x, causal, width):
    """The paper's sums: the channels of a head share its weights."""
    h = gated(p, x)
    by_head = taps(h, width, causal).reshape(len(x), width, H, -1)
    summed = np.einsum("TJH,TJHC->THC", weights_of(p, h), by_head)
    return linear(p["outer"], summed.reshape(x.shape))


# Of 25 taps most texts are shorter.
@pytest.mark.parametrize(
    ("width", "causal"), [(1, True), (3, True), (3, False), (4, False), (25, False)]
)
@KINDS
def test_it_is_the_sums_of_the_paper(kind, width, causal):
    mixer = mixer_of(kind, width, causal)
    packed_texts.assert_is_the_loop(mixer, functools.partial(naive, width=width))


@KINDS
def test_normalised_weights_are_dropped_in_training(kind):
    """Half of them; the others are doubled. Of shared weights, the same ones at all positions."""
    J, (x, view) = 3, row([9], room=9)
    mixer = mixer_of(kind, J, attention_dropout_rate=0.5)
    params = params_of(mixer)
    params["outer"] = {"kernel": np.eye(D, dtype=np.float32), "bias": np.zeros(D, np.float32)}
    drop = functools.partial(mixer.apply, train=True, rngs={"dropout": jax.random.key(3)})
    y = drop({"params": params}, x, view)[0].reshape(9, H, -1)
    h = gated(params, x[0])
    weights_TJH, by_head = weights_of(params, h), taps(h, J, True).reshape(9, J, H, -1)
    subsets, drawn = np.array([*itertools.product([0, 2], repeat=J)]), set()
    for t, head in itertools.product(range(J - 1, 9), range(H)):
        sums = (subsets * weights_TJH[t, :, head]) @ by_head[t, :, head]
        errors = np.abs(y[t, head] - sums).max(axis=1)
        assert errors.min() < 1e-5, f"y at {t} is the sum of no set of taps"
        drawn.add((head, int(errors.argmin())))
    assert (len(drawn) == H) == (kind == "light")
    assert np.array_equal(mix(mixer, params, x, view), mix(mixer_of(kind, J), params, x, view))


@pytest.mark.slow
@pytest.mark.parametrize("J", [1, 2, 5, 12])
def test_the_gradient_of_a_sum_of_taps_is_that_of_autodiff(J):
    B, T, C, random = 2, 8, 3, np.random.default_rng(0)
    draw = lambda *shape: random.standard_normal(shape).astype(np.float32)
    weights, x, gradient = draw(B, T, J, H), draw(B, T + J - 1, H, C), draw(B, T, H, C)

    def product(weights, x):
        taps = jnp.stack([x[:, j : j + T] for j in range(J)], axis=2)
        return jnp.einsum("BTJH,BTJHC->BTHC", weights, taps)

    arrays = gradient, weights, x
    results = (tiny.output_and_gradients(f, *arrays) for f in (sum_taps, product))
    for actual, expected in zip(*results, strict=True):
        np.testing.assert_allclose(actual, expected, atol=1e-5)


def test_taps_in_bfloat16_are_summed_in_float32():
    """256 and eight times 1: in bfloat16 256 + 1 is 256."""
    x = jnp.ones((1, 9, 1, 1), jnp.bfloat16).at[:, 0].set(256)
    y, backward = jax.vjp(sum_taps, jnp.ones((1, 1, 9, 1)), x)
    assert (y.dtype, float(y[0, 0, 0, 0])) == (jnp.bfloat16, 264)
    assert [gradient.dtype for gradient in backward(y)] == [jnp.float32, jnp.bfloat16]


@KINDS
def test_heads_divide_the_channels(kind):
    with pytest.raises(UserError, match=r"d_model=16 must be a multiple of .*num_heads=3"):
        params_of(mixer_of(kind, 3, num_heads=3))
