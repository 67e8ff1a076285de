"""Score functions: their formulas, and why the paper scales."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from transformer import registry
from transformer.models import boxes

SCORES = [*registry.PARTS["score"]]

B, T, S, H, K = 2, 3, 4, 2, 5


def draw(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def formula(kind, params, q_K, k_K, head):
    """The score of one query and one key, by the papers' equations."""
    if kind == "dot":
        return q_K @ k_K
    if kind == "scaled_dot":
        return q_K @ k_K / np.sqrt(len(q_K))
    if kind == "general":
        return q_K @ params["w"][head] @ k_K
    if kind == "additive":
        return params["v"][head] @ np.tanh(q_K + k_K)
    if kind == "normalised":
        q_K, k_K = (
            (x - x.mean()) / np.sqrt(x.var() + 1e-6) * params[name]["scale"]
            for name, x in (("query", q_K), ("key", k_K))
        )
        return q_K @ k_K / np.sqrt(len(q_K))
    cosine = q_K @ k_K / np.linalg.norm(q_K) / np.linalg.norm(k_K)
    return params["g"][head, 0] * cosine


@pytest.mark.parametrize("kind", SCORES)
def test_scores_are_those_of_the_equation(kind):
    q_BTHK, k_BHKS = draw(B, T, H, K), draw(B, H, K, S, seed=1)
    score = boxes.part("score", kind)()
    params = score.init(jax.random.key(0), q_BTHK, k_BHKS).get("params", {})
    params = jax.tree.map(lambda x: x + 0.3, params)
    scores = score.apply({"params": params}, q_BTHK, k_BHKS)
    assert scores.shape == (B, H, T, S)
    low = (x.astype(jnp.bfloat16) for x in (q_BTHK, k_BHKS))
    assert score.apply({"params": params}, *low).dtype == jnp.float32
    for b, h, t, s in np.ndindex(scores.shape):
        expected = formula(kind, jax.device_get(params), q_BTHK[b, t, h], k_BHKS[b, h, :, s], h)
        assert scores[b, h, t, s] == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("kind", SCORES)
def test_gradients_are_finite_for_zero_vectors(kind):
    q_BTHK, k_BHKS = jnp.zeros((B, T, H, K)), jnp.zeros((B, H, K, S))
    score = boxes.part("score", kind)()
    params = score.init(jax.random.key(0), q_BTHK, k_BHKS)
    total = lambda q, k: score.apply(params, q, k).sum()
    for gradient in jax.grad(total, argnums=(0, 1))(q_BTHK, k_BHKS):
        assert jnp.isfinite(gradient).all()


def softmax_at(kind, width, keys=64, queries=256):
    """The scores' variance, the softmax's mean largest weight and its gradient's size.

    Of queries and keys whose components are independent with mean 0 and variance 1, as the paper
    assumes (3.2.1, footnote 4).
    """
    q_BTHK, k_BHKS = draw(1, queries, 1, width), draw(1, 1, width, keys, seed=1)
    scores = boxes.part("score", kind)().apply({}, q_BTHK, k_BHKS)[0, 0]
    weights = jax.nn.softmax(scores, axis=-1)
    jacobian = jax.vmap(jax.jacobian(jax.nn.softmax))(scores)
    size = jnp.sqrt((jacobian**2).sum(axis=(1, 2))).mean()
    return float(scores.var()), float(weights.max(axis=-1).mean()), float(size)


def test_scaling_keeps_the_variance_and_the_gradient_of_the_softmax():
    """Paper 3.2.1: for large K the dot products push the softmax to where its gradient is small."""
    variance, largest, gradient = softmax_at("scaled_dot", 512)
    assert variance == pytest.approx(1, rel=0.1)
    assert largest < 0.2
    unscaled_variance, unscaled_largest, unscaled_gradient = softmax_at("dot", 512)
    assert unscaled_variance == pytest.approx(512, rel=0.1)
    assert unscaled_largest > 0.9
    assert unscaled_gradient < 0.5 * gradient
