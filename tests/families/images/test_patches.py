"""Patches of images, and learned positions on their grid."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import tiny

from transformer.families.images.patches import ConvolutionalStem


def random(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize(
    ("size", "grid", "depth", "channels"),
    [(16, 4, 1, [1, 6, 12]), (28, 7, 1, [1, 6, 12]), (13, 4, 2, [1, 6, 6, 12, 12])],
)
def test_a_stem_halves_the_image_and_doubles_the_channels(size, grid, depth, channels):
    model = ConvolutionalStem(12, 2, depth, norm_epsilon=1e-6, dtype=jnp.float32)
    shapes = jax.eval_shape(
        lambda: model.init_with_output(jax.random.key(0), jnp.ones((2, size, size, 1)))
    )
    output, variables = shapes
    assert output.shape == (2, grid, grid, 12)
    kernels = {name: p["kernel"].shape for name, p in variables["params"].items() if "Conv" in name}
    expected = [(3, 3, *pair) for pair in itertools.pairwise(channels)] + [(1, 1, 12, 12)]
    assert kernels == {f"Conv_{i}": shape for i, shape in enumerate(expected)}


def test_a_stem_sees_the_same_thing_in_another_place():
    """An image moved by a patch gives the patches of its inside moved by one."""
    model = ConvolutionalStem(8, 2, depth=1, norm_epsilon=1e-6, dtype=jnp.float32)
    image = random(1, 32, 32, 1)
    shapes = jax.eval_shape(lambda: model.init(jax.random.key(0), image)["params"])
    params = jax.tree.map(lambda x: random(*x.shape, seed=x.size), shapes)
    see = tiny.jit(lambda image: model.apply({"params": params}, image))
    here, there = see(image), see(np.roll(image, 4, axis=2))
    np.testing.assert_allclose(there[:, :, 3:7], here[:, :, 2:6], rtol=1e-4, atol=1e-4)
    assert np.abs(np.asarray(there - here)).max() > 0.1
