"""Convolutions alone: with random params, on a row of three texts and on one of a single text."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from helpers import tiny
from helpers.layers import randomised

from transformer.models import masks

OPTIONS = tiny.model(num_layers=1).options
D, H = OPTIONS.d_model, OPTIONS.num_heads
SEGMENTS = np.array([[1, 1, 1, 1, 1, 2, 2, 3, 0], [1] * 9])


def rows(causal=True):
    """Returns (x, view): three texts and padding, and one text."""
    x = np.random.default_rng(1).standard_normal((*SEGMENTS.shape, D)).astype(np.float32)
    positions = jnp.asarray([[0, 1, 2, 3, 4, 0, 1, 0, 0], list(range(9))])
    return x, masks.self_view(positions, jnp.asarray(SEGMENTS), causal=causal)


def params_of(mixer):
    init = functools.partial(mixer.init, train=False)
    return randomised(tiny.jit(init)(jax.random.key(0), *rows())["params"])


@functools.partial(tiny.jit, static_argnums=0)
def mix(mixer, params, x, view):
    return mixer.apply({"params": params}, x, view, train=False)


def taps(offsets):
    """Yields (row, t, [(j, s), ...]): the positions s that each position reads, with their tap."""
    for b, t in np.ndindex(*SEGMENTS.shape):
        places = [(j, t + offset) for j, offset in enumerate(offsets)]
        in_row = [(j, s) for j, s in places if 0 <= s < SEGMENTS.shape[1]]
        yield b, t, [(j, s) for j, s in in_row if SEGMENTS[b, s] == SEGMENTS[b, t]]


def assert_is_the_loop(mixer, naive, offsets, atol):
    """Compares with naive(params, x, offsets), and a row without segments with one text."""
    x, view = rows(mixer.causal)
    params, is_text = params_of(mixer), SEGMENTS > 0
    y = mix(mixer, params, x, view)
    np.testing.assert_allclose(y[is_text], naive(params, x, offsets)[is_text], atol=atol)
    unpacked = mix(mixer, params, x[1:], view._replace(segments_BT=None))
    np.testing.assert_allclose(unpacked, y[1:], atol=1e-5)
