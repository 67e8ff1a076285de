"""Biases of scores against their formulas."""

import math

import numpy as np
import pytest

from transformer.families.parts import biases


def test_alibi_is_a_slope_a_head():
    """Press et al. 2022: slopes 1/2, 1/4, ... 1/256 of eight heads."""
    queries, keys = np.array([[3, 0]]), np.array([[0, 1, 7]])
    expected = [[[-abs(s - t) / 2**h for s in keys[0]] for t in queries[0]] for h in range(1, 9)]
    np.testing.assert_allclose(biases.alibi(queries, keys, 8)[0], expected, rtol=1e-6)


@pytest.mark.parametrize("causal", [True, False])
def test_t5_buckets_are_one_a_distance_and_then_wider(causal):
    """Of 32: 16 a direction or all for earlier keys; half of them for single distances."""
    far = np.arange(-200, 201)
    got = np.asarray(biases.t5_buckets(np.array([[200]]), 200 + far[None], 128, causal))[0, 0]
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
