"""Gated convolution, against a loop over positions and taps."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import tiny
from helpers.layers import randomised

from transformer.errors import UserError
from transformer.families.mixers.convolution import Convolution
from transformer.models import attention, cache

OPTIONS = tiny.model(num_layers=1).options
D = OPTIONS.d_model
SEGMENTS = np.array([[1, 1, 1, 1, 1, 2, 2, 3, 0], [1] * 9])


def mixer_of(width, causal=True):
    return Convolution(options=OPTIONS, causal=causal, dtype=jnp.dtype("float32"), width=width)


def rows(causal=True):
    """Returns (x, view): three texts and padding, and one text."""
    x = np.random.default_rng(1).standard_normal((*SEGMENTS.shape, D)).astype(np.float32)
    positions = jnp.asarray([[0, 1, 2, 3, 4, 0, 1, 0, 0], list(range(9))])
    return x, attention.self_view(positions, jnp.asarray(SEGMENTS), causal=causal)


def params_of(mixer):
    init = functools.partial(mixer.init, train=False)
    return randomised(tiny.jit(init)(jax.random.key(0), *rows())["params"])


@functools.partial(tiny.jit, static_argnums=0)
def mix(mixer, params, x, view):
    return mixer.apply({"params": params}, x, view, train=False)


def naive(params, x, offsets):
    """The sums of section 3.2 in float64."""
    kernel, bias = (np.asarray(params["inner"][name], np.float64) for name in ("kernel", "bias"))
    y = np.zeros(x.shape)
    for b, t in np.ndindex(*SEGMENTS.shape):
        total = bias
        for j, offset in enumerate(offsets):
            s = t + offset
            if 0 <= s < SEGMENTS.shape[1] and SEGMENTS[b, s] == SEGMENTS[b, t]:
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
    mixer, (x, view) = mixer_of(width, causal), rows(causal)
    params, is_text = params_of(mixer), SEGMENTS > 0
    y = mix(mixer, params, x, view)
    np.testing.assert_allclose(y[is_text], naive(params, x, offsets)[is_text], atol=2e-5)
    unpacked = mix(mixer, params, x[1:], view._replace(segments_BT=None))
    np.testing.assert_allclose(unpacked, y[1:], atol=1e-5)


@pytest.mark.parametrize("width", [1, 12])
def test_steps_of_a_width_without_history_and_of_one_beyond_the_text(width):
    mixer, (x, view) = mixer_of(width), rows()
    params = params_of(mixer)
    expected = mix(mixer, params, x, view)[1:]
    state = mixer.apply({"params": params}, x[1:, :1], 9, 2, method="empty_state")
    start, ancestry = 0, cache.empty_ancestry(1, 9, 2)
    for count in (2, 3):
        queries = cache.queries(jnp.zeros((1, 2, count), int), start, ancestry)
        new = queries.in_order(np.repeat(x[1:, None, start : start + count], 2, axis=1))
        y, state = mixer.apply({"params": params}, new, queries, state, method="step")
        for beam in range(2):
            y_beam = queries.per_beam(y)[:, beam]
            np.testing.assert_allclose(y_beam, expected[:, start : start + count], atol=1e-5)
        state = state.reorder(jnp.array([[1, 0]]))
        assert state.arrays.shape == (1, 2, width - 1, D)
        start += count


def test_a_width_below_one_is_the_users_mistake():
    with pytest.raises(UserError, match=r"config\.model\.mixer\.width must be at least 1, found 0"):
        mixer_of(0).init(jax.random.key(0), *rows(), train=False)
