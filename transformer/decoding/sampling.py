"""Sampling from the model's distribution."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from transformer.data.tokenizer import END
from transformer.decoding.beam_search import (
    Bounds,
    Search,
    is_unfinished,
    length_penalty,
    log_probs,
)

Array = jax.Array
Step = Callable[[Array, Array, Any, Any], tuple[Array, Any]]


def sample(
    step: Step,
    memory: Any,
    search: Search,
    bounds: Bounds,
    rng_B: Array,
    *,
    penalty: str,
    alpha: float,
    temperature: float,
    top_k: int,
    top_p: float,
    until_active: int = 0,
) -> Search:
    """W hypotheses a sentence, each token drawn from P^(1 / temperature), scored by P.

    Of the vocabulary, only the `top_k` likeliest tokens take part (0: all), and of these only the
    likeliest that have `top_p` of the probability together (the nucleus, Holtzman et al. 2020). A
    sentence's draws depend on its key alone. A beam that has ended is not alive any more.
    """

    def extend(search: Search) -> Search:
        t = search.t
        log_probs_BWV, cache = log_probs(step, memory, search, bounds)
        logits_BWV = nucleus(log_probs_BWV / temperature, top_k=top_k, top_p=top_p)
        rng_B_t = jax.vmap(jax.random.fold_in, (0, None))(rng_B, t)
        token_BW = jax.vmap(jax.random.categorical)(rng_B_t, logits_BWV)
        chosen = jnp.take_along_axis(log_probs_BWV, token_BW[:, :, None], axis=2)
        log_probs_BW = search.live_log_probs_BW + chosen[:, :, 0]
        live_tokens_BWT = search.live_tokens_BWT.at[:, :, t].set(token_BW)
        ends_BW = (token_BW == END) & (search.live_log_probs_BW > -jnp.inf)
        scores_BW = log_probs_BW / length_penalty(t + 1, penalty, alpha)
        live_log_probs_BW = jnp.where(token_BW == END, -jnp.inf, log_probs_BW)
        return Search(
            t=t + 1,
            live_tokens_BWT=live_tokens_BWT,
            live_log_probs_BW=live_log_probs_BW,
            tokens_BWT=jnp.where(ends_BW[:, :, None], live_tokens_BWT, search.tokens_BWT),
            scores_BW=jnp.where(ends_BW, scores_BW, search.scores_BW),
            num_finished_B=search.num_finished_B + ends_BW.sum(axis=1),
            active_B=(live_log_probs_BW > -jnp.inf).any(axis=1),
            cache=cache,
        )

    return jax.lax.while_loop(functools.partial(is_unfinished, until_active), extend, search)


def nucleus(logits_BWV: Array, *, top_k: int, top_p: float) -> Array:
    """The logits, -inf where a token is not among the `top_k` likeliest or outside the nucleus.

    The nucleus is the fewest likeliest tokens with at least `top_p` of the probability; tokens as
    likely as its least likely one are in it. `top_k` 0 and `top_p` 1 keep everything.
    """
    V = logits_BWV.shape[-1]
    if 0 < top_k < V:
        least_BW1 = jax.lax.top_k(logits_BWV, top_k)[0][..., -1:]
        logits_BWV = jnp.where(logits_BWV < least_BW1, -jnp.inf, logits_BWV)
    if top_p < 1:
        probs_BWV = jax.nn.softmax(logits_BWV)
        sorted_BWV = jnp.sort(probs_BWV, axis=-1, descending=True)
        before_BWV = jnp.cumsum(sorted_BWV, axis=-1) - sorted_BWV
        least_BW1 = jnp.where(before_BWV < top_p, sorted_BWV, jnp.inf).min(axis=-1, keepdims=True)
        logits_BWV = jnp.where(probs_BWV < least_BW1, -jnp.inf, logits_BWV)
    return logits_BWV
