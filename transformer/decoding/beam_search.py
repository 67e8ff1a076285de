"""Logits -> ids: beam search over any model's step function (of width 1, greedy search).

`step(tokens_BWT, position, memory, cache) -> (logits_BWTV, cache)` and `reorder(cache, parents_BW)
-> cache` are all that the search knows of a model. Beams of a sentence share its memory; how they
share the cache is the model's affair, through `reorder`.

One step of a search, for one sentence, W = 2 beams, no length penalty. The live beams are "The"
(log P -0.4) and "A" (-1.0). The 2W = 4 likeliest continuations are the candidates:

    candidate  parent  token  log P
    0          0       cat    -0.9   lives on
    1          0       </s>   -1.2   ends among the best W: finished, with score -1.2
    2          1       dog    -1.5   lives on
    3          1       </s>   -1.9   ends, but not among the best W: dropped

The new live beams are "The cat" and "A dog", with parents [0, 1], by which the cache is reordered.
Of the finished hypotheses the best W are kept. At most one continuation of a beam is `</s>`, so
that 2W candidates always leave W beams alive.
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
BLOCK = 64  # approximate size of the blocks whose maxima `_likeliest` compares


def length_penalty(length: Array | int, kind: str, alpha: float) -> Array:
    """Returns the divisor of log P(Y) that ranks hypotheses; |Y| counts the end symbol.

    'gnmt' is the paper's, ((5 + |Y|) / 6)^alpha (Wu et al. 2016, equation 14). 'power' is
    |Y|^alpha, as in fairseq, Marian, CTranslate2 and Hugging Face. 'none' is 1.
    """
    if kind == "gnmt":
        return ((5.0 + length) / 6.0) ** alpha
    return (1.0 * length) ** (alpha if kind == "power" else 0.0)


class Bounds(NamedTuple):
    """Constraints on each sentence's output; len(prefix) <= max_length, min_length <= max_length.

    With min_length 2 and max_length 5, the end symbol is forbidden at positions 0 and 1, allowed
    from 2 on, and forced at 5.
    """

    min_length_B: Array  # tokens before the end symbol
    max_length_B: Array  # tokens before the end symbol
    prefix_BM: Array  # forced first tokens, then padding; M: the most room the search can grow to


class DecodingState(NamedTuple):
    """The state of a search, or of sampling, after `t` tokens; its arrays have room for T.

    Hypotheses are padded after the end symbol. Once a sentence is inactive its hypotheses no longer
    change, so that its result does not depend on the other sentences in the batch.
    """

    t: Array
    live_tokens_BWT: Array
    live_log_probs_BW: Array  # -inf: a dead beam
    tokens_BWT: Array  # the finished hypotheses, best first
    scores_BW: Array  # of the finished hypotheses; -inf: an empty slot
    active_B: Array
    cache: Any


def initial_state(cache: Any, batch: int, num_beams: int, room: int) -> DecodingState:
    """Returns the state before the first token."""
    nothing_BWT = jnp.full((batch, num_beams, room), PAD, jnp.int32)
    return DecodingState(
        t=jnp.int32(0),
        live_tokens_BWT=nothing_BWT,
        live_log_probs_BW=jnp.zeros((batch, num_beams), jnp.float32),
        tokens_BWT=nothing_BWT,
        scores_BW=jnp.full((batch, num_beams), -jnp.inf, jnp.float32),
        active_B=jnp.ones(batch, bool),
        cache=cache,
    )


def beam_search(
    step: Step,
    memory: Any,
    state: DecodingState,
    bounds: Bounds,
    *,
    reorder: Callable[[Any, Array], Any],
    penalty: str,
    alpha: float,
    num_hypotheses: int = 1,
    until_active: int = 0,
) -> DecodingState:
    """Continues a search for the hypotheses with the highest log P(Y) / length_penalty(|Y|).

    The module's docstring shows one step. Width 1 is greedy search. Needs alpha >= 0. The loop
    stops when at most `until_active` sentences are active or the room is full.
    """

    def extend(state: DecodingState) -> DecodingState:
        t, W = state.t, state.scores_BW.shape[1]
        log_probs_BWV, cache = log_probs(step, memory, state, bounds)
        V = log_probs_BWV.shape[-1]
        # Before the first token all beams are equal: only beam 0 may continue.
        is_duplicate = (t == 0) & (jnp.arange(W) > 0)
        log_probs_BWV += jnp.where(is_duplicate, -jnp.inf, state.live_log_probs_BW)[:, :, None]

        # E = 2W candidates, best first. Index parent * V + token: 2 * V + 7 is beam 2's token 7.
        log_probs_BE, index_BE = _likeliest(log_probs_BWV, 2 * W)
        parents_BE, token_BE = index_BE // V, index_BE % V
        tokens_BET = _take(state.live_tokens_BWT, parents_BE).at[:, :, t].set(token_BE)
        ends_BE = token_BE == END

        # Candidates that end among the best W compete with the hypotheses finished before.
        finishes_BE = ends_BE & (jnp.arange(2 * W) < W) & state.active_B[:, None]
        scores_BE = log_probs_BE / length_penalty(t + 1, penalty, alpha)
        scores_BE = jnp.where(finishes_BE, scores_BE, -jnp.inf)
        scores_BW, best_BW = jax.lax.top_k(jnp.concatenate([state.scores_BW, scores_BE], 1), W)
        finished = jnp.concatenate([state.tokens_BWT, tokens_BET], axis=1)

        # The best W candidates that do not end live on.
        live_log_probs_BW, live_BW = jax.lax.top_k(jnp.where(ends_BE, -jnp.inf, log_probs_BE), W)
        can_improve_B = _can_improve(
            live_log_probs_BW[:, 0],
            scores_BW[:, num_hypotheses - 1],
            scores_BW[:, -1] > -jnp.inf,
            length_penalty(t + 1, penalty, alpha),
            length_penalty(bounds.max_length_B + 1, penalty, alpha),
        )
        return DecodingState(
            t=t + 1,
            live_tokens_BWT=_take(tokens_BET, live_BW),
            live_log_probs_BW=live_log_probs_BW,
            tokens_BWT=_take(finished, best_BW),
            scores_BW=scores_BW,
            active_B=state.active_B & can_improve_B,
            cache=reorder(cache, jnp.take_along_axis(parents_BE, live_BW, axis=1)),
        )

    return jax.lax.while_loop(functools.partial(is_unfinished, until_active), extend, state)


def _can_improve(
    best_live_log_prob_B: Array,
    worst_returned_score_B: Array,
    has_all_finished_B: Array,
    penalty_now: Array,
    penalty_at_limit_B: Array,
) -> Array:
    """Returns whether the search of a sentence goes on: it is ended early if possible (paper 6.1).

    It ends when the best live beam cannot reach the worst returned score at any length, or when W
    hypotheses are finished and no live beam beats that score at its present length.
    """
    # Log P only falls and the penalty only grows with the length: an upper bound of the score.
    reachable_B = best_live_log_prob_B / penalty_at_limit_B
    # Without `ahead_B`, W poor hypotheses that end early would stop a good one that is longer.
    ahead_B = worst_returned_score_B < best_live_log_prob_B / penalty_now
    return (worst_returned_score_B < reachable_B) & (~has_all_finished_B | ahead_B)


def is_unfinished(until_active: int, state: DecodingState) -> Array:
    """Returns whether there is room for a token and more than `until_active` active sentences."""
    has_room = state.t < state.tokens_BWT.shape[-1]
    return has_room & (state.active_B.sum() > until_active)


def log_probs(step: Step, memory: Any, state: DecodingState, bounds: Bounds) -> tuple[Array, Any]:
    """Returns log P of each beam's next token [B, W, V], -inf where forbidden, and the cache."""
    t = state.t
    logits, cache = step(_last(state.live_tokens_BWT, t), t, memory, state.cache)
    logits_BWV = logits[:, :, 0].astype(jnp.float32)
    vocabulary = jnp.arange(logits_BWV.shape[-1])
    # The end symbol is allowed from min_length on, any other token before max_length.
    allowed_BV = jnp.where(
        vocabulary == END, (t >= bounds.min_length_B)[:, None], (t < bounds.max_length_B)[:, None]
    )
    # Within the prefix, its token alone is allowed.
    prefix_B1 = jax.lax.dynamic_slice_in_dim(bounds.prefix_BM, t, 1, axis=1)
    allowed_BV = jnp.where(prefix_B1 == PAD, allowed_BV, vocabulary == prefix_B1)
    total_BW1 = jax.nn.logsumexp(logits_BWV, axis=-1, keepdims=True)
    return jnp.where(allowed_BV[:, None], logits_BWV - total_BW1, -jnp.inf), cache


def _likeliest(log_probs_BWV: Array, count: int) -> tuple[Array, Array]:
    """Returns the `count` best continuations of all beams: values and indices into W * V.

    Equals jax.lax.top_k over W * V, which is slow; a maximum is fast. The `count` best values lie
    in the `count` blocks with the largest maxima, so top_k runs over the maxima, then over these
    blocks alone. With count 2, blocks of 4:

        index    0  1  2  3 |  4  5  6  7 |  8  9 10 11
        value    1  3  2  0 |  9  8  1  2 |  4  5  0  7     maxima 3, 9, 7: blocks 1 and 2
        top_k of 9 8 1 2 4 5 0 7 gives 0 and 1, which are indices 4 and 5
    """
    B, W, V = log_probs_BWV.shape
    flat = log_probs_BWV.reshape(B, W * V)
    # A block size that divides W * V, if there is one near BLOCK, avoids a copy: of
    # W * V = 148,000 the divisor nearest 64 is 74.
    sizes = [n for n in range(BLOCK // 2, 4 * BLOCK) if W * V % n == 0]
    size = min(sizes, key=lambda n: abs(n - BLOCK), default=min(BLOCK, W * V))
    covered = W * V // size * size
    blocks = flat[:, :covered].reshape(B, -1, size)
    _, best = jax.lax.top_k(blocks.max(axis=-1), min(count, blocks.shape[1]))
    best = jnp.sort(best, axis=1)[:, :, None]  # in order: of ties the first wins, as in top_k
    values = jnp.take_along_axis(blocks, best, axis=1).reshape(B, -1)
    indices = (best * size + jnp.arange(size)).reshape(B, -1)
    if covered < W * V:  # the remainder after the last block always takes part
        rest = jnp.broadcast_to(jnp.arange(covered, W * V), (B, W * V - covered))
        values = jnp.concatenate([values, flat[:, covered:]], axis=1)
        indices = jnp.concatenate([indices, rest], axis=1)
    values, chosen = jax.lax.top_k(values, count)
    return values, jnp.take_along_axis(indices, chosen, axis=1)


def _last(tokens_BWT: Array, t: Array) -> Array:
    """Returns the decoder's input at position t, [B, W, 1]: token t - 1, or START at t = 0."""
    before = jax.lax.dynamic_slice_in_dim(tokens_BWT, jnp.maximum(t - 1, 0), 1, axis=2)
    return jnp.where(t == 0, START, before)


def _take(tokens_BWT: Array, index_BE: Array) -> Array:
    """Gathers hypotheses by beam: [B, W, T] -> [B, E, T]."""
    return jnp.take_along_axis(tokens_BWT, index_BE[:, :, None], axis=1)
