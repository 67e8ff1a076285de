"""Functions that recurrent mixers share: starts of texts, a scan over chunks, a step of beams."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from transformer.models import dense
from transformer.models.cache import Queries

Array = jax.Array
Tree = Any


def text_starts(x_BTD: Array, segments_BT: Array | None) -> Array:
    """Returns where a row continues with another text, or with padding: bool [B, T].

    Segments 1 1 2 2 0 give 0 0 1 0 1. The first position is not a start, because it continues
    the scan's initial state.
    """
    if segments_BT is None:
        return jnp.zeros(x_BTD.shape[:2], bool)
    return jnp.diff(segments_BT, axis=1, prepend=segments_BT[:, :1]) != 0


def reverse(arrays: Tree) -> Tree:
    """Returns arrays [B, T, ...] with the positions reversed."""
    return jax.tree.map(lambda x: jnp.flip(x, axis=1), arrays)


def scan_chunks(function: Callable, state: Tree, arrays: Tree, chunk: int) -> tuple[Tree, Array]:
    """Applies function(state, arrays) -> (state, y) to the chunks of positions in turn.

    The arrays are [B, T, ...], and [B, chunk, ...] in a call. The last chunk is padded with zeros
    (and False), which must not change the state. Returns the last state and y [B, T, ...].

    The backward pass recomputes each chunk, so that only the arrays and the states between chunks
    are kept.
    """
    T = jax.tree.leaves(arrays)[0].shape[1]
    # A step of decoding may be shorter than a chunk.
    chunk = min(T, chunk)
    count = -(-T // chunk)
    pad = lambda x: jnp.pad(x, [(0, 0), (0, count * chunk - T), *[(0, 0)] * (x.ndim - 2)])
    # [B, T, ...] -> [count, B, chunk, ...], because lax.scan loops over axis 0.
    split = lambda x: dense.split(pad(x), count)
    # In a loop, preventing common subexpression elimination is unnecessary, and costs time.
    function = jax.checkpoint(function, prevent_cse=False)
    state, y = jax.lax.scan(function, state, jax.tree.map(split, arrays))
    # [count, B, chunk, ...] -> [B, count * chunk, ...], without the padding after T.
    _, B, _, *rest = y.shape
    return state, y.swapaxes(0, 1).reshape(B, count * chunk, *rest)[:, :T]


def step_beams(
    function: Callable, x_BQD: Array, queries: Queries, state: Tree
) -> tuple[Array, Tree]:
    """Applies function(x [B * W, T, D], arrays [B * W, ...]) -> (y, arrays) to all beams.

    Returns the outputs in the order of the queries, and the new state.
    """
    x_BWTD = queries.per_beam(x_BQD)
    beams = x_BWTD.shape[:2]
    # Row b * W + w is beam w of sentence b.
    as_rows = lambda x: x.reshape(-1, *x.shape[2:])
    as_beams = lambda x: x.reshape(*beams, *x.shape[1:])
    y, arrays = function(as_rows(x_BWTD), jax.tree.map(as_rows, state))
    return queries.in_order(as_beams(y)), jax.tree.map(as_beams, arrays)
