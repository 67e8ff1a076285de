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

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from transformer.data.tokenizer import END, PAD, START
from transformer.decoding.next_tokens import (
    Bounds,
    constraints,
    divided,
    likeliest,
    take_along_axis,
)

Array = jax.Array
Step = Callable[[Array, Array, Any, Any], tuple[Array, Any]]

PENALTIES = ("gnmt", "power", "none")
# Stopping criterion of a sentence's search, with W beams. 'best': W hypotheses are finished, and no
# live beam is ahead of those to return. 'full': W are finished, as in fairseq and CTranslate2.
# 'ahead': those to return are finished, and no live beam is ahead of them.
STOPPING = ("best", "full", "ahead")


def length_penalty(length: Array | int, kind: str, alpha: float) -> Array:
    """Returns the divisor of log P(Y) that ranks hypotheses; |Y| counts the end symbol.

    'gnmt' is the paper's, ((5 + |Y|) / 6)^alpha (Wu et al. 2016, equation 14). 'power' is
    |Y|^alpha, as in fairseq, Marian, CTranslate2 and Hugging Face. 'none' is 1.
    """
    if kind == "gnmt":
        return ((5.0 + length) / 6.0) ** alpha
    return (1.0 * length) ** (alpha if kind == "power" else 0.0)


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


class Candidates(NamedTuple):
    """The E = 2W likeliest continuations of a sentence's live beams by a token, best first."""

    log_probs_BE: Array  # -inf: no continuation
    parents_BE: Array  # which beam each continues
    tokens_BET: Array
    ends_BE: Array  # whether its token t is the end symbol


def extend(
    step: Step,
    memory: Any,
    bounds: Bounds,
    state: DecodingState,
    *,
    never: tuple[int, ...] = (),
    **options: Any,
) -> DecodingState:
    """Takes one step of a search for the highest log P(Y) / length_penalty(|Y|).

    The module's docstring shows such a step; with width 1 it is greedy. No hypothesis contains a
    token of `never`. `options` are those of `select`.
    """
    return select(*candidates(step, memory, bounds, state, never), state, bounds, **options)


def candidates(
    step: Step, memory: Any, bounds: Bounds, state: DecodingState, never: tuple[int, ...] = ()
) -> tuple[Candidates, Any]:
    """Returns the candidates for hypotheses of t + 1 tokens, and the cache after the live ones."""
    # KV cache: `step` writes the live beams' last tokens; `select` reorders it afterwards.
    t, W = state.t, state.scores_BW.shape[1]
    logits, cache = step(last_tokens(state), t, memory, state.cache)
    logits_BWV = logits[:, :, 0].astype(jnp.float32)  # T = 1: one new token a beam
    # log P of a token is its logit minus the logsumexp of all.
    total_BW = jax.nn.logsumexp(logits_BWV, axis=-1)
    forbidden_BF, forced_B = constraints(t, bounds, never)
    V = logits_BWV.shape[-1]
    # Before the first token all beams are equal: only beam 0 may continue.
    is_duplicate = (t == 0) & (jnp.arange(W) > 0)
    offset_BW = jnp.where(is_duplicate, -jnp.inf, state.live_log_probs_BW) - total_BW

    # Index parent * V + token: 2 * V + 7 is beam 2's token 7.
    log_probs_BE, index_BE = likeliest(logits_BWV, offset_BW, forbidden_BF, 2 * W)
    # A forced token is the only continuation of each beam: W candidates, and W of log P -inf.
    forced_BW = take_along_axis(logits_BWV, forced_B[:, None, None], axis=2)[:, :, 0]
    padding = ((0, 0), (0, W))
    forced_BE = jnp.pad(forced_BW + offset_BW, padding, constant_values=-jnp.inf)
    forced_BE, beam_BE = jax.lax.top_k(forced_BE, 2 * W)
    is_forced_B1 = (forced_B != PAD)[:, None]
    log_probs_BE = jnp.where(is_forced_B1, forced_BE, log_probs_BE)
    beam_BE = jnp.minimum(beam_BE, W - 1)  # candidates of log P -inf may name any beam
    index_BE = jnp.where(is_forced_B1, beam_BE * V + forced_B[:, None], index_BE)

    parents_BE, token_BE = divided(index_BE, V)
    tokens_BET = _take(state.live_tokens_BWT, parents_BE).at[:, :, t].set(token_BE)
    return Candidates(log_probs_BE, parents_BE, tokens_BET, token_BE == END), cache


def select(
    candidates: Candidates,
    cache: Any,
    state: DecodingState,
    bounds: Bounds,
    *,
    reorder: Callable[[Any, Array], Any],
    penalty: str,
    alpha: float,
    stopping: str = "best",
    num_hypotheses: int = 1,
) -> DecodingState:
    """Returns the state after the next token: which candidates live on, and which are finished.

    Needs alpha >= 0. `stopping` is one of STOPPING; the best `num_hypotheses` are returned.
    """
    log_probs_BE, parents_BE, tokens_BET, ends_BE = candidates
    t, W = state.t, state.scores_BW.shape[1]
    # Candidates that end among the best W compete with the hypotheses finished before.
    finishes_BE = ends_BE & (jnp.arange(2 * W) < W) & state.active_B[:, None]
    scores_BE = log_probs_BE / length_penalty(t + 1, penalty, alpha)
    scores_BE = jnp.where(finishes_BE, scores_BE, -jnp.inf)
    scores_BW, best_BW = jax.lax.top_k(jnp.concatenate([state.scores_BW, scores_BE], 1), W)
    # Slots of both: the W finished so far, then the E candidates.
    finished = jnp.concatenate([state.tokens_BWT, tokens_BET], axis=1)

    # The best W candidates that do not end live on.
    live_log_probs_BW, live_BW = jax.lax.top_k(jnp.where(ends_BE, -jnp.inf, log_probs_BE), W)

    # Early stopping, as in paper 6.1: a search ends when its best live beam cannot reach the worst
    # returned score at any length. Log P only falls and the penalty only grows with the length: an
    # upper bound of the score.
    best_live_B, worst_returned_B = live_log_probs_BW[:, 0], scores_BW[:, num_hypotheses - 1]
    is_full_B = scores_BW[:, -1] > -jnp.inf
    penalty_now = length_penalty(t + 1, penalty, alpha)
    reachable_B = best_live_B / length_penalty(bounds.max_length_B + 1, penalty, alpha)
    is_reachable_B = worst_returned_B < reachable_B
    # Before that it ends as STOPPING says: W poor hypotheses that end early would stop a good one
    # that is longer, were it not for `ahead`.
    ahead_B = worst_returned_B < best_live_B / penalty_now
    goes_on_B = {"full": ~is_full_B, "ahead": ahead_B, "best": ~is_full_B | ahead_B}
    can_improve_B = is_reachable_B & goes_on_B[stopping]
    # An inactive sentence stays so, and its finished hypotheses stay, too.
    return DecodingState(
        t=t + 1,
        live_tokens_BWT=_take(tokens_BET, live_BW),
        live_log_probs_BW=live_log_probs_BW,
        tokens_BWT=_take(finished, best_BW),
        scores_BW=scores_BW,
        active_B=state.active_B & can_improve_B,
        cache=reorder(cache, take_along_axis(parents_BE, live_BW, axis=1)),
    )


def is_unfinished(until_active: int, state: DecodingState) -> Array:
    """Returns whether the loop goes on: room for a token, over `until_active` active sentences."""
    has_room = state.t < state.tokens_BWT.shape[-1]
    return has_room & (state.active_B.sum() > until_active)


def last_tokens(state: DecodingState) -> Array:
    """Returns the decoder's input at position t, [B, W, 1]: token t - 1, or START at t = 0."""
    before = jnp.maximum(state.t - 1, 0)
    tokens_BW1 = jax.lax.dynamic_slice_in_dim(state.live_tokens_BWT, before, 1, axis=2)
    return jnp.where(state.t == 0, START, tokens_BW1)


def _take(tokens_BWT: Array, index_BE: Array) -> Array:
    """Gathers hypotheses by beam: [B, W, T] -> [B, E, T]."""
    return take_along_axis(tokens_BWT, index_BE[:, :, None], axis=1)
