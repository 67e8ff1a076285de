"""config.decode.method='sample': ancestral sampling with temperature, top-k and nucleus (top-p)."""

from typing import Any

import jax
import jax.numpy as jnp

from transformer.data.tokenizer import END, Pieces
from transformer.decoding import beam_search, selection
from transformer.decoding.beam_search import Bounds, DecodingState, Step
from transformer.decoding.methods import Decode, Method, Rule

Array = jax.Array

TOGETHER = 8  # samples in a search, because the cost of attention is quadratic in its beams


def method(decode: Decode, vocabulary: Pieces | None = None) -> Method:
    """Returns a method that samples `num_hypotheses` translations, in the order drawn."""
    return samples(decode, decode.num_hypotheses)


def samples(decode: Decode, count: int) -> Method:
    """Returns a method that samples `count` translations."""
    options = {"penalty": decode.length_penalty, "alpha": decode.length_alpha}
    options |= {"temperature": decode.temperature, "top_k": decode.top_k, "top_p": decode.top_p}
    # 20 samples are the first of 21, drawn in 3 searches of 7 beams.
    num_searches = -(-count // TOGETHER)
    return Method(
        extend,
        tuple(options.items()),
        num_beams=-(-count // num_searches),
        num_returned=count,
        num_searches=num_searches,
        draws=True,
    )


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
    rules: tuple[Rule, ...] = (),
) -> DecodingState:
    """Samples the next token of W hypotheses per sentence from P^(1 / temperature).

    It never draws tokens outside the `top_k` likeliest (0: all), outside the nucleus of probability
    `top_p`, or in `never`. The score is the model's log P(Y) / length_penalty(|Y|) under `rules`,
    without temperature and truncation. A sentence's samples depend on its key only.

    The W beams are independent: each keeps its index, and a beam that has ended is dead.
    """
    t = state.t
    log_probs_BWV, cache = beam_search.next_log_probs(step, memory, bounds, state, never, rules)
    logits_BWV = truncate(log_probs_BWV / temperature, top_k=top_k, top_p=top_p)
    # Keys by (sentence, position), so that another batch draws the same tokens.
    rng_of_t_B = jax.vmap(jax.random.fold_in, (0, None))(rng_B, t)
    token_BW = jax.vmap(jax.random.categorical)(rng_of_t_B, logits_BWV)
    chosen = selection.take_along_axis(log_probs_BWV, token_BW[:, :, None], axis=2)
    log_probs_BW = state.live_log_probs_BW + chosen[:, :, 0]
    live_tokens_BWT = state.live_tokens_BWT.at[:, :, t].set(token_BW)
    # A dead beam draws tokens, too, but its log P is -inf, and they are never copied.
    ends_BW = (token_BW == END) & (state.live_log_probs_BW > -jnp.inf)
    # Each sample stays in the slot of its beam, without sorting.
    scores_BW = log_probs_BW / beam_search.length_penalty(t + 1, penalty, alpha)
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


def truncate(logits_BWV: Array, *, top_k: int, top_p: float) -> Array:
    """Masks logits with -inf outside the `top_k` likeliest tokens and outside the nucleus.

    The nucleus (Holtzman et al. 2020) is the smallest set of the likeliest tokens with at least
    `top_p` of the probability, including ties with the least likely token. `top_k` 0 and `top_p` 1
    mask nothing.
    """
    V = logits_BWV.shape[-1]
    if 0 < top_k < V:
        least_BW1 = jax.lax.top_k(logits_BWV, top_k)[0][..., -1:]
        # Compare by value, to keep ties with the k-th.
        logits_BWV = jnp.where(logits_BWV < least_BW1, -jnp.inf, logits_BWV)
    if top_p < 1:
        probs_BWV = jax.nn.softmax(logits_BWV)
        sorted_BWV = jnp.sort(probs_BWV, axis=-1, descending=True)
        # A token is in the nucleus if likelier tokens sum to less than top_p. With top_p 0.7 and
        # probabilities .5 .3 .2, `before` is 0 .5 .8: the nucleus is the first two, `least` is .3.
        before_BWV = jnp.cumsum(sorted_BWV, axis=-1) - sorted_BWV
        least_BW1 = jnp.where(before_BWV < top_p, sorted_BWV, jnp.inf).min(axis=-1, keepdims=True)
        logits_BWV = jnp.where(probs_BWV < least_BW1, -jnp.inf, logits_BWV)
    return logits_BWV
