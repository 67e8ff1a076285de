"""The fast forms of products and dropout against the plain ones."""

import functools
import math
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from transformer.models import dense


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


def test_a_wide_layer_has_the_weight_gradient_of_the_plain_product():
    """Which CPUs sum as [F, D] and transpose, if there are many rows."""
    random = np.random.default_rng(12)
    draw = lambda *shape: jnp.asarray(random.integers(-3, 4, shape), jnp.float32)
    x, y, gradient = draw(2, 256, 3, 4), draw(3, 4, 6), draw(2, 256, 6)
    dimensions = ((2, 3), (0, 1)), ((), ())
    _, back = jax.vjp(lambda y: dense.dot_general(x, y, dimensions), y)
    expected = np.einsum("bthk,btd->hkd", x, gradient)
    np.testing.assert_array_equal(*back(gradient), expected)
    assert np.abs(expected).max() < 2**24  # every sum is exact, in whatever order


@pytest.mark.parametrize("dimensions", [((2,), (0,)), ((2,), (1,))], ids=["dense", "logits"])
def test_bfloat16_is_summed_in_float32(dimensions):
    """For products that are summed in bfloat16 XLA on CPUs multiplies float32.

    An accelerator does so by itself, and its forward product is bfloat16: the largest, the logits,
    would be twice as large.
    """
    x, y = jnp.ones((2, 3, 4), jnp.bfloat16), jnp.ones((4, 4), jnp.bfloat16)
    product = lambda x, y: dense.dot_general(x, y, (dimensions, ((), ()))).sum()

    def types(function, platform):
        program = jax.jit(function).trace(x, y).lower(lowering_platforms=(platform,)).as_text()
        return set(re.findall(r"dot_general .*-> tensor<[\dx]+x(\w+)>", program))

    assert types(jax.grad(product, argnums=(0, 1)), "cpu") == {"f32"}
    for platform in ("cuda", "tpu"):
        assert types(product, platform) == {"bf16"}


@pytest.mark.parametrize(
    ("shape", "dimensions"), [((5, 2, 3), ((2,), (0,))), ((2, 3, 5), ((2,), (2,)))]
)
def test_other_platforms_have_the_same_weight_gradients(shape, dimensions, monkeypatch):
    """What a TPU or a GPU compiles, on this CPU."""
    random = np.random.default_rng(11)
    x, y = (jnp.asarray(random.integers(-3, 4, s), jnp.float32) for s in ((4, 3, 5), shape))
    product = lambda y: dense.dot_general(x, y, (dimensions, ((), ()))).sum()
    here = jax.grad(product)(y)
    others = lambda *arguments, cpu, default: default(*arguments)
    monkeypatch.setattr(jax.lax, "platform_dependent", others)
    np.testing.assert_array_equal(jax.grad(product)(y), here)


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
