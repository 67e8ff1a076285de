"""The average attention network against its equations."""

import numpy as np
import pytest
from families.mixers import packed_texts
from families.mixers.packed_texts import linear, sigmoid


def naive(p, x, causal):
    counts = np.arange(1, len(x) + 1)[:, None]
    means = np.cumsum(x, axis=0) / counts if causal else np.broadcast_to(x.mean(axis=0), x.shape)
    i, f = np.split(sigmoid(linear(p["inner"], np.concatenate([x, means], axis=1))), 2, axis=1)
    return i * x + f * means


@pytest.mark.parametrize("causal", [True, False])
def test_an_average_is_gated(causal):
    packed_texts.assert_is_the_loop(packed_texts.mixer("average", causal), naive)
