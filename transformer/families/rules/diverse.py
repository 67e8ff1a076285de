"""config.decode.method='diverse': diverse beam search (Vijayakumar et al. 2018).

The beams are in groups, each with its own beam search. In each step the groups choose one after the
other, and log P of a token falls by `diversity` for each beam of an earlier group that lives on
with it (Hamming diversity). A score includes these penalties. The first group has none: it finds
what beam search of its width finds.
"""

from typing import Any

import jax
import jax.numpy as jnp

from transformer.data.tokenizer import Pieces
from transformer.decoding import beam_search
from transformer.decoding.beam_search import Bounds, DecodingState, Step
from transformer.decoding.methods import Decode, Method, Rule
from transformer.errors import UserError
from transformer.models.cache import reorder

Array = jax.Array
OF_BEAMS = ("live_tokens_BWT", "live_log_probs_BW", "tokens_BWT", "scores_BW")  # of a state


def method(decode: Decode, vocabulary: Pieces | None = None) -> Method:
    """Returns diverse beam search; UserError if the groups do not divide the beams."""
    if decode.beam_width % decode.groups:
        raise UserError(
            f"config.decode.groups={decode.groups} must divide "
            f"config.decode.beam_width={decode.beam_width}"
        )
    made, size = beam_search.method(decode), decode.beam_width // decode.groups
    options = {**dict(made.options), "groups": decode.groups, "diversity": decode.diversity}
    options["num_hypotheses"] = min(size, decode.num_hypotheses)
    # The hypotheses of all groups are returned, to be ranked together.
    return made._replace(
        extend=extend, options=tuple(options.items()), num_returned=decode.beam_width, rank=distinct
    )


def distinct(scored: list[tuple[str, float]]) -> list[tuple[str, float]]:
    """Returns the hypotheses of all groups, best first; a text of several groups occurs once."""
    best = {}
    for text, score in sorted(scored, key=lambda hypothesis: -hypothesis[1]):
        best.setdefault(text, score)
    return [*best.items()]


def extend(
    step: Step,
    memory: Any,
    bounds: Bounds,
    state: DecodingState,
    *,
    groups: int,
    diversity: float,
    never: tuple[int, ...] = (),
    rules: tuple[Rule, ...] = (),
    rng_B: Array | None = None,
    **options: Any,
) -> DecodingState:
    """Takes one step of all groups; `options` are those of beam_search.select."""
    t, (B, W) = state.t, state.scores_BW.shape
    log_probs_BWV, cache = beam_search.next_log_probs(step, memory, bounds, state, never, rules)
    V, size = log_probs_BWV.shape[2], W // groups
    chosen_BV = jnp.zeros((B, V))  # how many beams of earlier groups live on with a token
    after = []  # the state of each group
    for first in range(0, W, size):
        part = lambda x, first=first: x[:, first : first + size]
        # What beam search keeps of these beams. Their indices stand for the cache.
        group = state._replace(**{name: part(getattr(state, name)) for name in OF_BEAMS})
        # A group that has ended has no live beams, and goes on no more.
        has_live_B = (group.live_log_probs_BW > -jnp.inf).any(axis=1)
        group = group._replace(active_B=state.active_B & has_live_B)
        beams_BW = jnp.broadcast_to(jnp.arange(first, first + size), (B, size))
        scores_BWV = part(log_probs_BWV) - diversity * chosen_BV[:, None]
        candidates = beam_search.likeliest_candidates(scores_BWV, group)
        group = beam_search.select(candidates, beams_BW, group, bounds, **options)
        live_BW = jnp.where(group.active_B[:, None], group.live_log_probs_BW, -jnp.inf)
        after.append(group._replace(live_log_probs_BW=live_BW))
        token_BW1 = jax.lax.dynamic_slice_in_dim(group.live_tokens_BWT, t, 1, axis=2)
        is_chosen_BWV = (token_BW1 == jnp.arange(V)) & (live_BW > -jnp.inf)[:, :, None]
        chosen_BV += is_chosen_BWV.sum(axis=1)
    joined = lambda name: jnp.concatenate([getattr(group, name) for group in after], axis=1)
    return DecodingState(
        t=t + 1,
        **{name: joined(name) for name in OF_BEAMS},
        active_B=jnp.stack([group.active_B for group in after]).any(axis=0),
        cache=reorder(cache, joined("cache")),
    )
