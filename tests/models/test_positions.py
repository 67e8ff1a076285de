"""Sinusoids, rotations and tables of distances against their formulas."""

import math

import jax
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


@pytest.mark.parametrize("kind", ["none", *positions.RELATIVE])
def test_positions_that_are_none_of_the_inputs_are_not_added(kind):
    x, at = np.ones((1, 3, 4), np.float32), np.arange(3)[None]
    encoding = positions.PositionEncoding(kind=kind, max_positions=0)
    variables = encoding.init(jax.random.key(0), x, at)
    assert not variables
    np.testing.assert_array_equal(encoding.apply(variables, x, at), x)


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
    got = positions.rotate(x, at)
    for b, t in np.ndindex(at.shape):
        expected = x[b, t] @ rotation(at[b, t], 6).T
        np.testing.assert_allclose(got[b, t], expected, atol=1e-5)
    assert positions.rotate(x.astype(jnp.bfloat16), at).dtype == jnp.bfloat16


def test_rows_of_distances_are_clipped():
    """A key 0, 1 and 5 positions later, or 1 and 5 earlier."""
    rows = positions.distance_rows(np.array([[10]]), np.array([[10, 11, 15, 9, 5]]), 2)
    np.testing.assert_array_equal(rows, [[[2, 3, 4, 1, 0]]])


def test_sums_of_distances_are_those_of_a_loop():
    random = np.random.default_rng(2)
    rows = random.integers(0, 5, (2, 3, 7))
    of_distance = random.standard_normal((2, 4, 3, 5)).astype(np.float32)
    of_key = random.standard_normal((2, 4, 3, 7)).astype(np.float32)
    taken = positions.take_distances(of_distance, rows)
    summed = jax.jit(positions.sum_distances, static_argnums=2)(of_key, rows, 5)
    expected = np.zeros((2, 4, 3, 5))
    for b, h, t, s in np.ndindex(of_key.shape):
        assert taken[b, h, t, s] == of_distance[b, h, t, rows[b, t, s]]
        expected[b, h, t, rows[b, t, s]] += of_key[b, h, t, s]
    np.testing.assert_allclose(summed, expected, atol=1e-6)


def test_alibi_is_a_slope_a_head():
    """Press et al. 2022: slopes 1/2, 1/4, ... 1/256 of eight heads."""
    queries, keys = np.array([[3, 0]]), np.array([[0, 1, 7]])
    got = positions.alibi(queries, keys, 8)
    expected = [[[-abs(s - t) / 2**h for s in keys[0]] for t in queries[0]] for h in range(1, 9)]
    np.testing.assert_allclose(got[0], expected, rtol=1e-6)


@pytest.mark.parametrize("causal", [True, False])
def test_t5_buckets_are_one_a_distance_and_then_wider(causal):
    """Of 32: 16 a direction or all for earlier keys; half of them for single distances."""
    far = np.arange(-200, 201)
    got = np.asarray(positions.t5_buckets(np.array([[200]]), 200 + far[None], 128, causal))[0, 0]
    bucket = dict(zip(far.tolist(), got.tolist(), strict=True))
    size = 32 if causal else 16
    exact = size // 2
    assert [bucket[-d] for d in range(exact)] == list(range(exact))
    for d in range(exact, 200):
        share = math.log(d / exact) / math.log(128 / exact)
        wide = min(exact + int(share * exact + 1e-6), size - 1)
        assert abs(bucket[-d] - wide) <= (abs(share * exact - round(share * exact)) < 1e-4)
    assert bucket[-128] == bucket[-200] == size - 1
    if causal:
        assert {bucket[d] for d in range(1, 200)} == {0}  # which a mask leaves out
    else:
        assert [bucket[d] - bucket[-d] for d in range(1, 200)] == [16] * 199
