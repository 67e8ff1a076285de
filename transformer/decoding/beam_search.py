"""Logits -> ids: greedy search, beam search and sampling over any model's step function.

`step(tokens_BWT, position, memory, cache) -> (logits_BWTV, cache)` is all that is known of the
model, and `reorder(cache, parents_BW) -> cache` for beams that go on from others. The memory
belongs to the sentence, the cache to its beams. Nothing here looks into either.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from transformer.data.tokenizer import END, PAD, START

Array = jax.Array
Step = Callable[[Array, Array, Any, Any], tuple[Array, Any]]

PENALTIES = ("gnmt", "power", "none")
BLOCK = 64  # continuations, about, of which `_likeliest` takes the maximum


def length_penalty(length: Array | int, kind: str, alpha: float) -> Array:
    """What log P(Y) is divided by to rank hypotheses; |Y| counts the end symbol.

    'gnmt' is the paper's, ((5 + |Y|) / 6)^alpha (Wu et al. 2016, equation 14). 'power' is
    |Y|^alpha: that of fairseq, Marian, CTranslate2 and Hugging Face. 'none' is 1.
    """
    if kind == "gnmt":
        return ((5.0 + length) / 6.0) ** alpha
    return (1.0 * length) ** (alpha if kind == "power" else 0.0)


def reorder(cache: Any, parents_BW: Array) -> Any:
    """The cache of beams that go on from `parents`, whose leaves are [B, W, ...]."""

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
        logits, cache = step(_last(tokens_BT[:, None], t), t, memory, cache)
        token_B = jnp.where(t < limits_B, logits[:, 0, 0].argmax(axis=-1), END)
        token_B = jnp.where(ended_B, PAD, token_B)
        return t + 1, tokens_BT.at[:, t].set(token_B), ended_B | (token_B == END), cache

    start = (0, jnp.full((B, length), PAD, jnp.int32), jnp.zeros(B, bool), cache)
    return jax.lax.while_loop(more, extend, start)[1]


class Bounds(NamedTuple):
    """What each sentence's output has to keep to; least <= most, and the prefix fits into it."""

    least_B: Array  # tokens before the end symbol
    most_B: Array  # likewise
    prefix_BT: Array  # what it begins with, then padding; T is the most that a search has room for


class Search(NamedTuple):
    """Where a search stands after `t` tokens; T is as many as it has room for.

    Hypotheses end with the end symbol, then padding. A sentence that is not active any more does
    not change: it does not depend on its neighbours in the batch.
    """

    t: Array
    live_tokens_BWT: Array
    live_log_probs_BW: Array  # -inf: not alive
    tokens_BWT: Array  # of the finished hypotheses
    scores_BW: Array  # likewise; -inf where there is none yet
    num_finished_B: Array
    active_B: Array
    cache: Any


def begin(cache: Any, batch: int, num_beams: int, length: int) -> Search:
    """A search that has found nothing yet."""
    nothing_BWT = jnp.full((batch, num_beams, length), PAD, jnp.int32)
    return Search(
        t=jnp.int32(0),
        live_tokens_BWT=nothing_BWT,
        live_log_probs_BW=jnp.zeros((batch, num_beams), jnp.float32),
        tokens_BWT=nothing_BWT,
        scores_BW=jnp.full((batch, num_beams), -jnp.inf, jnp.float32),
        num_finished_B=jnp.zeros(batch, jnp.int32),
        active_B=jnp.ones(batch, bool),
        cache=cache,
    )


def beam_search(
    step: Step,
    memory: Any,
    search: Search,
    bounds: Bounds,
    *,
    penalty: str,
    alpha: float,
    num_hypotheses: int = 1,
    reorder: Callable[[Any, Array], Any] = reorder,
    until_active: int = 0,
) -> Search:
    """Goes on looking for the hypotheses with the best log P(Y) / length_penalty(|Y|), best first.

    At each step the 2W likeliest continuations of a sentence's W live beams are looked at. Those of
    the best W that are the end symbol become finished hypotheses; the best W others live on. A
    sentence is done when W hypotheses are finished and no live beam, as it stands, is better than
    the worst of the best `num_hypotheses`; or when none can come among these any more however long
    it grows (paper 6.1: "terminate early when possible"). At its limit only the end symbol can
    follow. Width 1 is greedy search.

    Stops when at most `until_active` sentences are not done, or there is no more room. alpha >= 0.
    """

    def extend(search: Search) -> Search:
        t, W = search.t, search.scores_BW.shape[1]
        log_probs_BWV, cache = log_probs(step, memory, search, bounds)
        V = log_probs_BWV.shape[-1]
        # All beams are the same at first: one of them is enough.
        first = (t == 0) & (jnp.arange(W) > 0)
        log_probs_BWV += jnp.where(first, -jnp.inf, search.live_log_probs_BW)[:, :, None]

        # N = 2W candidates, best first: so many that W of them do not end.
        log_probs_BN, index_BN = _likeliest(log_probs_BWV, min(2 * W, W * V))
        parents_BN, token_BN = index_BN // V, index_BN % V
        tokens_BNT = _take(search.live_tokens_BWT, parents_BN).at[:, :, t].set(token_BN)
        ends_BN = token_BN == END

        finishes_BN = ends_BN & (jnp.arange(ends_BN.shape[1]) < W) & search.active_B[:, None]
        scores_BN = log_probs_BN / length_penalty(t + 1, penalty, alpha)
        scores_BN = jnp.where(finishes_BN, scores_BN, -jnp.inf)
        scores_BW, best_BW = jax.lax.top_k(jnp.concatenate([search.scores_BW, scores_BN], 1), W)
        finished = jnp.concatenate([search.tokens_BWT, tokens_BNT], axis=1)
        num_finished_B = search.num_finished_B + (scores_BN > -jnp.inf).sum(axis=1)

        live_log_probs_BW, live_BW = jax.lax.top_k(jnp.where(ends_BN, -jnp.inf, log_probs_BN), W)
        # Log probabilities only fall and the penalty only grows, so this is the best score in
        # reach.
        reachable_B = live_log_probs_BW[:, 0] / length_penalty(bounds.most_B + 1, penalty, alpha)
        may_win_B = scores_BW[:, num_hypotheses - 1] < reachable_B
        # Without this, W bad hypotheses that end early would put an end to a good one.
        now_B = live_log_probs_BW[:, 0] / length_penalty(t + 1, penalty, alpha)
        ahead_B = scores_BW[:, num_hypotheses - 1] < now_B
        return Search(
            t=t + 1,
            live_tokens_BWT=_take(tokens_BNT, live_BW),
            live_log_probs_BW=live_log_probs_BW,
            tokens_BWT=_take(finished, best_BW),
            scores_BW=scores_BW,
            num_finished_B=num_finished_B,
            active_B=search.active_B & may_win_B & ((num_finished_B < W) | ahead_B),
            cache=reorder(cache, jnp.take_along_axis(parents_BN, live_BW, axis=1)),
        )

    return jax.lax.while_loop(functools.partial(is_unfinished, until_active), extend, search)


def is_unfinished(until_active: int, search: Search) -> Array:
    room = search.t < search.tokens_BWT.shape[-1]
    return room & (search.active_B.sum() > until_active)


def log_probs(step: Step, memory: Any, search: Search, bounds: Bounds) -> tuple[Array, Any]:
    """log P of each next token given each live beam, -inf for what the bounds forbid; the cache."""
    t = search.t
    logits, cache = step(_last(search.live_tokens_BWT, t), t, memory, search.cache)
    logits_BWV = logits[:, :, 0].astype(jnp.float32)
    vocabulary = jnp.arange(logits_BWV.shape[-1])
    prefix_B1 = jax.lax.dynamic_slice_in_dim(bounds.prefix_BT, t, 1, axis=1)
    allowed_BV = jnp.where(
        vocabulary == END, (t >= bounds.least_B)[:, None], (t < bounds.most_B)[:, None]
    )
    allowed_BV = jnp.where(prefix_B1 == PAD, allowed_BV, vocabulary == prefix_B1)
    total_BW1 = jax.nn.logsumexp(logits_BWV, axis=-1, keepdims=True)
    return jnp.where(allowed_BV[:, None], logits_BWV - total_BW1, -jnp.inf), cache


def _likeliest(log_probs_BWV: Array, count: int) -> tuple[Array, Array]:
    """Returns the best `count` of all beams' continuations, [B, count], and their places in W x V.

    They lie in the `count` blocks of the places with the best maxima: top_k is slow, a maximum is
    not.
    """
    B, W, V = log_probs_BWV.shape
    flat = log_probs_BWV.reshape(B, W * V)
    # Blocks that leave no rest, if there are such: without it, nothing is copied. 4 x 37,000: 74.
    sizes = [n for n in range(BLOCK // 2, 4 * BLOCK) if W * V % n == 0]
    size = min(sizes, key=lambda n: abs(n - BLOCK), default=min(BLOCK, W * V))
    whole = W * V // size * size
    blocks = flat[:, :whole].reshape(B, -1, size)
    _, best = jax.lax.top_k(blocks.max(axis=-1), min(count, blocks.shape[1]))
    best = jnp.sort(best, axis=1)[:, :, None]  # so that of equal ones the first wins, as for top_k
    among = jnp.take_along_axis(blocks, best, axis=1).reshape(B, -1)
    places = (best * size + jnp.arange(size)).reshape(B, -1)
    if whole < W * V:
        rest = jnp.broadcast_to(jnp.arange(whole, W * V), (B, W * V - whole))
        among = jnp.concatenate([among, flat[:, whole:]], axis=1)
        places = jnp.concatenate([places, rest], axis=1)
    values, index = jax.lax.top_k(among, count)
    return values, jnp.take_along_axis(places, index, axis=1)


def _last(tokens_BWT: Array, t: Array) -> Array:
    """The decoder's input at position t, [B, W, 1]: the token before it, or the start symbol."""
    before = jax.lax.dynamic_slice_in_dim(tokens_BWT, jnp.maximum(t - 1, 0), 1, axis=2)
    return jnp.where(t == 0, START, before)


def _take(tokens_BWT: Array, index_BN: Array) -> Array:
    return jnp.take_along_axis(tokens_BWT, index_BN[:, :, None], axis=1)
