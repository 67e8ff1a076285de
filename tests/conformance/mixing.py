"""A mixer alone: on a row of texts, and token by token."""

import functools

import jax.numpy as jnp
import numpy as np
from helpers import tiny

from transformer.models import cache, masks

D, LONG = 16, 70


def row(lengths, causal=True, room=LONG, seed=1):
    """Returns (x, view) of a row of texts of these lengths, then padding."""
    lengths = [*lengths, room - sum(lengths)]
    segments = np.repeat([*range(1, len(lengths)), 0], lengths)[None]
    positions = np.concatenate([np.arange(n) for n in lengths])[None]
    x = np.random.default_rng(seed).standard_normal((1, room, D)).astype(np.float32)
    return x, masks.self_view(jnp.asarray(positions), jnp.asarray(segments), causal=causal)


@functools.partial(tiny.jit, static_argnums=0)
def mix(mixer, params, x, view):
    return mixer.apply({"params": params}, x, view, train=False)


@functools.partial(tiny.jit, static_argnums=0)
def begin(mixer, params, x_BWTD):
    B, W = x_BWTD.shape[:2]
    state = mixer.apply({"params": params}, x_BWTD[:, 0, :1], 8, W, method="empty_state")
    return cache.Cache([state], cache.empty_ancestry(B, 8, W))


@functools.partial(tiny.jit, static_argnums=0)
def step(mixer, params, x_BWTD, position, kept):
    """Returns y_BWTD and the cache after it."""
    queries = cache.queries(jnp.zeros(x_BWTD.shape[:3], jnp.int32), position, kept.ancestry_BWP)
    arguments = queries.in_order(x_BWTD), queries, kept.states[0]
    y_BQD, state = mixer.apply({"params": params}, *arguments, method="step")
    return queries.per_beam(y_BQD), cache.Cache([state], queries.ancestry_BWP)


def distance(actual, expected):
    """Returns the largest difference, NaN if there is one."""
    return np.abs(np.asarray(actual, np.float32) - np.asarray(expected, np.float32)).max()


def check_steps(mixer, params, counts, name=""):
    """Compares steps of `counts` positions with all positions at once; returns the last cache.

    Of three beams, each of which goes on from a random one behind every step.
    """
    B, W, T, random = 2, 3, sum(counts), np.random.default_rng(2)
    x_BWTD = random.standard_normal((B, W, T, D)).astype(np.float32)
    kept, history, start = begin(mixer, params, x_BWTD[:, :, :1]), x_BWTD[:, :, :0], 0
    kept = cache.grow(kept, -(-LONG // kept.ancestry_BWP.shape[2]))
    for count in counts:
        new = x_BWTD[:, :, start : start + count]
        history = np.concatenate([history, new], axis=2)
        y_BWTD, kept = step(mixer, params, new, start, kept)
        start += count
        padded = np.zeros((B * W, LONG, D), np.float32)
        padded[:, :start] = history.reshape(B * W, start, D)
        expected = mix(mixer, params, padded, row([start])[1])[:, start - count : start]
        assert distance(y_BWTD, expected.reshape(y_BWTD.shape)) < 5e-5, (
            f"{name}: a step of {count} that ends before position {start} is not the full pass: "
            "the step, or the state that the steps before it left"
        )
        parents = random.integers(0, W, (B, W))
        history = np.take_along_axis(history, parents[:, :, None, None], axis=1)
        kept = cache.reorder(kept, jnp.asarray(parents))
    return kept
