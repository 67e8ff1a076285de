"""Rotations against their formula."""

import math

import jax.numpy as jnp
import numpy as np

from transformer.families.parts import rotary


def rotation(position, size):
    """Su et al. 2021, equation 15: a block for each pair of components."""
    matrix = np.zeros((size, size))
    for i in range(size // 2):
        angle = position / 10000 ** (2 * i / size)
        block = [[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]]
        matrix[2 * i : 2 * i + 2, 2 * i : 2 * i + 2] = block
    return matrix


def test_rotate_is_the_papers_matrix():
    x = np.random.default_rng(0).standard_normal((2, 3, 2, 6)).astype(np.float32)
    at = np.array([[0, 1, 7], [2, 30, 4]])
    got = rotary.rotate(x, at)
    for b, t in np.ndindex(at.shape):
        np.testing.assert_allclose(got[b, t], x[b, t] @ rotation(at[b, t], 6).T, atol=1e-5)
    assert rotary.rotate(x.astype(jnp.bfloat16), at).dtype == jnp.bfloat16
