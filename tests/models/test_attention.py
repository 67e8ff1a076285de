"""Attention against the paper's formula written out in numpy."""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import tiny
from helpers.layers import paper, randomised

from transformer.families.parts import biases
from transformer.models import attention, masks

D, H, K, C = 64, 4, 8, 16
SIZES = {"d_model": D, "num_heads": H, "key_size": K, "value_size": C}


@pytest.fixture(scope="module")
def text():
    """x [2, 7, D]; a view of a mask with holes, of positions that are not the places in x."""
    random = np.random.default_rng(1)
    mask = random.random((2, 7, 7)) < 0.6
    mask[..., 3] = True
    queries, keys = jnp.asarray(random.integers(0, 20, (2, 2, 7)))
    x = random.standard_normal((2, 7, D)).astype(np.float32)
    return x, masks.View(jnp.asarray(mask), queries, keys)


def layer(x, view, dtype=jnp.float32, **changes):
    """A layer of self-attention, and random variables of it."""
    options = paper(**{"positions": "none", "attention_bias": True, **SIZES, **changes})
    module = attention.SelfAttention(options=options, causal=False, dtype=dtype)
    init = tiny.jit(functools.partial(module.init, train=False))
    return module, randomised({"params": init(jax.random.key(0), x, view)["params"]})


def apply(module, variables, x, view, train=False, **options):
    """Returns the output, and the weights that are sown."""
    run = functools.partial(module.apply, train=train, mutable="intermediates", **options)
    y, sown = tiny.jit(run)(variables, x, view)
    return y, sown["intermediates"]["attention"][0]


def projections(variables, x):
    """Returns the params in float64, and queries, keys and values, [B, T, H, K]."""
    p = jax.tree.map(lambda x: np.asarray(x, np.float64), variables["params"])
    project = lambda name: np.einsum("btd,dhk->bthk", x, p[name]["kernel"]) + p[name]["bias"]
    return p, *map(project, ("query", "key", "value"))


def naive_attention(q, k, v, mask):
    """softmax(q k^T / sqrt(d_k)) v of one head (equation 1), summed over the keys allowed."""
    context = np.zeros((len(q), v.shape[1]))
    for t in range(len(q)):
        allowed = [s for s in range(len(k)) if mask[t, s]]
        e = {s: math.exp(float(q[t] @ k[s]) / math.sqrt(q.shape[1])) for s in allowed}
        for s in allowed:
            context[t] += e[s] / sum(e.values()) * v[s]
    return context


def test_attention_is_the_papers_formula(text):
    x, view = text
    module, variables = layer(x, view)
    p, *qkv = projections(variables, x)
    expected = np.zeros(x.shape) + p["output"]["bias"]
    for b, h in np.ndindex(2, H):
        heads = (side[b, :, h] for side in qkv)
        expected[b] += naive_attention(*heads, view.mask_BTS[b]) @ p["output"]["kernel"][h]
    np.testing.assert_allclose(apply(module, variables, x, view)[0], expected, atol=2e-5)


def test_a_query_with_nothing_to_attend_to_gets_zeros_and_no_gradient(text):
    mask = np.array(text[1].mask_BTS)
    mask[1, 2] = False
    random = np.random.default_rng(3)
    scores = random.standard_normal((2, H, 7, 7)).astype(np.float32)
    values = random.standard_normal((2, H, 7, C)).astype(np.float32)
    keep = lambda weights: weights  # no dropout
    attend = lambda scores, values: attention.attend(scores, mask, values, keep)
    context, weights = attend(scores, values)
    assert (context[1, 2] == 0).all()
    assert (weights[1, :, 2] == 0).all()
    assert np.isfinite(context).all()

    gradients = lambda total: tiny.jit(jax.grad(total, argnums=(0, 1)))(scores, values)
    for gradient in gradients(lambda *x: attend(*x)[0][1, 2].sum()):
        assert (gradient == 0).all()
    by_scores, by_values = gradients(lambda *x: (attend(*x)[0] ** 2).sum())
    assert np.isfinite(by_scores).all()
    assert np.isfinite(by_values).all()
    assert (by_scores[1, :, 2] == 0).all()
    assert (by_scores[1, :, 1][:, mask[1, 1]] != 0).any()


def test_scores_are_float32_under_bfloat16(text):
    """Weights made of scores that were rounded to bfloat16 would differ by a percent."""
    x, view = text
    module, variables = layer(x, view, jnp.bfloat16)
    _, weights = apply(module, variables, x, view)
    q, k = (
        module.apply(variables, x, method=lambda m, x, n=name: getattr(m, n)(x))
        for name in ("query", "key")
    )
    q = (q * K**-0.5).astype(jnp.float32)
    scores = jnp.einsum("BTHK,BSHK->BHTS", q, k.astype(jnp.float32))
    exact = jax.nn.softmax(jnp.where(view.mask_BTS[:, None], scores, -1e30), axis=-1)
    np.testing.assert_allclose(weights, exact, atol=1e-5)


def test_attention_dropout_drops_weights_and_sows_them_whole(text):
    module, variables = layer(*text, attention_dropout_rate=0.5)
    plain, sown = apply(module, variables, *text)
    rngs = {"dropout": jax.random.key(0)}
    again, sown_again = apply(module, variables, *text, train=True, rngs=rngs)
    assert np.abs(plain - again).max() > 1e-2
    np.testing.assert_array_equal(sown, sown_again)


@pytest.mark.parametrize("score", ["scaled_dot", "dot", "general"])
def test_shaw_is_equations_3_and_4(text, score):
    """Key and value of a position are those of its state plus those of its clipped distance."""
    (x, view), far = text, 3
    module, variables = layer(x, view, positions=f"shaw(max_distance={far})", score=score)
    p, q, k, v = projections(variables, x)
    if score == "general":
        q = np.einsum("bthk,hkj->bthj", q, p["score_function"]["w"])
    scale = 1 / math.sqrt(K) if score == "scaled_dot" else 1
    context = np.zeros((2, 7, H, C))
    for b, t, h in np.ndindex(2, 7, H):
        apart = [int(s - view.query_positions_BT[b, t]) for s in view.key_positions_BS[b]]
        rows = [max(-far, min(far, distance)) + far for distance in apart]
        seen = np.flatnonzero(view.mask_BTS[b, t])
        keys = [k[b, s, h] + p["distance_keys"][h, :, rows[s]] for s in seen]
        values = [v[b, s, h] + p["distance_values"][h, rows[s]] for s in seen]
        weights = np.exp([scale * q[b, t, h] @ key for key in keys])
        context[b, t, h] = weights / weights.sum() @ values
    expected = np.einsum("bthc,hcd->btd", context, p["output"]["kernel"]) + p["output"]["bias"]
    np.testing.assert_allclose(apply(module, variables, x, view)[0], expected, atol=3e-5)


@pytest.mark.parametrize("kind", ["alibi", "t5"])
def test_biases_are_added_to_the_scores(text, kind):
    """The weights are those of plain attention times exp(bias), normalised again."""
    x, view = text
    module, variables = layer(x, view, positions={"alibi": kind, "t5": "t5(max_distance=40)"}[kind])
    at = view.query_positions_BT, view.key_positions_BS
    if kind == "alibi":
        bias = biases.alibi(*at, H)
    else:
        table = variables["params"]["distance_bias"]
        bias = np.moveaxis(table[:, biases.t5_buckets(*at, 40, False)], 0, 1)
    expected = apply(layer(x, view)[0], variables, x, view)[1] * np.exp(bias)
    expected /= expected.sum(axis=-1, keepdims=True)
    np.testing.assert_allclose(apply(module, variables, x, view)[1], expected, atol=1e-6)
