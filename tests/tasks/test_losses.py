"""The loss against an explicit smoothed target in float64."""

import functools
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import tiny
from helpers.mixer import Mixer
from helpers.runs import SUMS
from scipy import special

from transformer.models import dense
from transformer.tasks import losses

B, T, V = 3, 4, 7
cross_entropy = tiny.jit(losses.cross_entropy, static_argnames=("label_smoothing", "smoothed_over"))
# Targets of the gold and of any other class, with label smoothing 0.1 over V = 7 classes.
GOLDEN = {"all_classes": (0.9 + 0.1 / 7, 0.1 / 7), "wrong_classes": (0.9, 0.1 / 6)}


@pytest.fixture(scope="module")
def tokens():
    """Logits [B, T, V], targets and weights [B, T] with three tokens of weight 0."""
    random = np.random.default_rng(0)
    weights = np.ones((B, T), np.float32)
    weights[0, 3] = weights[2, 2] = weights[2, 3] = 0
    logits = (2 * random.standard_normal((B, T, V))).astype(np.float32)
    return logits, random.integers(0, V, (B, T)), weights


@pytest.mark.parametrize("smoothed_over", GOLDEN)
def test_loss_is_cross_entropy_to_the_smoothed_target_less_its_entropy(tokens, smoothed_over):
    logits, targets, weights = tokens
    gold, other = GOLDEN[smoothed_over]
    target = np.where(np.arange(V) == targets[..., None], gold, other)
    np.testing.assert_allclose(target.sum(axis=-1), 1)
    entropy = -(target * np.log(target)).sum(axis=-1)
    log_probs = special.log_softmax(np.float64(logits), axis=-1)
    per_token = -(target * log_probs).sum(axis=-1) - entropy
    log_p = np.take_along_axis(log_probs, targets[..., None], axis=-1)[..., 0]
    sums = cross_entropy(*tokens, label_smoothing=0.1, smoothed_over=smoothed_over)
    assert float(sums["loss"]) == pytest.approx((per_token * weights).sum(), rel=1e-5)
    # Without smoothing, and for each token.
    assert float(sums["nats_per_token"]) == pytest.approx(-(log_p * weights).sum(), rel=1e-5)
    np.testing.assert_allclose(losses.token_nats(logits, targets), -log_p, rtol=1e-5)


def test_without_smoothing_loss_is_nll(tokens):
    sums = cross_entropy(*tokens, label_smoothing=0.0, smoothed_over="all_classes")
    assert float(sums["loss"]) == pytest.approx(float(sums["nats_per_token"]), rel=1e-6)
    sure = 200 * np.eye(V, dtype=np.float32)[tokens[1]]
    sums = cross_entropy(sure, *tokens[1:], label_smoothing=0.0, smoothed_over="wrong_classes")
    assert float(sums["loss"]) == 0


def test_sums_over_real_tokens_only(tokens):
    logits, targets, weights = tokens
    sums = cross_entropy(*tokens, **tiny.SMOOTHING)
    assert sums["weight"] == 9

    real = weights[..., None] > 0
    other = cross_entropy(
        np.where(real, logits, 50), targets * (weights > 0), weights, **tiny.SMOOTHING
    )
    twice = cross_entropy(*(np.concatenate([x, x]) for x in tokens), **tiny.SMOOTHING)
    rows = [cross_entropy(*(x[b : b + 1] for x in tokens), **tiny.SMOOTHING) for b in range(B)]
    for name, value in sums.items():
        assert float(other[name]) == float(value), name
        assert float(twice[name]) == pytest.approx(2 * float(value), rel=1e-6), name
        assert sum(float(row[name]) for row in rows) == pytest.approx(float(value), rel=1e-6), name


def test_correct_counts_real_tokens_of_the_highest_logit(tokens):
    logits, _, weights = tokens
    best = logits.argmax(axis=-1)
    assert cross_entropy(logits, best, weights, **tiny.SMOOTHING)["accuracy"] == 9
    best[1, 0] = (best[1, 0] + 1) % V
    assert cross_entropy(logits, best, weights, **tiny.SMOOTHING)["accuracy"] == 8


def test_bfloat16_logits_are_summed_in_float32(tokens):
    logits = jnp.asarray(tokens[0], jnp.bfloat16)
    low = cross_entropy(logits, *tokens[1:], **tiny.SMOOTHING)
    high = cross_entropy(logits.astype(jnp.float32), *tokens[1:], **tiny.SMOOTHING)
    for name in low:
        assert low[name].dtype == jnp.float32
        assert low[name] == high[name]


D = 5


@pytest.fixture(scope="module")
def arrays():
    """x [B, T, D] and matrix [V, D] of the logits, targets and weights [B, T]; T = 12."""
    random = np.random.default_rng(1)
    x, matrix = random.standard_normal((B, 12, D)), random.standard_normal((V, D))
    targets = random.integers(0, V, (B, 12))
    weights = random.integers(0, 2, (B, 12)).astype(np.float32)
    return x.astype(np.float32), matrix.astype(np.float32), targets, weights


def in_blocks(x, matrix, targets, weights, blocks):
    logits_fn = lambda x: dense.logits(x, matrix)
    return losses.in_blocks(logits_fn, x, targets, weights, blocks=blocks, **tiny.SMOOTHING)


def at_once(x, matrix, targets, weights, blocks=None):
    return losses.cross_entropy(dense.logits(x, matrix), targets, weights, **tiny.SMOOTHING)


@pytest.mark.parametrize("blocks", [1, 2, 4, 8, 12])  # 8 does not divide 12: 4 then
def test_blocks_have_the_sums_and_gradients_of_the_whole(arrays, blocks):
    """For a scaled loss too: the gradient is computed before its cotangent is known."""
    x, matrix, *tokens = arrays

    def scaled(function, x, matrix):
        sums = function(x, matrix, *tokens, blocks)
        return 3 * sums["loss"] / sums["weight"], sums

    gradient = jax.grad(scaled, argnums=(1, 2), has_aux=True)
    found, sums = tiny.jit(gradient, static_argnums=0)(in_blocks, x, matrix)
    expected, expected_sums = tiny.jit(gradient, static_argnums=0)(at_once, x, matrix)
    for name, value in expected_sums.items():
        assert float(sums[name]) == pytest.approx(float(value), rel=1e-6), name
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)
    plain = tiny.jit(in_blocks, static_argnums=4)(*arrays, blocks)
    assert {name: float(value) for name, value in plain.items()} == pytest.approx(
        {name: float(value) for name, value in expected_sums.items()}, rel=1e-6
    )


def test_only_the_loss_of_blocks_has_a_gradient(arrays):
    x, matrix, *tokens = arrays
    total = lambda x: in_blocks(x, matrix, *tokens, 3)["nats_per_token"]
    assert not tiny.jit(jax.grad(total))(x).any()


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16])
def test_blocks_keep_the_types_of_the_gradients(arrays, dtype):
    x, matrix, *tokens = arrays
    total = lambda x, matrix: in_blocks(x, matrix, *tokens, 3)["loss"]
    found = tiny.jit(jax.grad(total, argnums=(0, 1)))(jnp.asarray(x, dtype), matrix)
    assert [gradient.dtype for gradient in found] == [dtype, jnp.float32]


def test_gradients_are_accumulated_of_the_arrays_that_logits_use(arrays):
    """Only of the params that logits use, a matrix and a bias; not of another, nor of integers."""
    x, matrix, *tokens = arrays
    unused, order = jnp.ones((100, 100)), jnp.arange(V)
    params = {"matrix": matrix, "bias": jnp.ones(V), "unused": unused}

    def total(function, params, x, order):
        logits_fn = lambda x: (dense.logits(x, params["matrix"]) + params["bias"])[..., order]
        return function(logits_fn, x)["loss"]

    blocked = lambda f, x: losses.in_blocks(f, x, *tokens, blocks=3, **tiny.SMOOTHING)
    whole = lambda f, x: losses.cross_entropy(f(x), *tokens, **tiny.SMOOTHING)
    gradient = lambda function: jax.grad(functools.partial(total, function), argnums=(0, 1))
    found = tiny.jit(gradient(blocked))(params, x, order)
    expected = tiny.jit(gradient(whole))(params, x, order)
    for one, other in zip(*map(jax.tree.leaves, (found, expected)), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)

    jaxpr = jax.make_jaxpr(gradient(blocked))(params, x, order)
    [scan] = [equation for equation in jaxpr.eqns if equation.primitive.name == "scan"]
    pairs = zip(scan.outvars, scan.params["jaxpr"].out_avals, strict=True)
    # What is no carry is stacked, and has a dimension more outside than inside.
    carried = [outer.aval.shape for outer, inner in pairs if outer.aval.shape == inner.shape]
    assert sorted(carried) == [*[()] * len(SUMS), (V,), (V, D)]


def test_no_array_has_all_logits(arrays):
    x, matrix, *tokens = arrays

    def compiled(function):
        total = lambda x, matrix: function(x, matrix, *tokens, 4)["loss"]
        return jax.jit(jax.grad(total, argnums=(0, 1))).lower(x, matrix).compile().as_text()

    assert f"f32[{B},12,{V}]" in compiled(at_once)
    text = compiled(in_blocks)
    assert f"f32[{B},3,{V}]" in text
    assert not re.search(rf"f32\[({B},12|{12 * B}|4,{B},3),{V}\]", text)


def token_loss(params, batch, blocks, *, model):
    options = {"rng": jax.random.key(0), "blocks": blocks, **tiny.SMOOTHING}
    return losses.token_loss(params, batch, model=model, **options)


def test_a_model_without_hidden_states_has_the_same_sums_in_blocks():
    model, pairs = Mixer(13, 13, 16), tiny.pairs()
    batch = tiny.batch([pairs[:2], pairs[2:]], 8, 12)
    params = tiny.parameters(model, batch["inputs"])
    one, four = (token_loss(params, batch, blocks, model=model) for blocks in (1, 4))
    for name in SUMS:
        assert float(four[name]) == pytest.approx(float(one[name]), rel=1e-6), name
