"""Gated convolution, against its sums."""

import functools

import numpy as np
import pytest
from conformance.mixing import D, check_steps
from families.mixers import packed_texts
from families.mixers.packed_texts import linear, sigmoid, taps


def naive(p, x, causal, width):
    """The sums of section 3.2."""
    a, b = np.split(linear(p["inner"], taps(x, width, causal).reshape(len(x), -1)), 2, axis=1)
    return a * sigmoid(b)


# Of 25 taps most texts are shorter.
@pytest.mark.parametrize(
    ("width", "causal"), [(1, True), (3, True), (3, False), (4, False), (12, True), (25, False)]
)
def test_it_is_the_sums_of_the_paper(width, causal):
    mixer = packed_texts.mixer(f"convolution(width={width})", causal)
    packed_texts.assert_is_the_loop(mixer, functools.partial(naive, width=width))


@pytest.mark.parametrize("width", [1, 12])
def test_steps_of_a_width_without_history_and_of_one_beyond_the_text(width):
    mixer = packed_texts.mixer(f"convolution(width={width})")
    kept = check_steps(mixer, packed_texts.params_of(mixer), [2, 3])
    assert kept.states[0].shape == (2, 3, width - 1, D)
