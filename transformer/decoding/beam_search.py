"""Logits -> ids: beam search over any model's step function (of width 1, greedy search).

`step(tokens_BWT, position, memory, cache) -> (logits_BWTV, cache)` is all that the search knows of
a model. Beams of a sentence share its memory; models/cache.py says how a cache follows them.

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
from transformer.decoding.methods import Decode, Method, check_num_hypotheses
from transformer.models.cache import grow, lengthened, reorder

Array = jax.Array
Step = Callable[[Array, Array, Any, Any], tuple[Array, Any]]

BLOCK = 64  # approximate size of the blocks whose maxima `likeliest` compares
# For indices known to be in bounds: jnp's default mode adds 17 operations of checks to each gather.
take_along_axis = functools.partial(jnp.take_along_axis, mode="promise_in_bounds")


def method(decode: Decode) -> Method:
    """Returns beam search by config.decode; UserError for more hypotheses to output than beams."""
    check_num_hypotheses(decode, "beam_width")
    options = {"penalty": decode.length_penalty, "alpha": decode.length_alpha}
    options |= {"stopping": decode.stopping, "num_hypotheses": decode.num_hypotheses}
    return Method(extend, tuple(options.items()), decode.beam_width, decode.num_hypotheses)


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
    """The state of a search after `t` tokens; its arrays have room for T.

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
    rng_B: Array | None = None,
    **options: Any,
) -> DecodingState:
    """Takes one step of a search for the highest log P(Y) / length_penalty(|Y|).

    The module's docstring shows such a step; with width 1 it is greedy. No hypothesis contains a
    token of `never`. `rng_B` is of methods that draw. `options` are those of `select`.
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
    penalty: str,
    alpha: float,
    stopping: str = "best",
    num_hypotheses: int = 1,
) -> DecodingState:
    """Returns the state after the next token: which candidates live on, and which are finished.

    Needs alpha >= 0. `stopping` is a rule of `goes_on`; the best `num_hypotheses` are returned.
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

    # Log P only falls and the penalty only grows with the length: an upper bound of the score.
    best_live_B = live_log_probs_BW[:, 0]
    score_now_B = best_live_B / length_penalty(t + 1, penalty, alpha)
    most_B = best_live_B / length_penalty(bounds.max_length_B + 1, penalty, alpha)
    goes_on_B = goes_on(stopping, num_hypotheses, scores_BW, score_now_B, most_B)
    # An inactive sentence stays so, and its finished hypotheses stay, too.
    return DecodingState(
        t=t + 1,
        live_tokens_BWT=_take(tokens_BET, live_BW),
        live_log_probs_BW=live_log_probs_BW,
        tokens_BWT=_take(finished, best_BW),
        scores_BW=scores_BW,
        active_B=state.active_B & goes_on_B,
        cache=reorder(cache, take_along_axis(parents_BE, live_BW, axis=1)),
    )


def goes_on(
    stopping: str, num_hypotheses: int, scores_BW: Array, score_now_B: Array, most_B: Array
) -> Array:
    """Returns whether each sentence is searched further: early stopping, as in paper 6.1.

    `scores_BW` are the finished hypotheses' scores, best first; `score_now_B` is that of the best
    live beam at its present length, `most_B` a bound of what it can reach. A search ends when no
    live beam can reach the worst score that is returned, and before that by `stopping`:

        best     when W hypotheses are finished, and no live beam is ahead of those to return
        full     when W hypotheses are finished, as in fairseq and CTranslate2
        ahead    when those to return are finished, and no live beam is ahead of them

    With 'full', W poor hypotheses that end early stop a good one that is longer.
    """
    worst_returned_B = scores_BW[:, num_hypotheses - 1]
    is_full_B, is_ahead_B = scores_BW[:, -1] > -jnp.inf, worst_returned_B < score_now_B
    rules = {"best": ~is_full_B | is_ahead_B, "full": ~is_full_B, "ahead": is_ahead_B}
    return (worst_returned_B < most_B) & rules[stopping]


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


# Which tokens may come next, and which continuations are the likeliest.


def constraints(t: Array, bounds: Bounds, never: tuple[int, ...]) -> tuple[Array, Array]:
    """Returns (forbidden_BF, forced_B) at position t: a mask over the first F ids, and an id.

    Forbidden: `never` everywhere, </s> before min_length (probabilities are not renormalised).
    Forced: the prefix, and </s> from max_length on; PAD means that no token is forced.
    """
    # F = 4 for END = 1 and never = (0, 3): the mask is that short, whatever the vocabulary's size.
    tokens = jnp.arange(max((END, *never)) + 1)
    is_never = (tokens[:, None] == jnp.array(never)).any(axis=1)
    is_too_early_B1 = (t < bounds.min_length_B)[:, None]
    forbidden_BF = is_never | ((tokens == END) & is_too_early_B1)
    # The column of position t; behind a prefix it is PAD.
    prefix_B = jax.lax.dynamic_slice_in_dim(bounds.prefix_BM, t, 1, axis=1)[:, 0]
    return forbidden_BF, jnp.where(t < bounds.max_length_B, prefix_B, END)


def likeliest(
    logits_BWV: Array, offset_BW: Array, forbidden_BF: Array, count: int
) -> tuple[Array, Array]:
    """Returns the `count` best continuations of all beams: values and indices into W * V.

    A top-k over all beams and the whole vocabulary, in two stages.

    The value of a continuation is its logit + its beam's offset, or -inf if its token is one of the
    first F and `forbidden` in its sentence. Equals jax.lax.top_k over W * V (but for the indices of
    -inf), which is slow; a maximum is fast. The `count` best values lie in the `count` blocks with
    the largest maxima, so top_k runs over the maxima, then over these blocks alone. With one beam,
    offset 0, count 2 and blocks of 4:

        index    0  1  2  3 |  4  5  6  7 |  8  9 10 11
        logit    1  3  2  0 |  9  8  1  2 |  4  5  0  7     maxima 3, 9, 7: blocks 1 and 2
        top_k of 9 8 1 2 4 5 0 7 gives 0 and 1, which are indices 4 and 5

    All V logits are read once, for the maxima; an array of the V values would take longer to make.
    """
    B, W, V = logits_BWV.shape
    # A block size that divides V, if there is one near BLOCK, avoids a copy: of V = 37,000 the
    # divisor nearest 64 is 74.
    sizes = [n for n in range(BLOCK // 2, 4 * BLOCK) if V % n == 0]
    size = min(sizes, key=lambda n: abs(n - BLOCK), default=min(BLOCK, V))
    N = -(-V // size)  # blocks of a beam
    if V % size:
        padding = ((0, 0), (0, 0), (0, N * size - V))
        logits_BWV = jnp.pad(logits_BWV, padding, constant_values=-jnp.inf)
    blocks_BWNY = logits_BWV.reshape(B, W, N, size)
    # Forbidden tokens are in the first block: only its maximum is computed without them.
    forbidden_BF = forbidden_BF[:, :size]
    F = forbidden_BF.shape[1]
    forbidden_B1Y = jnp.pad(forbidden_BF, ((0, 0), (0, size - F)))[:, None]
    first_BWY = jnp.where(forbidden_B1Y, -jnp.inf, blocks_BWNY[:, :, 0])
    maxima_BWN = blocks_BWNY.max(axis=-1).at[:, :, 0].set(first_BWY.max(axis=-1))
    maxima_BN = (maxima_BWN + offset_BW[:, :, None]).reshape(B, W * N)

    _, best_BX = jax.lax.top_k(maxima_BN, min(count, W * N))
    best_BX1 = jnp.sort(best_BX)[:, :, None]  # in order: of ties the first wins, as in top_k
    beam_BX1, block_BX1 = divided(best_BX1, N)
    token_BXY = block_BX1 * size + jnp.arange(size)
    value_BXY = take_along_axis(blocks_BWNY.reshape(B, W * N, size), best_BX1, axis=1)
    value_BXY += take_along_axis(offset_BW[:, :, None], beam_BX1, axis=1)
    for token in range(F):
        is_forbidden = (token_BXY == token) & forbidden_BF[:, token, None, None]
        value_BXY = jnp.where(is_forbidden, -jnp.inf, value_BXY)
    values, chosen = jax.lax.top_k(value_BXY.reshape(B, -1), count)
    index_BXY = beam_BX1 * V + jnp.minimum(token_BXY, V - 1)  # padding has the index of a token
    return values, take_along_axis(index_BXY.reshape(B, -1), chosen, axis=1)


def divided(index: Array, divisor: int) -> tuple[Array, Array]:
    """Returns quotient and remainder of index >= 0, in fewer operations than // and %.

    These also handle negative numbers, and have 19 operations each where this has 6.
    """
    quotient = jax.lax.div(index, jnp.asarray(divisor, index.dtype))
    return quotient, index - quotient * divisor
