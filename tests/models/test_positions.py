"""Sinusoids against their formulas."""

import math

import jax.numpy as jnp
import numpy as np
import pytest
from helpers import tiny
from helpers.cases import registered

from transformer.models import boxes


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
# Marian's: those of the paper, sines first.
LAYOUTS["halves"] = lambda *x: paper_encoding(*x)[::2] + paper_encoding(*x)[1::2]


@pytest.mark.parametrize("layout", registered("positions", *LAYOUTS))
@pytest.mark.parametrize("d_model", [6, 64])
def test_sinusoids_are_the_formula(layout, d_model):
    positions = np.array([[0, 1, 2, 3], [9, 57, 511, 10_000]])
    options = tiny.model(d_model=d_model).options
    got = boxes.part("positions", layout, options=options)(parent=None).encode(positions)
    assert got.shape == (2, 4, d_model)
    assert got.dtype == jnp.float32
    for b, t in np.ndindex(positions.shape):
        position = int(positions[b, t])
        expected = LAYOUTS[layout](position, d_model)
        # A float32 angle is right to about 1 in 10^7 of itself.
        np.testing.assert_allclose(got[b, t], expected, rtol=0, atol=2e-7 * (position + 5))


@pytest.mark.parametrize("layout", registered("positions", *LAYOUTS))
def test_a_move_is_a_matrix_of_its_length_alone(layout):
    """Paper 3.5: PE(pos + k) is a linear function of PE(pos)."""
    encoding = boxes.part("positions", layout, options=tiny.model(d_model=8).options)(parent=None)
    before, after = (np.float64(encoding.encode(np.arange(200)[None] + k))[0] for k in (0, 7))
    matrix = np.linalg.lstsq(before[::2], after[::2])[0]
    np.testing.assert_allclose(before[1::2] @ matrix, after[1::2], atol=1e-3)
