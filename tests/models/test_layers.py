"""The layers, each against the paper's formula written out in numpy, and their first values."""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import tiny

from transformer.models import attention, dense, layers, positions
from transformer.models.positions import sinusoids

D, H, K, C, F = 64, 4, 8, 16, 96


def keep(weights):
    """No dropout."""
    return weights


def attention_layer(**changes):
    fields = {
        "d_model": D,
        "num_heads": H,
        "key_size": K,
        "value_size": C,
        "use_bias": True,
        "dropout_rate": 0.0,
        "dtype": jnp.float32,
    }
    return attention.MultiHeadAttention(**{**fields, **changes})


def view_of(mask):
    """Positions count from 0 in queries and keys."""
    (B, T, S), positions = mask.shape, lambda *shape: jnp.broadcast_to(jnp.arange(shape[1]), shape)
    return attention.View(mask, positions(B, T), positions(B, S))


def attend_to(module, queries, memory, mask, *, train=False):
    """A whole attention layer: projects the memory, attends to it."""
    return module(queries, module.project(memory), view_of(mask), train=train)


def apply_attention(module, variables, *arrays, **options):
    return module.apply(variables, *arrays, method=attend_to, **options)


def init_attention(module, rng, *arrays):
    init = tiny.jit(functools.partial(module.init, method=attend_to))
    return {"params": init(rng, *arrays)["params"]}


def feed_forward_layer(**changes):
    fields = {"d_ff": F, "activation": "relu", "dropout_rate": 0.0, "dtype": jnp.float32}
    return layers.FeedForward(**{**fields, **changes})


def residual_layer(**changes):
    fields = {"norm": "post", "norm_epsilon": 1e-6, "dropout_rate": 0.0, "dtype": jnp.float32}
    return layers.Residual(**{**fields, **changes})


def randomised(variables, seed=0):
    """Normal values everywhere, biases too, which begin as zeros."""
    random = np.random.default_rng(seed)
    return jax.tree.map(lambda p: jnp.asarray(random.normal(0, 0.2, p.shape), p.dtype), variables)


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


# Attention


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


def test_attend_leaves_masked_values_out(arrays):
    _, _, mask = arrays
    random = np.random.default_rng(2)
    scores = random.standard_normal((2, H, 5, 7)).astype(np.float32)
    values = random.standard_normal((2, H, 7, C)).astype(np.float32)
    context, weights = attention.attend(scores, mask, values, keep)
    assert (np.asarray(weights)[~np.broadcast_to(mask[:, None], weights.shape)] == 0).all()
    np.testing.assert_allclose(weights.sum(axis=-1), 1, atol=1e-6)
    lifted = np.where(mask[:, None], scores, scores + 1e6)
    np.testing.assert_array_equal(attention.attend(lifted, mask, values, keep)[0], context)
    expected = np.einsum("bhts,bhsc->bthc", np.asarray(weights, np.float64), values)
    np.testing.assert_allclose(context, expected, atol=1e-6)


def test_keys_and_values_lie_as_attention_reads_them(arrays):
    """Keys [B, H, K, S], values [B, H, S, C]."""
    _, memory, _ = arrays
    module = attention_layer()
    variables = randomised(init_attention(module, jax.random.key(0), *arrays))
    keys, values = module.apply(variables, memory, method="project")
    for name, got, einsum in (("key", keys, "bsd,dhk->bhks"), ("value", values, "bsd,dhc->bhsc")):
        p = variables["params"][name]
        bias = np.moveaxis(np.broadcast_to(p["bias"], (1, 7, *p["bias"].shape)), 1, -1)
        expected = np.einsum(einsum, memory, p["kernel"])
        expected += bias.swapaxes(2, 3) if name == "value" else bias
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


# Feed-forward network and residual


@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_feed_forward_is_equation_2(activation):
    x = np.random.default_rng(5).standard_normal((2, 3, D)).astype(np.float32)
    module = feed_forward_layer(activation=activation)
    variables = randomised(module.init(jax.random.key(0), x, train=False))
    inner, outer = variables["params"]["inner"], variables["params"]["outer"]
    h = np.asarray(x, np.float64) @ inner["kernel"] + inner["bias"]
    phi = np.vectorize(lambda z: (1 + math.erf(z / math.sqrt(2))) / 2)
    h = np.maximum(h, 0) if activation == "relu" else h * phi(h)
    expected = h @ outer["kernel"] + outer["bias"]
    np.testing.assert_allclose(module.apply(variables, x, train=False), expected, atol=2e-5)


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_residual_puts_the_norm_where_it_says(norm):
    epsilon = 0.1  # large, so that it shows
    x = np.random.default_rng(6).standard_normal((2, 3, D)) + 0.5
    sub_layer = lambda x: 0.5 * x**2 - x
    module = residual_layer(norm=norm, norm_epsilon=epsilon)
    run = lambda module, x: module(x, sub_layer, train=False)

    x32 = jnp.asarray(x, jnp.float32)
    variables = randomised(module.init(jax.random.key(0), x32, method=run))
    p = variables["params"]["layer_norm"]

    def layer_norm(x):
        deviation = x - x.mean(axis=-1, keepdims=True)
        return deviation / np.sqrt(x.var(axis=-1, keepdims=True) + epsilon) * p["scale"] + p["bias"]

    expected = {"post": layer_norm(x + sub_layer(x)), "pre": x + sub_layer(layer_norm(x))}
    np.testing.assert_allclose(module.apply(variables, x32, method=run), expected[norm], atol=2e-5)


# Positions


def paper_encoding(position, d_model):
    """Section 3.5, entry by entry."""
    row = []
    for i in range(d_model // 2):
        angle = position / 10000 ** (2 * i / d_model)
        row += [math.sin(angle), math.cos(angle)]
    return row


def program_encoding(position, d_model):
    """tensor2tensor's get_timing_signal_1d: sines, then cosines, to 10000 x 2 pi long."""
    half = d_model // 2
    increment = math.log(10000) / (half - 1)
    angles = [position * math.exp(-i * increment) for i in range(half)]
    return [math.sin(a) for a in angles] + [math.cos(a) for a in angles]


LAYOUTS = {"interleaved": paper_encoding, "concatenated": program_encoding}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("d_model", [6, 64])
def test_sinusoids_are_the_formula(layout, d_model):
    positions = np.array([[0, 1, 2, 3], [9, 57, 511, 10_000]])
    got = sinusoids(positions, d_model, layout)
    assert got.shape == (2, 4, d_model)
    assert got.dtype == jnp.float32
    for b, t in np.ndindex(positions.shape):
        position = int(positions[b, t])
        expected = LAYOUTS[layout](position, d_model)
        # A float32 angle is right to about 1 in 10^7 of itself.
        np.testing.assert_allclose(got[b, t], expected, rtol=0, atol=2e-7 * (position + 5))


def test_sinusoids_of_position_1_in_numbers():
    interleaved = [0.841471, 0.540302, 0.099833, 0.995004, 0.010000, 0.999950, 0.001000, 1.000000]
    concatenated = [0.841471, 0.046399, 0.002154, 0.000100, 0.540302, 0.998923, 0.999998, 1.000000]
    one = np.array([[1]])
    got = positions.sinusoids(one, 8, "interleaved")[0, 0]
    np.testing.assert_allclose(got, interleaved, atol=1e-6)
    got = positions.sinusoids(one, 8, "concatenated")[0, 0]
    np.testing.assert_allclose(got, concatenated, atol=1e-6)


# First values


@pytest.mark.parametrize(
    ("name", "shape", "fan_in", "fan_out"),
    [
        ("query", (D, H, K), D, H * K),
        ("key", (D, H, K), D, H * K),
        ("value", (D, H, C), D, H * C),
        ("output", (H, C, D), H * C, D),
    ],
)
def test_projections_begin_glorot_uniform(arrays, name, shape, fan_in, fan_out):
    variables = init_attention(attention_layer(), jax.random.key(1), *arrays)
    kernel = np.asarray(variables["params"][name]["kernel"])
    assert kernel.shape == shape
    assert_glorot_uniform(kernel, fan_in, fan_out)
    assert (variables["params"][name]["bias"] == 0).all()


def test_feed_forward_begins_glorot_uniform():
    module = feed_forward_layer()
    params = module.init(jax.random.key(2), jnp.zeros((1, 1, D)), train=False)["params"]
    assert_glorot_uniform(np.asarray(params["inner"]["kernel"]), D, F)
    assert_glorot_uniform(np.asarray(params["outer"]["kernel"]), F, D)


def assert_glorot_uniform(kernel, fan_in, fan_out):
    bound = math.sqrt(6 / (fan_in + fan_out))
    assert 0.99 * bound < np.abs(kernel).max() <= bound
    assert kernel.std() == pytest.approx(math.sqrt(2 / (fan_in + fan_out)), rel=0.05)


# Products


@pytest.mark.slow
@pytest.mark.parametrize(
    ("x", "y", "dimensions"),
    [
        ((2, 3, 4), (4, 5), (((2,), (0,)), ((), ()))),
        ((2, 3, 4), (4, 5, 6), (((2,), (0,)), ((), ()))),
        ((2, 3, 4, 5), (4, 5, 6), (((2, 3), (0, 1)), ((), ()))),
        ((4,), (4, 5), (((0,), (0,)), ((), ()))),
        ((4, 4), (4, 4), (((1,), (1,)), ((), ()))),
        ((4, 4), (4, 4), (((0,), (0,)), ((), ()))),
        ((4, 4, 2), (4, 4, 5), (((1, 0), (0, 1)), ((), ()))),
        ((2, 3, 4, 5), (2, 3, 5, 6), (((3,), (2,)), ((0, 1), (0, 1)))),
    ],
)
@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16])
def test_dot_general_is_the_library_s_with_its_gradients(x, y, dimensions, dtype):
    random = np.random.default_rng(10)
    # Small integers: every sum is exact, in whatever order and type.
    x, y = (jnp.asarray(random.integers(-3, 4, shape), dtype) for shape in (x, y))
    ours, back = jax.vjp(lambda x, y: dense.dot_general(x, y, dimensions), x, y)
    theirs, their_back = jax.vjp(lambda x, y: jax.lax.dot_general(x, y, dimensions), x, y)
    assert ours.dtype == dtype
    np.testing.assert_array_equal(ours, theirs)
    gradient = jnp.asarray(random.integers(-2, 3, ours.shape), dtype)
    for found, expected in zip(back(gradient), their_back(gradient), strict=True):
        assert found.dtype == dtype
        np.testing.assert_array_equal(found, expected)


# Dropout


@pytest.mark.parametrize("rate", [0.1, 0.3, 0.9])
@pytest.mark.parametrize("size", [1000, 999, 1])
def test_dropout_drops_at_its_rate_and_each_number_for_itself(rate, size):
    """Within 4.5 standard deviations: the rate, in every column, and of any two neighbours."""
    x = jnp.ones((1_000_000 // size, size))
    module = dense.Dropout(rate=rate)
    apply = functools.partial(module.apply, {}, x, deterministic=False)
    found = np.asarray(apply(rngs={"dropout": jax.random.key(3)}))
    np.testing.assert_allclose(np.unique(found), [0, 1 / (1 - rate)], rtol=1e-4)
    dropped = found == 0

    def near(count, mean, of):
        assert abs(count - of * mean) < 4.5 * math.sqrt(of * mean * (1 - mean))

    near(dropped.sum(), rate, found.size)
    rows = len(found)
    for count in dropped.sum(axis=0):
        near(count, rate, rows)
    for one, other in ((dropped[1:], dropped[:-1]), (dropped[:, 1:], dropped[:, :-1])):
        if one.size:
            near((one & other).sum(), rate**2, one.size)
    again = np.asarray(apply(rngs={"dropout": jax.random.key(4)}))
    near(((again == 0) & dropped).sum(), rate**2, found.size)
    assert (apply(rngs={"dropout": jax.random.key(3)}) == found).all()


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16])
def test_dropout_passes_the_gradient_of_what_it_kept(dtype):
    module, x = dense.Dropout(rate=0.25), jnp.full((64, 33), 2, dtype)
    run = functools.partial(module.apply, {}, rngs={"dropout": jax.random.key(5)})
    y, back = jax.vjp(lambda x: run(x, deterministic=False), x)
    [gradient] = back(jnp.ones_like(y))
    assert y.dtype == gradient.dtype == dtype
    np.testing.assert_array_equal(2 * gradient, y)


@pytest.mark.parametrize("rate", [0.0, 1e-6])
def test_no_dropout_needs_no_random_numbers(rate):
    x = jnp.ones((2, 3))
    np.testing.assert_array_equal(dense.Dropout(rate=rate).apply({}, x, deterministic=False), x)
    np.testing.assert_array_equal(dense.Dropout(rate=0.5).apply({}, x, deterministic=True), x)


def test_dropout_drops_the_sub_layers_output_and_keeps_its_mean():
    module = residual_layer(norm="pre", dropout_rate=0.25)
    x, y = jnp.full((40, 50, D), 3.0), jnp.ones((40, 50, D))
    variables = module.init(jax.random.key(0), x, lambda _: y, train=False)
    run = functools.partial(module.apply, variables, x, lambda _: y)
    dropped = run(train=True, rngs={"dropout": jax.random.key(0)})
    np.testing.assert_allclose(np.unique(dropped), [3, 3 + 1 / 0.75])
    assert float(dropped.mean()) == pytest.approx(3 + 1, abs=0.01)
    np.testing.assert_array_equal(run(train=False), x + y)


def test_attention_dropout_drops_weights_and_sows_them_whole(arrays):
    module = attention_layer(dropout_rate=0.5)
    variables = randomised(init_attention(module, jax.random.key(0), *arrays))
    run = functools.partial(apply_attention, module, variables, *arrays, mutable="intermediates")
    plain, sown = run()
    again, sown_again = run(train=True, rngs={"dropout": jax.random.key(0)})
    assert np.abs(plain - again).max() > 1e-2
    np.testing.assert_array_equal(*(jax.tree.leaves(s)[0] for s in (sown, sown_again)))


def test_feed_forward_dropout_is_inside():
    """All of d_ff dropped leaves the outer bias."""
    module = feed_forward_layer(dropout_rate=1.0)
    x = jnp.ones((1, 2, D))
    variables = randomised(module.init(jax.random.key(0), x, train=False))
    got = module.apply(variables, x, train=True, rngs={"dropout": jax.random.key(0)})
    bias = variables["params"]["outer"]["bias"]
    np.testing.assert_allclose(got, jnp.broadcast_to(bias, got.shape), atol=1e-6)
    assert np.abs(module.apply(variables, x, train=False) - bias).max() > 1e-2
