"""Tuned products against those of the library."""

import re

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import tiny

from transformer.families.kernels import products


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
    ours = lambda x, y: products.dot_general(x, y, dimensions)
    theirs = lambda x, y: jax.lax.dot_general(x, y, dimensions)
    shape = jax.eval_shape(theirs, x, y).shape
    gradient = jnp.asarray(random.integers(-2, 3, shape), dtype)
    results = (tiny.output_and_gradients(f, gradient, x, y) for f in (ours, theirs))
    for found, expected in zip(*results, strict=True):
        assert found.dtype == dtype
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16])
def test_a_wide_layer_has_the_weight_gradient_of_the_plain_product(dtype):
    """Which CPUs sum as [F, D] and transpose, if there are many rows."""
    random = np.random.default_rng(12)
    draw = lambda *shape: jnp.asarray(random.integers(-3, 4, shape), dtype)
    x, y, gradient = draw(2, 256, 3, 4), draw(3, 4, 6), draw(2, 256, 6)
    dimensions = ((2, 3), (0, 1)), ((), ())
    _, back = jax.vjp(lambda y: products.dot_general(x, y, dimensions), y)
    expected = jnp.einsum("bthk,btd->hkd", x.astype("f"), gradient.astype("f"))
    np.testing.assert_array_equal(*back(gradient), expected.astype(dtype))
    assert jnp.abs(expected).max() < 2**24  # every sum is exact, in whatever order


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16])
@pytest.mark.parametrize("use_bias", [True, False])
def test_a_dense_layer_is_flax_s_with_its_params_and_gradients(dtype, use_bias):
    random = np.random.default_rng(13)
    x, gradient = (jnp.asarray(random.integers(-3, 4, (2, 3, n)), dtype) for n in (4, 6))
    options = {"use_bias": use_bias, "dtype": dtype, "dot_general": jax.lax.dot_general}
    layers = [kind(6, **options) for kind in (products.Dense, nn.Dense)]
    params = [layer.init(jax.random.key(0), x) for layer in layers]
    drawn = jax.tree.map(lambda x: random.integers(-3, 4, x.shape).astype("f"), params[0])
    outputs, backs = zip(*(jax.vjp(layer.apply, drawn, x) for layer in layers), strict=True)
    assert outputs[0].dtype == dtype
    for ours, theirs in [params, outputs, [back(gradient) for back in backs]]:
        jax.tree.map(np.testing.assert_array_equal, ours, theirs)


@pytest.mark.parametrize("dimensions", [((2,), (0,)), ((2,), (1,))], ids=["dense", "logits"])
def test_bfloat16_is_summed_in_float32(dimensions):
    """For products that are summed in bfloat16 XLA on CPUs multiplies float32.

    An accelerator does so by itself, and its forward product is bfloat16: the largest, the logits,
    would be twice as large.
    """
    x, y = jnp.ones((2, 3, 4), jnp.bfloat16), jnp.ones((4, 4), jnp.bfloat16)
    product = lambda x, y: products.dot_general(x, y, (dimensions, ((), ()))).sum()

    def types(function, platform):
        program = jax.jit(function).trace(x, y).lower(lowering_platforms=(platform,)).as_text()
        return set(re.findall(r"dot_general .*-> tensor<[\dx]+x(\w+)>", program))

    assert types(jax.grad(product, argnums=(0, 1)), "cpu") == {"f32"}
    for platform in ("cuda", "tpu"):
        assert types(product, platform) == {"bf16"}
