"""The feed-forward network and the residual connection against the paper's formulas."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers.cases import registered
from helpers.layers import paper, randomised
from scipy import stats

from transformer.models import boxes, dense

D, F = 64, 96


def layer(box, **changes):
    options = paper(**{"d_model": D, "d_ff": F, "dropout_rate": 0.0, **changes})
    return boxes.part(box, getattr(options, box), options=options, dtype=jnp.float32)()


@pytest.mark.parametrize("name", registered("feed_forward", "relu", "gelu", "gated"))
def test_feed_forward_is_equation_2(name):
    """With a gate, Shazeer 2020, equation 6, with biases: GLU by its sigmoid."""
    x = np.random.default_rng(5).standard_normal((2, 3, D)).astype(np.float32)
    part = "gated(activation='sigmoid')" if name == "gated" else name
    module = layer("feed_forward", feed_forward=part)
    variables = randomised(module.init(jax.random.key(0), x, None, train=False))
    p = variables["params"]
    linear = lambda name, x: np.float64(x) @ p[name]["kernel"] + p[name]["bias"]
    h = linear("inner", x)
    if name == "gated":
        h = 1 / (1 + np.exp(-h)) * linear("gate", x)
    else:
        h = np.maximum(h, 0) if name == "relu" else h * stats.norm.cdf(h)
    expected = linear("outer", h)
    np.testing.assert_allclose(module.apply(variables, x, None, train=False), expected, atol=2e-5)


def test_gelu_and_its_gradient_are_exact():
    x = np.linspace(-9, 9, 1001, dtype=np.float32)
    gelu = dense.gelu
    phi, density = stats.norm.cdf(np.float64(x)), stats.norm.pdf(np.float64(x))
    np.testing.assert_allclose(gelu(x), x * phi, rtol=3e-7, atol=1e-6)
    gradient = jax.grad(lambda x: gelu(x).sum())(x)
    np.testing.assert_allclose(gradient, phi + x * density, rtol=3e-7, atol=1e-6)
    # Of bfloat16, 8 digits of the result are right: no number on the way is rounded to them.
    x = jnp.asarray(x, jnp.bfloat16)
    phi = stats.norm.cdf(np.float64(x))
    assert gelu(x).dtype == jnp.bfloat16
    np.testing.assert_allclose(np.float64(gelu(x)), np.float64(x) * phi, rtol=2**-8, atol=1e-6)


@pytest.mark.parametrize("kind", registered("norm", "layer", "rms", "none"))
@pytest.mark.parametrize("residual", registered("residual", "post", "pre", "none"))
def test_residual_puts_the_norm_where_it_says(residual, kind):
    epsilon = 0.1  # large, so that it shows
    x = np.random.default_rng(6).standard_normal((2, 3, D)) + 0.5
    sub_layer = lambda x: 0.5 * x**2 - x
    norm = kind if kind == "none" else f"{kind}(epsilon={epsilon})"
    module = layer("residual", residual=residual, norm=norm)
    run = lambda module, x: module(x, sub_layer, train=False)

    x32 = jnp.asarray(x, jnp.float32)
    variables = randomised(module.init(jax.random.key(0), x32, method=run))
    p = variables.get("params", {}).get(f"{kind}_norm", {})

    def normalise(x):
        if kind == "none":
            return x
        if kind == "rms":  # Zhang and Sennrich 2019, equation 4
            return x / np.sqrt((x**2).mean(axis=-1, keepdims=True) + epsilon) * p["scale"]
        deviation = x - x.mean(axis=-1, keepdims=True)
        return deviation / np.sqrt(x.var(axis=-1, keepdims=True) + epsilon) * p["scale"] + p["bias"]

    expected = {
        "post": normalise(x + sub_layer(x)),
        "pre": x + sub_layer(normalise(x)),
        "none": normalise(sub_layer(x)),
    }[residual]
    np.testing.assert_allclose(module.apply(variables, x32, method=run), expected, atol=2e-5)


def test_dropout_drops_the_sub_layers_output_and_keeps_its_mean():
    module = layer("residual", residual="pre", dropout_rate=0.25)
    x, y = jnp.full((40, 50, D), 3.0), jnp.ones((40, 50, D))
    variables = module.init(jax.random.key(0), x, lambda _: y, train=False)
    run = functools.partial(module.apply, variables, x, lambda _: y)
    dropped = run(train=True, rngs={"dropout": jax.random.key(0)})
    np.testing.assert_allclose(np.unique(dropped), [3, 3 + 1 / 0.75])
    assert float(dropped.mean()) == pytest.approx(3 + 1, abs=0.01)
    np.testing.assert_array_equal(run(train=False), x + y)


def test_feed_forward_dropout_is_inside():
    """All of d_ff dropped leaves the outer bias."""
    module = layer("feed_forward", activation_dropout_rate=1.0)
    x = jnp.ones((1, 2, D))
    variables = randomised(module.init(jax.random.key(0), x, None, train=False))
    got = module.apply(variables, x, None, train=True, rngs={"dropout": jax.random.key(0)})
    bias = variables["params"]["outer"]["bias"]
    np.testing.assert_allclose(got, jnp.broadcast_to(bias, got.shape), atol=1e-6)
    assert np.abs(module.apply(variables, x, None, train=False) - bias).max() > 1e-2
