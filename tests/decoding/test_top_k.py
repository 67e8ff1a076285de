"""The likeliest continuations against jax.lax.top_k."""

import jax
import numpy as np
import pytest

from transformer.decoding import top_k


@pytest.mark.parametrize("size", [1, 13, 64, 192, 997])
@pytest.mark.parametrize("beams", [1, 3])
def test_likeliest_is_top_k(size, beams):
    """Exactly, ties included; the size is a multiple of the block of 64, or is not."""
    random = np.random.default_rng(size)
    few = random.integers(-3, 1, (16, beams, size)).astype(np.float32)  # mostly ties
    few[random.random(few.shape) < 0.3] = -np.inf
    few[0] = -np.inf
    rare = random.standard_normal((16, beams, size)).astype(np.float32)
    values = np.concatenate([few, rare])
    for count in {1, 2, 6, 25, beams * size} & set(range(beams * size + 1)):
        best = top_k.likeliest(values, count)
        expected = jax.lax.top_k(values.reshape(32, -1), count)
        for one, other in zip(best, expected, strict=True):
            np.testing.assert_array_equal(one, other)
