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


def keep(weights):
    """No dropout."""
    return weights


SIZES = {"d_model": D, "num_heads": H, "key_size": K, "value_size": C}


def attention_layer(dtype=jnp.float32, **changes):
    options = paper(**{"positions": "none", "attention_bias": True, **SIZES, **changes})
    return Positioned(options=options, causal=False, dtype=dtype)


class Positioned(attention.MultiHeadAttention):
    """Attends from one text to another by the positions of both, as self-attention does in one."""

    make_positions = attention.SelfAttention.make_positions


def view_of(mask):
    """Positions count from 0 in queries and keys."""
    (B, T, S), count = mask.shape, lambda *shape: jnp.broadcast_to(jnp.arange(shape[1]), shape)
    return masks.View(mask, count(B, T), count(B, S))


def attend_to(module, queries, memory, mask, view=None, *, train=False):
    """A whole attention layer: projects the memory, attends to it."""
    view = view_of(mask) if view is None else view
    keys_values = module.project(memory, view.key_positions_BS)
    return module(queries, keys_values, view, train=train)


def apply_attention(module, variables, *arrays, **options):
    return module.apply(variables, *arrays, method=attend_to, **options)


def init_attention(module, rng, *arrays):
    init = tiny.jit(functools.partial(module.init, method=attend_to))
    return {"params": init(rng, *arrays)["params"]}


@pytest.fixture(scope="module")
def arrays():
    """Queries [2, 5, D], memory [2, 7, D], a mask with holes [2, 5, 7]."""
    random = np.random.default_rng(1)
    mask = random.random((2, 5, 7)) < 0.6
    mask[..., 3] = True
    return (
        random.standard_normal((2, 5, D)).astype(np.float32),
        random.standard_normal((2, 7, D)).astype(np.float32),
        mask,
    )


def naive_attention(q, k, v, mask):
    """softmax(q k^T / sqrt(d_k)) v of one head (equation 1), summed over the keys allowed."""
    context = np.zeros((len(q), v.shape[1]))
    for t in range(len(q)):
        allowed = [s for s in range(len(k)) if mask[t, s]]
        e = {s: math.exp(float(q[t] @ k[s]) / math.sqrt(q.shape[1])) for s in allowed}
        for s in allowed:
            context[t] += e[s] / sum(e.values()) * v[s]
    return context


def test_attention_is_the_papers_formula(arrays):
    queries, memory, mask = arrays
    module = attention_layer()
    variables = randomised(init_attention(module, jax.random.key(0), *arrays))
    got = tiny.jit(lambda: apply_attention(module, variables, *arrays))()

    p = jax.tree.map(lambda x: np.asarray(x, np.float64), variables["params"])
    expected = np.zeros((2, 5, D))
    for b in range(2):
        for h in range(H):
            q, k, v = (
                x @ p[name]["kernel"][:, h] + p[name]["bias"][h]
                for name, x in (("query", queries[b]), ("key", memory[b]), ("value", memory[b]))
            )
            expected[b] += naive_attention(q, k, v, mask[b]) @ p["output"]["kernel"][h]
    expected += p["output"]["bias"]
    np.testing.assert_allclose(got, expected, atol=2e-5)


def test_a_query_with_nothing_to_attend_to_gets_zeros_and_no_gradient(arrays):
    _, _, mask = arrays
    mask = mask.copy()
    mask[1, 2] = False
    random = np.random.default_rng(3)
    scores = random.standard_normal((2, H, 5, 7)).astype(np.float32)
    values = random.standard_normal((2, H, 7, C)).astype(np.float32)

    context, weights = attention.attend(scores, mask, values, keep)
    assert (context[1, 2] == 0).all()
    assert (weights[1, :, 2] == 0).all()
    assert np.isfinite(context).all()

    def alone(scores, values):
        return attention.attend(scores, mask, values, keep)[0][1, 2].sum()

    def everything(scores, values):
        return (attention.attend(scores, mask, values, keep)[0] ** 2).sum()

    for gradient in tiny.jit(jax.grad(alone, argnums=(0, 1)))(scores, values):
        assert (gradient == 0).all()
    by_scores, by_values = tiny.jit(jax.grad(everything, argnums=(0, 1)))(scores, values)
    assert np.isfinite(by_scores).all()
    assert np.isfinite(by_values).all()
    assert (by_scores[1, :, 2] == 0).all()
    assert (by_scores[1, :, 1][:, mask[1, 1]] != 0).any()


def test_softmax_is_float32_whatever_the_values():
    """In bfloat16 the weights of a long row would sum to 1 within a percent only."""
    random = np.random.default_rng(4)
    scores = jnp.asarray(random.standard_normal((1, H, 5, 300)), jnp.bfloat16)
    values = jnp.asarray(random.standard_normal((1, H, 300, C)), jnp.bfloat16)
    context, weights = attention.attend(scores, jnp.ones((1, 5, 300), bool), values, keep)
    assert context.dtype == jnp.bfloat16
    assert weights.dtype == jnp.float32
    np.testing.assert_allclose(weights.sum(axis=-1), 1, atol=2e-6)
    exact = jax.nn.softmax(scores.astype(jnp.float32), axis=-1)
    np.testing.assert_allclose(weights, exact, rtol=1e-5)


def test_scores_are_float32_under_bfloat16(arrays):
    """Weights made of scores that were rounded to bfloat16 would differ by a percent."""
    queries, memory, mask = arrays
    module = attention_layer(dtype=jnp.bfloat16)
    variables = randomised(init_attention(module, jax.random.key(0), *arrays))
    run = functools.partial(apply_attention, module, variables, *arrays, mutable="intermediates")
    _, sown = tiny.jit(run)()
    weights = sown["intermediates"]["attention"][0]
    q, k = (
        module.apply(variables, x, method=lambda m, x, n=name: getattr(m, n)(x))
        for name, x in (("query", queries), ("key", memory))
    )
    q = (q * K**-0.5).astype(jnp.float32)
    scores = jnp.einsum("BTHK,BSHK->BHTS", q, k.astype(jnp.float32))
    exact = jax.nn.softmax(jnp.where(mask[:, None], scores, -1e30), axis=-1)
    np.testing.assert_allclose(weights, exact, atol=1e-5)


def test_attention_dropout_drops_weights_and_sows_them_whole(arrays):
    module = attention_layer(attention_dropout_rate=0.5)
    variables = randomised(init_attention(module, jax.random.key(0), *arrays))
    run = functools.partial(apply_attention, module, variables, *arrays, mutable="intermediates")
    plain, sown = run()
    again, sown_again = run(train=True, rngs={"dropout": jax.random.key(0)})
    assert np.abs(plain - again).max() > 1e-2
    np.testing.assert_array_equal(*(jax.tree.leaves(s)[0] for s in (sown, sown_again)))


def scattered(mask, seed=5):
    """A view whose positions are not the places in the arrays, and may be far apart."""
    (B, T, S), random = mask.shape, np.random.default_rng(seed)
    draw = lambda *shape: jnp.asarray(random.integers(0, 20, shape))
    return masks.View(mask, draw(B, T), draw(B, S))


@pytest.mark.parametrize("score", ["scaled_dot", "dot", "general"])
def test_shaw_is_equations_3_and_4(arrays, score):
    """Key and value of a position are those of its state plus those of its clipped distance."""
    queries, memory, mask = arrays
    view, far = scattered(mask), 3
    module = attention_layer(positions=f"shaw(max_distance={far})", score=score)
    variables = randomised(init_attention(module, jax.random.key(0), *arrays))
    p = jax.tree.map(lambda x: np.asarray(x, np.float64), variables["params"])
    project = lambda name, x: np.einsum("bsd,dhk->bshk", x, p[name]["kernel"]) + p[name]["bias"]
    q, k, v = project("query", queries), project("key", memory), project("value", memory)
    if score == "general":
        q = np.einsum("bthk,hkj->bthj", q, p["score_function"]["w"])
    scale = 1 / math.sqrt(K) if score == "scaled_dot" else 1
    context = np.zeros((2, 5, H, C))
    for b, t, h in np.ndindex(2, 5, H):
        apart = [int(s - view.query_positions_BT[b, t]) for s in view.key_positions_BS[b]]
        rows = [max(-far, min(far, distance)) + far for distance in apart]
        seen = np.flatnonzero(mask[b, t])
        if len(seen):
            keys = [k[b, s, h] + p["distance_keys"][h, :, rows[s]] for s in seen]
            values = [v[b, s, h] + p["distance_values"][h, rows[s]] for s in seen]
            weights = np.exp([scale * q[b, t, h] @ key for key in keys])
            context[b, t, h] = weights / weights.sum() @ values
    expected = np.einsum("bthc,hcd->btd", context, p["output"]["kernel"]) + p["output"]["bias"]
    got = apply_attention(module, variables, *arrays, view)
    np.testing.assert_allclose(got, expected, atol=3e-5)


@pytest.mark.parametrize("kind", ["alibi", "t5"])
def test_biases_are_added_to_the_scores(arrays, kind):
    """The weights are those of plain attention times exp(bias), normalised again."""
    view = scattered(arrays[2])
    module = attention_layer(positions={"alibi": kind, "t5": "t5(max_distance=40)"}[kind])
    variables = randomised(init_attention(module, jax.random.key(0), *arrays))
    sow = lambda module: apply_attention(module, variables, *arrays, view, mutable="intermediates")[
        1
    ]["intermediates"]["attention"][0]
    at = view.query_positions_BT, view.key_positions_BS
    if kind == "alibi":
        bias = biases.alibi(*at, H)
    else:
        table = variables["params"]["distance_bias"]
        bias = np.moveaxis(table[:, biases.t5_buckets(*at, 40, False)], 0, 1)
    expected = sow(attention_layer()) * np.exp(bias)
    expected /= np.maximum(expected.sum(axis=-1, keepdims=True), 1e-30)
    np.testing.assert_allclose(sow(module), expected, atol=1e-6)
