"""Logits -> ids: greedy and beam search over any model's step function.

`step(tokens_BWT, positions_BWT, memory, cache) -> (logits_BWTV, cache)` is all that is known of the
model. The memory belongs to the sentence (leaves [B, ...]); the cache to the beam (leaves [B, W,
...]) and follows it when beams are reordered. Nothing here looks into either.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from transformer.tokenizer import END, PAD, START

Array = jax.Array
Step = Callable[[Array, Array, Any, Any], tuple[Array, Any]]


def length_penalty(length: Array | int, alpha: float) -> Array:
    """((5 + |Y|) / 6)^alpha (Wu et al. 2016, equation 14), |Y| counting the end symbol."""
    return ((5.0 + length) / 6.0) ** alpha


def reorder(cache: Any, parents_BW: Array) -> Any:
    """The cache of each new beam, which is that of its parent."""

    def follow(leaf: Array) -> Array:
        index = parents_BW.reshape(parents_BW.shape + (1,) * (leaf.ndim - 2))
        return jnp.take_along_axis(leaf, index, axis=1)

    return jax.tree.map(follow, cache)


def greedy(step: Step, memory: Any, cache: Any, limits_B: Array, length: int) -> Array:
    """The likeliest token again and again: tokens_BT, ended by the end symbol, then padding.

    `limits_B` is how many tokens each sentence may have before its end symbol, at most `length` -
    1.
    """
    B = len(limits_B)

    def more(state: tuple) -> Array:
        t, _, ended_B, _ = state
        return (t < length) & ~ended_B.all()

    def extend(state: tuple) -> tuple:
        t, tokens_BT, ended_B, cache = state
        logits, cache = step(_last(tokens_BT[:, None], t), jnp.full((B, 1, 1), t), memory, cache)
        token_B = jnp.where(t < limits_B, logits[:, 0, 0].argmax(axis=-1), END)
        token_B = jnp.where(ended_B, PAD, token_B)
        return t + 1, tokens_BT.at[:, t].set(token_B), ended_B | (token_B == END), cache

    start = (0, jnp.full((B, length), PAD, jnp.int32), jnp.zeros(B, bool), cache)
    return jax.lax.while_loop(more, extend, start)[1]


class _Search(NamedTuple):
    t: Array  # tokens so far
    live_tokens_BWT: Array
    live_log_probs_BW: Array
    tokens_BWT: Array  # of the finished hypotheses
    scores_BW: Array  # likewise, best first; -inf where there is none yet
    num_finished_B: Array
    active_B: Array
    cache: Any


def beam_search(
    step: Step,
    memory: Any,
    cache: Any,
    limits_B: Array,
    length: int,
    *,
    beam_width: int,
    alpha: float,
) -> tuple[Array, Array]:
    """The best hypotheses (tokens_BWT, scores_BW), by log P(Y) / length_penalty(|Y|).

    At each step the 2W likeliest continuations of a sentence's W live beams are looked at. Those of
    the best W that are the end symbol become finished hypotheses; the best W others live on. A
    sentence is done when W hypotheses are finished, or no live beam can win any more however long
    it grows (paper 6.1: "terminate early when possible"). At its limit only the end symbol can
    follow. A sentence that is done changes no more, so that it does not depend on its neighbours in
    the batch. Width 1 is greedy search.

    `cache` is that of one beam a sentence; `limits_B` and `length` as in `greedy`; alpha >= 0.
    """
    B, W = len(limits_B), beam_width
    cache = jax.tree.map(lambda leaf: jnp.repeat(leaf, W, axis=1), cache)

    def more(state: _Search) -> Array:
        return (state.t < length) & state.active_B.any()

    def extend(state: _Search) -> _Search:
        t = state.t
        positions_BWT = jnp.full((B, W, 1), t)
        logits, cache = step(_last(state.live_tokens_BWT, t), positions_BWT, memory, state.cache)
        log_probs_BWV = jax.nn.log_softmax(logits[:, :, 0].astype(jnp.float32))
        V = log_probs_BWV.shape[-1]
        may_go_on = (t < limits_B)[:, None, None] | (jnp.arange(V) == END)
        log_probs_BWV = jnp.where(may_go_on, log_probs_BWV, -jnp.inf)
        log_probs_BWV += state.live_log_probs_BW[:, :, None]

        # N = 2W candidates, best first: so many that W of them do not end.
        log_probs_BN, index_BN = jax.lax.top_k(log_probs_BWV.reshape(B, W * V), min(2 * W, W * V))
        parents_BN, token_BN = index_BN // V, index_BN % V
        tokens_BNT = _take(state.live_tokens_BWT, parents_BN).at[:, :, t].set(token_BN)
        ends_BN = token_BN == END

        finishes_BN = ends_BN & (jnp.arange(ends_BN.shape[1]) < W) & state.active_B[:, None]
        scores_BN = jnp.where(finishes_BN, log_probs_BN / length_penalty(t + 1, alpha), -jnp.inf)
        scores_BW, best_BW = jax.lax.top_k(jnp.concatenate([state.scores_BW, scores_BN], 1), W)
        finished = jnp.concatenate([state.tokens_BWT, tokens_BNT], axis=1)
        num_finished_B = state.num_finished_B + (scores_BN > -jnp.inf).sum(axis=1)

        live_log_probs_BW, live_BW = jax.lax.top_k(jnp.where(ends_BN, -jnp.inf, log_probs_BN), W)
        # Log probabilities only fall and the penalty only grows, so this is the best score in
        # reach.
        reachable_B = live_log_probs_BW[:, 0] / length_penalty(limits_B + 1, alpha)
        return _Search(
            t=t + 1,
            live_tokens_BWT=_take(tokens_BNT, live_BW),
            live_log_probs_BW=live_log_probs_BW,
            tokens_BWT=_take(finished, best_BW),
            scores_BW=scores_BW,
            num_finished_B=num_finished_B,
            active_B=(num_finished_B < W) & (scores_BW[:, 0] < reachable_B),
            cache=reorder(cache, jnp.take_along_axis(parents_BN, live_BW, axis=1)),
        )

    nothing_BWT = jnp.full((B, W, length), PAD, jnp.int32)
    alone_BW = jnp.where(jnp.arange(W) == 0, 0.0, jnp.full((B, W), -jnp.inf))
    start = _Search(
        t=jnp.int32(0),
        live_tokens_BWT=nothing_BWT,
        live_log_probs_BW=alone_BW,
        tokens_BWT=nothing_BWT,
        scores_BW=jnp.full((B, W), -jnp.inf),
        num_finished_B=jnp.zeros(B, jnp.int32),
        active_B=jnp.ones(B, bool),
        cache=cache,
    )
    found = jax.lax.while_loop(more, extend, start)
    return found.tokens_BWT, found.scores_BW


def _last(tokens_BWT: Array, t: Array) -> Array:
    """The decoder's input at position t, [B, W, 1]: the token before it, or the start symbol."""
    before = jax.lax.dynamic_slice_in_dim(tokens_BWT, jnp.maximum(t - 1, 0), 1, axis=2)
    return jnp.where(t == 0, START, before)


def _take(tokens_BWT: Array, index_BN: Array) -> Array:
    return jnp.take_along_axis(tokens_BWT, index_BN[:, :, None], axis=1)
