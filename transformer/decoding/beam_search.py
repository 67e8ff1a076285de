"""Logits -> ids: beam search over any model's step function; of width 1, greedy search.

The search only calls a model's `step(tokens_BWT, position, memory, cache) -> (logits_BWTV, cache)`.
Beams of a sentence share its memory; models/cache.py describes how a cache follows them.

Example: one step for one sentence, W = 2 beams, no length penalty. The live beams are "The"
(log P -0.4) and "A" (-1.0). The 2W = 4 likeliest continuations are the candidates:

    candidate  parent  token  log P
    0          0       cat    -0.9   lives on
    1          0       </s>   -1.2   ends among the best W: finished, with score -1.2
    2          1       dog    -1.5   lives on
    3          1       </s>   -1.9   ends, but not among the best W: dropped

The new live beams are "The cat" and "A dog". Their parents [0, 1] reorder the cache. The best W
finished hypotheses are kept. At most one continuation of a beam is `</s>`, so 2W candidates always
leave W beams alive.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from transformer.data.tokenizer import END, PAD, START, Pieces
from transformer.decoding.methods import Decode, Method, Rule, check_num_hypotheses
from transformer.decoding.selection import divided, likeliest, take_along_axis
from transformer.models.cache import grow, lengthened, reorder

Array = jax.Array
Ids, Rules = tuple[int, ...], tuple[Rule, ...]
Step = Callable[[Array, Array, Any, Any], tuple[Array, Any]]


def method(decode: Decode, vocabulary: Pieces | None = None) -> Method:
    """Returns beam search with the options of config.decode; UserError for more hypotheses."""
    check_num_hypotheses(decode, "beam_width")
    options = {"penalty": decode.length_penalty, "alpha": decode.length_alpha}
    options |= {"stopping": decode.stopping, "num_hypotheses": decode.num_hypotheses}
    return Method(extend, tuple(options.items()), decode.beam_width, decode.num_hypotheses)


def length_penalty(length: Array | int, kind: str, alpha: float) -> Array:
    """Returns the divisor of log P(Y) in a hypothesis's score; |Y| counts the end symbol.

    'gnmt' is the paper's, ((5 + |Y|) / 6)^alpha (Wu et al. 2016, equation 14). 'power' is
    |Y|^alpha, as in fairseq, Marian, CTranslate2 and Hugging Face. 'none' is 1.
    """
    if kind == "gnmt":
        return ((5.0 + length) / 6.0) ** alpha
    return (1.0 * length) ** (alpha if kind == "power" else 0.0)


class Bounds(NamedTuple):
    """Constraints on each sentence's output; len(prefix) <= max_length, min_length <= max_length.

    With min_length 2 and max_length 5, the end symbol is forbidden at positions 0 and 1, allowed at
    2 to 4, and forced at 5.
    """

    min_length_B: Array  # tokens before the end symbol
    max_length_B: Array  # tokens before the end symbol
    prefix_BM: Array  # forced first tokens, then padding; M is the largest room of the search
    # `Part.required`, padded: P phrases of up to L tokens, for methods with `Method.required`
    required_BPL: Array | None = None


class DecodingState(NamedTuple):
    """The state of a search after `t` tokens; its arrays have room for T.

    Hypotheses are padded after the end symbol. An inactive sentence's hypotheses no longer change,
    so its result does not depend on the rest of the batch.
    """

    t: Array
    live_tokens_BWT: Array
    live_log_probs_BW: Array  # -inf for a dead beam
    tokens_BWT: Array  # the finished hypotheses, best first
    scores_BW: Array  # of the finished hypotheses; -inf for an empty slot
    active_B: Array
    cache: Any

    def grow(self, times: int) -> "DecodingState":
        """Makes room for `times` as many tokens."""
        return self._replace(
            live_tokens_BWT=lengthened(self.live_tokens_BWT, 2, times),  # its zeros are PAD
            tokens_BWT=lengthened(self.tokens_BWT, 2, times),
            cache=grow(self.cache, times),
        )


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
    """The E = 2W likeliest continuations of a sentence's live beams by one token, best first."""

    log_probs_BE: Array  # -inf for no continuation
    parents_BE: Array  # the beam that each continues
    tokens_BET: Array
    ends_BE: Array  # whether token t is the end symbol


def extend(
    step: Step,
    memory: Any,
    bounds: Bounds,
    state: DecodingState,
    *,
    never: Ids = (),
    rules: Rules = (),
    rng_B: Array | None = None,
    **options: Any,
) -> DecodingState:
    """Takes one step of a search for the highest log P(Y) / length_penalty(|Y|).

    The module's docstring has an example. No hypothesis contains a token of `never`. Rules change
    log P. Beam search ignores `rng_B`, the keys of sampling methods. `options` are those of
    `select`.
    """
    candidates, cache = find_candidates(step, memory, bounds, state, never, rules)
    return select(candidates, cache, state, bounds, **options)


def find_candidates(
    step: Step, memory: Any, bounds: Bounds, state: DecodingState, never: Ids, rules: Rules
) -> tuple[Candidates, Any]:
    """Returns the candidates of t + 1 tokens, and the cache with the live beams' last tokens."""
    if rules:
        log_probs_BWV, cache = next_log_probs(step, memory, bounds, state, never, rules)
        return likeliest_candidates(log_probs_BWV, state), cache
    logits_BWV, total_BW, cache = next_logits(step, memory, state)
    forbidden_BF, forced_B = constraints(state.t, bounds, never)
    _, W, V = logits_BWV.shape
    # Unlike `next_log_probs`, this writes no array of log P of all V tokens.
    offset_BW = continued_log_probs(state) - total_BW

    # The index is parent * V + token: 2 * V + 7 is token 7 of beam 2.
    log_probs_BE, index_BE = likeliest(logits_BWV, offset_BW, forbidden_BF, 2 * W)
    # A forced token is each beam's only continuation: W candidates, then W with log P -inf.
    forced_BW = take_along_axis(logits_BWV, forced_B[:, None, None], axis=2)[:, :, 0]
    forced_BE = jnp.pad(forced_BW + offset_BW, ((0, 0), (0, W)), constant_values=-jnp.inf)
    forced_BE, beam_BE = jax.lax.top_k(forced_BE, 2 * W)
    is_forced_B1 = (forced_B != PAD)[:, None]
    log_probs_BE = jnp.where(is_forced_B1, forced_BE, log_probs_BE)
    beam_BE = jnp.minimum(beam_BE, W - 1)  # any beam will do for log P -inf
    index_BE = jnp.where(is_forced_B1, beam_BE * V + forced_B[:, None], index_BE)
    return continuations(log_probs_BE, index_BE, V, state), cache


def likeliest_candidates(log_probs_BWV: Array, state: DecodingState) -> Candidates:
    """Returns the candidates by log P of all tokens at position t, -inf if not allowed."""
    B, W, V = log_probs_BWV.shape
    nothing_BF = jnp.zeros((B, 1), bool)
    chosen = likeliest(log_probs_BWV, continued_log_probs(state), nothing_BF, 2 * W)
    return continuations(*chosen, V, state)


def continued_log_probs(state: DecodingState) -> Array:
    """Returns log P of the live beams [B, W]; at first they are equal, and only beam 0 goes on."""
    is_duplicate = (state.t == 0) & (jnp.arange(state.scores_BW.shape[1]) > 0)
    return jnp.where(is_duplicate, -jnp.inf, state.live_log_probs_BW)


def continuations(log_probs_BE: Array, index_BE: Array, V: int, state: DecodingState) -> Candidates:
    """Returns candidates of indices parent * V + token."""
    parents_BE, token_BE = divided(index_BE, V)
    tokens_BET = take(state.live_tokens_BWT, parents_BE).at[:, :, state.t].set(token_BE)
    return Candidates(log_probs_BE, parents_BE, tokens_BET, token_BE == END)


def select(
    candidates: Candidates,
    cache: Any,
    state: DecodingState,
    bounds: Bounds,
    *,
    penalty: str,
    alpha: float,
    stopping: str = "best",
    num_hypotheses: int = 1,
) -> DecodingState:
    """Returns the state after the next token: selects the live and the finished candidates.

    Needs alpha >= 0. `stopping` is a rule of `goes_on` for the best `num_hypotheses`.
    """
    log_probs_BE, parents_BE, tokens_BET, ends_BE = candidates
    t, W = state.t, state.scores_BW.shape[1]
    # Candidates among the best W that end compete with the hypotheses finished before.
    finishes_BE = ends_BE & (jnp.arange(2 * W) < W) & state.active_B[:, None]
    scores_BE = log_probs_BE / length_penalty(t + 1, penalty, alpha)
    scores_BE = jnp.where(finishes_BE, scores_BE, -jnp.inf)
    scores_BW, best_BW = jax.lax.top_k(jnp.concatenate([state.scores_BW, scores_BE], 1), W)
    # Slots: the W hypotheses finished before, then the E candidates.
    finished = jnp.concatenate([state.tokens_BWT, tokens_BET], axis=1)

    # The best W candidates that do not end live on.
    live_log_probs_BW, live_BW = jax.lax.top_k(jnp.where(ends_BE, -jnp.inf, log_probs_BE), W)

    # most_B is an upper bound: as a hypothesis grows, log P falls and the penalty rises.
    best_live_B = live_log_probs_BW[:, 0]
    score_now_B = best_live_B / length_penalty(t + 1, penalty, alpha)
    most_B = best_live_B / length_penalty(bounds.max_length_B + 1, penalty, alpha)
    goes_on_B = goes_on(stopping, num_hypotheses, scores_BW, score_now_B, most_B)
    # An inactive sentence stays inactive and keeps its finished hypotheses.
    return DecodingState(
        t=t + 1,
        live_tokens_BWT=take(tokens_BET, live_BW),
        live_log_probs_BW=live_log_probs_BW,
        tokens_BWT=take(finished, best_BW),
        scores_BW=scores_BW,
        active_B=state.active_B & goes_on_B,
        cache=reorder(cache, take_along_axis(parents_BE, live_BW, axis=1)),
    )


def goes_on(
    stopping: str, num_hypotheses: int, scores_BW: Array, score_now_B: Array, most_B: Array
) -> Array:
    """Returns whether each sentence's search continues (early stopping, paper 6.1).

    `scores_BW` are the finished hypotheses' scores, best first. `score_now_B` is the score of the
    best live beam at its current length, and `most_B` the upper bound of its final score. A search
    ends when no live beam can beat the worst hypothesis to return, and earlier by `stopping`:

        best     when W hypotheses are finished, and no live beam is ahead of those to return
        full     when W hypotheses are finished, as in fairseq and CTranslate2
        ahead    when the hypotheses to return are finished, and no live beam is ahead of them

    With 'full', W poor short hypotheses can stop a good longer one.
    """
    worst_returned_B = scores_BW[:, num_hypotheses - 1]
    is_full_B, is_ahead_B = scores_BW[:, -1] > -jnp.inf, worst_returned_B < score_now_B
    rules = {"best": ~is_full_B | is_ahead_B, "full": ~is_full_B, "ahead": is_ahead_B}
    return (worst_returned_B < most_B) & rules[stopping]


def is_unfinished(until_active: int, state: DecodingState) -> Array:
    """Returns whether the loop continues: room for a token, more than `until_active` sentences."""
    has_room = state.t < state.tokens_BWT.shape[-1]
    return has_room & (state.active_B.sum() > until_active)


def last_tokens(state: DecodingState) -> Array:
    """Returns the decoder's input at position t, [B, W, 1]: token t - 1, or START at t = 0."""
    before = jnp.maximum(state.t - 1, 0)
    tokens_BW1 = jax.lax.dynamic_slice_in_dim(state.live_tokens_BWT, before, 1, axis=2)
    return jnp.where(state.t == 0, START, tokens_BW1)


def take(tokens_BWT: Array, index_BE: Array) -> Array:
    """Gathers hypotheses by beam: [B, W, T] -> [B, E, T]."""
    return take_along_axis(tokens_BWT, index_BE[:, :, None], axis=1)


# Constraints on the next token.


def constraints(t: Array, bounds: Bounds, never: Ids) -> tuple[Array, Array]:
    """Returns (forbidden_BF, forced_B) at position t: a mask over the first F ids, and an id.

    Forbidden are `never`, and </s> before min_length; probabilities are not renormalised. Forced
    are the prefix, and </s> from max_length on; PAD forces no token.
    """
    # The mask covers the first F ids only: F = 4 for END = 1 and never = (0, 3).
    tokens = jnp.arange(max((END, *never)) + 1)
    is_never = (tokens[:, None] == jnp.array(never)).any(axis=1)
    is_too_early_B1 = (t < bounds.min_length_B)[:, None]
    forbidden_BF = is_never | ((tokens == END) & is_too_early_B1)
    # Column t, which is PAD after a prefix.
    prefix_B = jax.lax.dynamic_slice_in_dim(bounds.prefix_BM, t, 1, axis=1)[:, 0]
    return forbidden_BF, jnp.where(t < bounds.max_length_B, prefix_B, END)


def next_logits(step: Step, memory: Any, state: DecodingState) -> tuple[Array, Array, Any]:
    """Returns the logits at position t, their logsumexp, and the cache.

    log P of a token is its logit minus the logsumexp of all logits. Forbidden tokens keep their
    share of it.
    """
    logits, cache = step(last_tokens(state), state.t, memory, state.cache)
    logits_BWV = logits[:, :, 0].astype(jnp.float32)  # T = 1: one new token per beam
    return logits_BWV, jax.nn.logsumexp(logits_BWV, axis=-1), cache


def next_log_probs(
    step: Step, memory: Any, bounds: Bounds, state: DecodingState, never: Ids, rules: Rules
) -> tuple[Array, Any]:
    """Returns log P of all tokens at position t, -inf if not allowed, and the cache.

    For rules, and methods that need the whole distribution. A beam is dropped if rules forbid its
    forced token, unless they forbid it in all live beams. At max_length the beams that may end thus
    remain, and a prefix is always kept.
    """
    logits_BWV, total_BW, cache = next_logits(step, memory, state)
    log_probs_BWV = logits_BWV - total_BW[:, :, None]
    forbidden_BF, forced_B = constraints(state.t, bounds, never)
    V = logits_BWV.shape[-1]
    F = forbidden_BF.shape[1]
    is_forbidden_BV = jnp.pad(forbidden_BF, ((0, 0), (0, V - F)))
    is_forced_BV = jnp.arange(V) == forced_B[:, None]
    free_B = forced_B == PAD
    allowed_BV = jnp.where(free_B[:, None], ~is_forbidden_BV, is_forced_BV)
    if rules:
        ruled_BWV = log_probs_BWV
        for rule in rules:
            ruled_BWV = rule(ruled_BWV, state.live_tokens_BWT, state.t)
        is_out_BWV = (ruled_BWV == -jnp.inf) | (state.live_log_probs_BW == -jnp.inf)[:, :, None]
        is_dropped_BWV = is_out_BWV & ~is_out_BWV.all(axis=1, keepdims=True)
        forced_BWV = jnp.where(is_dropped_BWV, -jnp.inf, log_probs_BWV)
        log_probs_BWV = jnp.where(free_B[:, None, None], ruled_BWV, forced_BWV)
    return jnp.where(allowed_BV[:, None], log_probs_BWV, -jnp.inf), cache
