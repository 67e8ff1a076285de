"""The likeliest continuations against jax.lax.top_k."""

import jax
import numpy as np
import pytest
from helpers.cases import slow_but

from transformer.decoding.next_tokens import likeliest


@pytest.mark.parametrize("size", [1, 13, 64, 192, 997])
@pytest.mark.parametrize("beams", slow_but([1, 3], 3))
def test_likeliest_is_top_k(size, beams):
    """Ties included; the vocabulary's size is a multiple of the block of 64, or is not."""
    random = np.random.default_rng(size)
    few = random.integers(-3, 1, (16, beams, size)).astype(np.float32)  # mostly ties
    few[random.random(few.shape) < 0.3] = -np.inf
    few[0] = -np.inf
    rare = random.standard_normal((16, beams, size)).astype(np.float32)
    logits = np.concatenate([few, rare])
    logits[::4, :, 0] = 9.0  # the largest, which is forbidden in half of the sentences below
    offset = random.integers(-2, 1, (32, beams)).astype(np.float32)
    forbidden = random.random((32, min(size, 4))) < 0.5
    values = logits + offset[:, :, None]
    values[:, :, : forbidden.shape[1]][np.repeat(forbidden[:, None], beams, axis=1)] = -np.inf
    jitted = jax.jit(likeliest, static_argnames="count")
    for count in {1, 2, 6, 25, beams * size} & set(range(beams * size + 1)):
        best, index = map(np.asarray, jitted(logits, offset, forbidden, count=count))
        expected, expected_index = jax.lax.top_k(values.reshape(32, -1), count)
        np.testing.assert_array_equal(best, expected)
        is_none = best == -np.inf  # these may be of other indices
        np.testing.assert_array_equal(index[~is_none], expected_index[~is_none])
        assert ((index >= 0) & (index < beams * size)).all()
