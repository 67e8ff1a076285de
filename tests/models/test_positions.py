"""Sinusoids against their formula."""

import math

import jax.numpy as jnp
import numpy as np
import pytest

from transformer.models import positions
from transformer.models.positions import sinusoids


def paper_encoding(position, d_model):
    """Section 3.5, entry by entry."""
    row = []
    for i in range(d_model // 2):
        angle = position / 10000 ** (2 * i / d_model)
        row += [math.sin(angle), math.cos(angle)]
    return row


def program_encoding(position, d_model):
    """tensor2tensor's get_timing_signal_1d: sines, then cosines, to 10000 x 2 pi long."""
    half = d_model // 2
    increment = math.log(10000) / (half - 1)
    angles = [position * math.exp(-i * increment) for i in range(half)]
    return [math.sin(a) for a in angles] + [math.cos(a) for a in angles]


LAYOUTS = {"interleaved": paper_encoding, "concatenated": program_encoding}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("d_model", [6, 64])
def test_sinusoids_are_the_formula(layout, d_model):
    positions = np.array([[0, 1, 2, 3], [9, 57, 511, 10_000]])
    got = sinusoids(positions, d_model, layout)
    assert got.shape == (2, 4, d_model)
    assert got.dtype == jnp.float32
    for b, t in np.ndindex(positions.shape):
        position = int(positions[b, t])
        expected = LAYOUTS[layout](position, d_model)
        # A float32 angle is right to about 1 in 10^7 of itself.
        np.testing.assert_allclose(got[b, t], expected, rtol=0, atol=2e-7 * (position + 5))


def test_sinusoids_of_position_1_in_numbers():
    interleaved = [0.841471, 0.540302, 0.099833, 0.995004, 0.010000, 0.999950, 0.001000, 1.000000]
    concatenated = [0.841471, 0.046399, 0.002154, 0.000100, 0.540302, 0.998923, 0.999998, 1.000000]
    one = np.array([[1]])
    got = positions.sinusoids(one, 8, "interleaved")[0, 0]
    np.testing.assert_allclose(got, interleaved, atol=1e-6)
    got = positions.sinusoids(one, 8, "concatenated")[0, 0]
    np.testing.assert_allclose(got, concatenated, atol=1e-6)
