"""Ancestral sampling with temperature, top-k and nucleus (top-p) truncation, and MBR of samples.

Minimum Bayes risk decoding (MBR) ranks samples by their mean utility against all samples.
"""

import collections
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import sacrebleu

from transformer.data.tokenizer import END, PAD
from transformer.decoding.beam_search import (
    Bounds,
    DecodingState,
    Step,
    constraints,
    last_tokens,
    length_penalty,
    take_along_axis,
)

Array = jax.Array


def extend(
    step: Step,
    memory: Any,
    bounds: Bounds,
    state: DecodingState,
    *,
    rng_B: Array,
    penalty: str,
    alpha: float,
    temperature: float,
    top_k: int,
    top_p: float,
    never: tuple[int, ...] = (),
) -> DecodingState:
    """Samples the next token of W hypotheses a sentence from P^(1 / temperature).

    Tokens outside the `top_k` likeliest (0: all) or outside the nucleus of probability `top_p` are
    never drawn, nor are those of `never`. The score is log P(Y) / length_penalty(|Y|), with P of
    the model: temperature and truncation do not change it. A sentence's samples depend on its key
    alone.

    The W beams are independent: each keeps its index, and a beam that has ended is dead.
    """
    t = state.t
    logits, cache = step(last_tokens(state), t, memory, state.cache)
    logits_BWV = logits[:, :, 0].astype(jnp.float32)  # T = 1: one new token a beam
    # The total is of all logits: forbidden tokens keep their share of P.
    allowed_BV = _allowed(logits_BWV.shape[-1], *constraints(t, bounds, never))
    log_probs_BWV = logits_BWV - jax.nn.logsumexp(logits_BWV, axis=-1)[:, :, None]
    log_probs_BWV = jnp.where(allowed_BV[:, None], log_probs_BWV, -jnp.inf)
    logits_BWV = truncate(log_probs_BWV / temperature, top_k=top_k, top_p=top_p)
    # Keys by (sentence, position): resuming a search in another batch draws the same tokens.
    rng_of_t_B = jax.vmap(jax.random.fold_in, (0, None))(rng_B, t)
    token_BW = jax.vmap(jax.random.categorical)(rng_of_t_B, logits_BWV)
    chosen = take_along_axis(log_probs_BWV, token_BW[:, :, None], axis=2)
    log_probs_BW = state.live_log_probs_BW + chosen[:, :, 0]
    live_tokens_BWT = state.live_tokens_BWT.at[:, :, t].set(token_BW)
    # A dead beam draws tokens, too; its log P is -inf, and they are never copied.
    ends_BW = (token_BW == END) & (state.live_log_probs_BW > -jnp.inf)
    # W samples, each in the slot of its beam: unlike in a search, nothing is sorted or moved.
    scores_BW = log_probs_BW / length_penalty(t + 1, penalty, alpha)
    live_log_probs_BW = jnp.where(token_BW == END, -jnp.inf, log_probs_BW)
    return DecodingState(
        t=t + 1,
        live_tokens_BWT=live_tokens_BWT,
        live_log_probs_BW=live_log_probs_BW,
        tokens_BWT=jnp.where(ends_BW[:, :, None], live_tokens_BWT, state.tokens_BWT),
        scores_BW=jnp.where(ends_BW, scores_BW, state.scores_BW),
        active_B=(live_log_probs_BW > -jnp.inf).any(axis=1),
        cache=cache,
    )


def _allowed(num_tokens: int, forbidden_BF: Array, forced_B: Array) -> Array:
    """Returns the mask [B, V] of the tokens that `constraints` allow."""
    tokens, (_, F), forced_B1 = jnp.arange(num_tokens), forbidden_BF.shape, forced_B[:, None]
    is_forbidden_BV = jnp.pad(forbidden_BF, ((0, 0), (0, num_tokens - F)))
    return jnp.where(forced_B1 == PAD, ~is_forbidden_BV, tokens == forced_B1)


def truncate(logits_BWV: Array, *, top_k: int, top_p: float) -> Array:
    """Masks logits with -inf outside the `top_k` likeliest tokens and outside the nucleus.

    The nucleus (Holtzman et al. 2020) is the smallest set of the likeliest tokens with at least
    `top_p` of the probability, and whatever ties with the least likely of them. `top_k` 0 and
    `top_p` 1 mask nothing.
    """
    V = logits_BWV.shape[-1]
    if 0 < top_k < V:
        least_BW1 = jax.lax.top_k(logits_BWV, top_k)[0][..., -1:]
        # Compared by value, so that ties with the k-th are kept.
        logits_BWV = jnp.where(logits_BWV < least_BW1, -jnp.inf, logits_BWV)
    if top_p < 1:
        probs_BWV = jax.nn.softmax(logits_BWV)
        sorted_BWV = jnp.sort(probs_BWV, axis=-1, descending=True)
        # A token is in the nucleus if those before it have less than top_p. With top_p 0.7 and
        # probabilities .5 .3 .2, `before` is 0 .5 .8: the first two are in, the least is .3.
        before_BWV = jnp.cumsum(sorted_BWV, axis=-1) - sorted_BWV
        least_BW1 = jnp.where(before_BWV < top_p, sorted_BWV, jnp.inf).min(axis=-1, keepdims=True)
        logits_BWV = jnp.where(probs_BWV < least_BW1, -jnp.inf, logits_BWV)
    return logits_BWV


def rank(texts: Sequence[str], *, utility: str) -> list[tuple[str, float]]:
    """Returns the distinct texts with their mean utility, best first; ties in order of appearance.

    The texts are samples from the model, so the mean against all of them estimates the expected
    utility, from 0 to 100 (Eikema and Aziz 2020). A text drawn twice counts twice. `utility` is
    'chrf' or 'bleu', both sentence-level, by sacreBLEU.
    """
    metric = sacrebleu.CHRF() if utility == "chrf" else sacrebleu.BLEU(effective_order=True)
    counts = collections.Counter(texts)
    ranking = []
    # Each distinct text is scored once against each distinct reference, weighted by its count.
    for text in counts:
        total = sum(
            count * metric.sentence_score(text, [reference]).score
            for reference, count in counts.items()
        )
        ranking.append((text, total / len(texts)))
    return sorted(ranking, key=lambda pair: -pair[1])
