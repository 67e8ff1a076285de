"""Patches of images, and learned positions on their grid."""

import itertools

import jax
import jax.numpy as jnp
import pytest

from transformer.families.images.patches import ConvolutionalStem


@pytest.mark.parametrize(
    ("size", "grid", "depth", "channels"),
    [(16, 4, 1, [1, 6, 12]), (28, 7, 1, [1, 6, 12]), (13, 4, 2, [1, 6, 6, 12, 12])],
)
def test_a_stem_halves_the_image_and_doubles_the_channels(size, grid, depth, channels):
    model = ConvolutionalStem(12, 2, depth, dtype=jnp.float32)
    shapes = jax.eval_shape(
        lambda: model.init_with_output(jax.random.key(0), jnp.ones((2, size, size, 1)))
    )
    output, variables = shapes
    assert output.shape == (2, grid, grid, 12)
    kernels = {name: p["kernel"].shape for name, p in variables["params"].items() if "Conv" in name}
    expected = [(3, 3, *pair) for pair in itertools.pairwise(channels)] + [(1, 1, 12, 12)]
    assert kernels == {f"Conv_{i}": shape for i, shape in enumerate(expected)}
