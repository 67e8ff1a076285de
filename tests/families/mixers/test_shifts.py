"""Shifted inputs, against a loop over positions."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from transformer.families.mixers import shifts

SEGMENTS = np.array([[1, 1, 1, 2, 3, 3, 0], [1] * 7])


def looped(x, segments, offset):
    shifted = np.zeros_like(x)
    for b, t in np.ndindex(*x.shape[:2]):
        if 0 <= t + offset < x.shape[1] and segments[b, t + offset] == segments[b, t]:
            shifted[b, t] = x[b, t + offset]
    return shifted


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("offset", [-9, -7, -3, -1, 0, 1, 2, 7, 8])  # of a row of seven
def test_shifted_reads_its_own_text(offset, packed):
    x = np.random.default_rng(0).standard_normal((2, 7, 3)).astype(np.float32)
    segments = SEGMENTS if packed else np.ones_like(SEGMENTS)
    given = jnp.asarray(segments) if packed else None
    y, gradient = jax.vjp(lambda x: shifts.shifted(x, given, offset), x)
    np.testing.assert_array_equal(y, looped(x, segments, offset))
    # x[t] is read by position t - offset.
    np.testing.assert_array_equal(gradient(jnp.asarray(x))[0], looped(x, segments, -offset))


def test_shifted_keeps_the_type():
    x = jnp.ones((2, 7, 3), jnp.bfloat16)
    assert shifts.shifted(x, jnp.asarray(SEGMENTS), -1).dtype == jnp.bfloat16


def test_same_text_at_each_position():
    segments = jnp.array([[1, 1, 2, 2, 0]])
    assert shifts.same_text(segments, -1).astype(int).tolist() == [[0, 1, 0, 1, 0]]


def test_offsets_end_at_the_position_or_surround_it():
    assert [shifts.first_offset(width, causal=True) for width in (1, 3, 4)] == [0, -2, -3]
    assert [shifts.first_offset(width, causal=False) for width in (1, 3, 4)] == [0, -1, -2]
