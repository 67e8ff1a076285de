"""The mean of the real positions, whatever stands in the others."""

import numpy as np

from transformer.families.texts import pooling


def test_the_mean_is_of_real_positions():
    x_BSD = np.random.default_rng(0).standard_normal((3, 4, 2)).astype(np.float32)
    real_BS = np.array([[1, 1, 0, 0], [1, 1, 1, 1], [0, 0, 0, 0]], bool)
    found = pooling.mean(x_BSD, real_BS)
    expected = [x_BSD[0, :2].mean(axis=0), x_BSD[1].mean(axis=0), np.zeros(2)]
    np.testing.assert_allclose(found, expected, atol=1e-6)
