"""The KV cache: the example of its docstring, what is written, which beams share what."""

import jax.numpy as jnp
import numpy as np
import pytest
from helpers import tiny

from transformer.models import cache


def empty(room, beams):
    """Two sentences, two heads, keys of 5 numbers, values of 4."""
    slots = cache.empty_slots((jnp.ones((2, 2, 5, 3)), jnp.ones((2, 2, 3, 4))), room, beams)
    return cache.Cache([slots], cache.empty_ancestry(2, room, beams))


def test_the_example_in_the_docstring():
    kept, both_of_beam_0 = empty(3, 2), jnp.zeros((2, 2), int)
    written = [[[0], [1]], [[0, 0], [0, 1]], [[0, 0, 0], [0, 0, 1]]]
    reordered = [[[0], [0]], [[0, 0], [0, 0]]]
    rows = [
        [[1, 0, 0, 0, 0, 0], [0, 1, 0, 0, 0, 0]],
        [[1, 0, 1, 0, 0, 0], [1, 0, 0, 1, 0, 0]],
        [[1, 0, 1, 0, 1, 0], [1, 0, 1, 0, 0, 1]],
    ]
    for position in range(3):
        ancestry = cache.write_ancestry(kept.ancestry_BWP, position, 1)
        np.testing.assert_array_equal(ancestry[0, :, : position + 1], written[position])
        mask = cache.history_mask(ancestry, jnp.array([position]))
        np.testing.assert_array_equal(mask[0], rows[position])
        if position < 2:
            kept = cache.reorder(kept._replace(ancestry_BWP=ancestry), both_of_beam_0)
            ancestry = kept.ancestry_BWP[0, :, : position + 1]
            np.testing.assert_array_equal(ancestry, reordered[position])
    np.testing.assert_array_equal(cache.slot_positions(kept.ancestry_BWP)[0], [0, 0, 1, 1, 2, 2])


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_new_keys_and_values_are_written_as_they_are(dtype):
    """At their place, every bit of them, and nothing else changes."""
    random = np.random.default_rng(0)
    normal = lambda *shape: jnp.asarray(random.standard_normal(shape), dtype)
    kept, new = (normal(2, 2, 5, 12), normal(2, 2, 12, 4)), (normal(2, 2, 5, 6), normal(2, 2, 6, 4))
    keys, values = tiny.jit(cache.write)(kept, 3, new)
    assert keys.dtype == values.dtype == jnp.dtype(dtype)
    expected_keys, expected_values = map(np.array, kept)
    expected_keys[..., 3:9], expected_values[:, :, 3:9] = new
    np.testing.assert_array_equal(keys, expected_keys)
    np.testing.assert_array_equal(values, expected_values)
