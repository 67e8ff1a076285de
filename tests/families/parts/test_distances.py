"""Tables of distances against loops."""

import jax
import numpy as np

from transformer.families.parts import distances


def test_rows_of_distances_are_clipped():
    """A key 0, 1 and 5 positions later, or 1 and 5 earlier."""
    rows = distances.distance_rows(np.array([[10]]), np.array([[10, 11, 15, 9, 5]]), 2)
    np.testing.assert_array_equal(rows, [[[2, 3, 4, 1, 0]]])


def test_sums_of_distances_are_those_of_a_loop():
    random = np.random.default_rng(2)
    rows = random.integers(0, 5, (2, 3, 7))
    of_distance = random.standard_normal((2, 4, 3, 5)).astype(np.float32)
    of_key = random.standard_normal((2, 4, 3, 7)).astype(np.float32)
    taken = distances.take_distances(of_distance, rows)
    summed = jax.jit(distances.sum_distances, static_argnums=2)(of_key, rows, 5)
    expected = np.zeros((2, 4, 3, 5))
    for b, h, t, s in np.ndindex(of_key.shape):
        assert taken[b, h, t, s] == of_distance[b, h, t, rows[b, t, s]]
        expected[b, h, t, rows[b, t, s]] += of_key[b, h, t, s]
    np.testing.assert_allclose(summed, expected, atol=1e-6)
