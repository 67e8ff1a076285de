"""Decoding step by step, beside a call with all tokens at once."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from conformance.tiny_models import LENGTH
from helpers import tiny

from transformer.models import cache as models_cache

B, W, ROOM = 2, 3, 9  # sentences, beams, positions of a cache


def begin_bound(model, kind, rooms):
    """Returns memory and a cache of each room, for two sentences; sources get more padding."""
    inputs, _ = kind.batch([[0], [1]], 6)
    source = [inputs[name] for name in kind.source]
    memory = model.encode(*source or [None] * 3, train=False)
    wider = lambda x: jnp.pad(x, ((0, 0), (0, 2), *[(0, 0)] * (x.ndim - 2)))
    mask = wider(source[2] > 0) if source else np.ones((B, 1), bool)
    memory = jax.tree.map(wider, memory)
    prepared = [model.prepare(memory, mask, room, W) for room in rooms]
    return prepared[0][0], *(cache for _, cache in prepared)


@functools.partial(tiny.jit, static_argnums=(0, 1, 2))
def compiled_begin(model, kind, rooms, params):
    method = functools.partial(begin_bound, kind=kind, rooms=rooms)
    return model.apply({"params": params}, method=method)


@functools.partial(tiny.jit, static_argnums=0)
def compiled_step(model, params, *arguments):
    return model.apply({"params": params}, *arguments, method="step")


def begin(case, *rooms):
    """Returns memory and a cache of each room of a tiny model, for two sentences of three beams."""
    return compiled_begin(case.model, case.kind, rooms, case.params)


def full_pass(case, history_BWT):
    """Returns the logits [B, W, T, V] of a call, with a row for each beam."""
    inputs, _ = case.kind.batch([[0]] * W + [[1]] * W, LENGTH)
    T = history_BWT.shape[2]
    tokens = np.zeros((B * W, LENGTH), np.int32)
    tokens[:, :T] = history_BWT.reshape(B * W, T)
    real = np.broadcast_to(np.arange(LENGTH) < T, tokens.shape).astype(np.int32)
    target = zip(case.kind.target, (tokens, real * np.arange(LENGTH), real), strict=True)
    found = case.logits({**inputs, **dict(target)})
    return found.reshape(B, W, *found.shape[1:])[:, :, :T]


def check(case, counts, room):
    """Decodes counts[i] random tokens a beam at once: their logits are those of a call.

    The cache has room for the first steps, and grows to ROOM behind them. Every beam goes on from a
    random one of its own sentence behind each step.
    """
    shapes = lambda tree: jax.tree.map(lambda x: (x.shape, x.dtype.name), tree)
    random, history = np.random.default_rng(0), np.zeros((B, W, 0), int)
    memory, cache, whole = begin(case, room, ROOM)
    for count in counts:
        new, position = random.integers(2, tiny.VOCABULARY, (B, W, count)), history.shape[2]
        history = np.concatenate([history, new], axis=2)
        found, cache = compiled_step(case.model, case.params, new, position, memory, cache)
        expected = full_pass(case, history)[:, :, position:]
        assert np.abs(found - expected).max() < 1e-5, (
            f"{case.name}: with reordered beams in a grown cache, a step of {count} at position "
            f"{position} has not the logits of a call: the step, the state before it, "
            "or an encoder that other padding changes"
        )
        parents = random.integers(0, W, (B, W))
        history = np.take_along_axis(history, parents[:, :, None], axis=1)
        cache = models_cache.reorder(cache, parents)
        cache = models_cache.grow(cache, ROOM // room) if position + count == room else cache
        assert position + count < room or shapes(cache) == shapes(whole), (
            f"{case.name}: a grown cache has not the shapes and types of prepare with its room"
        )
