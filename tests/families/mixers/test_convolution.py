"""Gated convolution, against a loop over positions and taps."""

import jax.numpy as jnp
import numpy as np
import pytest
from conformance.mixing import check_steps
from families.mixers.short_texts import OPTIONS, D, assert_is_the_loop, params_of, taps

from transformer.families.mixers.convolution import Convolution


def mixer_of(width, causal=True):
    return Convolution(options=OPTIONS, causal=causal, dtype=jnp.dtype("float32"), width=width)


def naive(params, x, offsets):
    """The sums of section 3.2 in float64."""
    kernel, bias = (np.asarray(params["inner"][name], np.float64) for name in ("kernel", "bias"))
    y = np.zeros(x.shape)
    for b, t, read in taps(offsets):
        total = bias
        for j, s in read:
            total = total + x[b, s].astype(np.float64) @ kernel[j * D : (j + 1) * D]
        y[b, t] = total[:D] / (1 + np.exp(-total[D:]))
    return y


@pytest.mark.parametrize(
    ("width", "causal", "offsets"),
    [
        (1, True, [0]),
        (3, True, [-2, -1, 0]),
        (3, False, [-1, 0, 1]),
        (4, False, [-2, -1, 0, 1]),
        (12, True, range(-11, 1)),  # wider than the row
        (25, False, range(-12, 13)),
    ],
)
def test_it_is_the_loop_of_the_paper(width, causal, offsets):
    assert_is_the_loop(mixer_of(width, causal), naive, offsets, atol=2e-5)


@pytest.mark.parametrize("width", [1, 12])
def test_steps_of_a_width_without_history_and_of_one_beyond_the_text(width):
    mixer = mixer_of(width)
    kept = check_steps(mixer, params_of(mixer), [2, 3])
    assert kept.states[0].shape == (2, 3, width - 1, D)
