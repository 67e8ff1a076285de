"""Patches of images, and learned positions on their grid."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import tiny

from transformer.families.images.patches import ConvolutionalStem, interpolate


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


def test_positions_of_the_same_grid_are_not_changed():
    positions = random(3, 5, 4)
    tiny.assert_same_bits(interpolate(positions, (3, 5)), positions)


@pytest.mark.parametrize("grid", [(6, 5), (3, 10), (8, 2)])
def test_interpolated_positions_are_bilinear(grid):
    """What is constant stays so; each axis is interpolated on its own; a line stays a line."""
    np.testing.assert_allclose(
        interpolate(np.full((3, 5, 1), 2.5, np.float32), grid), 2.5, rtol=1e-6
    )
    rows, columns = random(3, 1, 4), random(1, 5, 4, seed=1)
    by_axis = interpolate(rows, (grid[0], 1)) + interpolate(columns, (1, grid[1]))
    np.testing.assert_allclose(interpolate(rows + columns, grid), by_axis, atol=1e-5)
    line = np.arange(8, dtype=np.float32)[:, None, None]
    # A cell's position is that of its middle: 16 cells for 8 are a quarter before and after.
    inside = np.asarray(interpolate(line, (16, 1)))[1:-1, 0, 0]
    np.testing.assert_allclose(inside, (np.arange(1, 15) + 0.5) / 2 - 0.5, atol=1e-5)
