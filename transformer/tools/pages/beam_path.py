"""Follows a beam search: what each step considered, and what it kept.

The search is that of `BatchDecoder`, one step at a time: the same compiled functions in the same
order. Nothing is decided here; fates are read from the states between the steps.
"""

import functools
from collections.abc import Iterator
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import numpy as np

from transformer.data import tokenizer
from transformer.decoding import beam_search, compiled
from transformer.decoding.batch_decoder import BatchDecoder, Part
from transformer.decoding.beam_search import Bounds
from transformer.distributed import layout

Tree = Any


class Candidate(NamedTuple):
    """A hypothesis that a step considered: a live beam with one more token."""

    ids: tuple[int, ...]  # the last is the end symbol if it has ended
    log_prob: float
    score: float  # log P / length penalty, of the length so far
    fate: str  # after the step: 'lives', 'finished' or 'dropped'


class Step(NamedTuple):
    """One step of a search for one sentence; both lists are best first."""

    candidates: list[Candidate]
    finished: list[tuple[tuple[int, ...], float]]  # the best so far, and their scores


def beam_path(decoder: BatchDecoder, params: Tree, part: Part) -> Iterator[Step]:
    """Yields each step of the beam search for one sentence.

    The hypotheses of `decoder(params, [part])` are the first of the last step's `finished`. A live
    candidate whose continuations are all dropped in the next step died there; candidates that live
    after the last step could not have won. `params` come from `compiled.cast_params`.
    """
    search = decoder.begin(params, [part])
    # All rows are kept: row 0 is the sentence, the others are padding.
    every_row, most_room = np.arange(len(search.rng_B)), search.bounds.prefix_BM.shape[1]
    search = compiled.resize(search, every_row, room=most_room)
    memory, state, bounds, _ = layout.shard_rows(search, params)
    options = dict(decoder.options)
    while beam_search.is_unfinished(0, state):
        considered, state = _extend(
            params, memory, state, bounds, model=decoder.model, options=decoder.options
        )
        # After the step state.t counts its token, too: it is the length of every candidate.
        penalty = beam_search.length_penalty(int(state.t), options["penalty"], options["alpha"])
        live = _hypotheses(state.live_tokens_BWT, state.live_log_probs_BW)
        finished = _hypotheses(state.tokens_BWT, state.scores_BW)
        # A candidate in neither list was dropped.
        fates = dict.fromkeys(live, "lives") | dict.fromkeys(finished, "finished")
        candidates = []
        for ids, log_prob in _hypotheses(considered.tokens_BET, considered.log_probs_BE).items():
            score = log_prob / float(penalty)
            candidates.append(Candidate(ids, log_prob, score, fates.get(ids, "dropped")))
        yield Step(candidates, list(finished.items()))


@functools.partial(jax.jit, static_argnames=("model", "options"))
def _extend(
    params: Tree,
    memory: Tree,
    state: beam_search.DecodingState,
    bounds: Bounds,
    *,
    model: nn.Module,
    options: tuple,
) -> tuple[beam_search.Candidates, beam_search.DecodingState]:
    """Takes one step of a beam search as `compiled.advance` does: its candidates, and the state."""
    step = functools.partial(model.apply, {"params": params}, method="step")
    candidates, cache = beam_search.candidates(step, memory, bounds, state, never=compiled.NEVER)
    return candidates, beam_search.select(candidates, cache, state, bounds, **dict(options))


def _hypotheses(tokens_BET: np.ndarray, values_BE: np.ndarray) -> dict[tuple[int, ...], float]:
    """Returns {ids: value} of the first row, without padding; no two hypotheses are the same."""
    # Index 0 is the first row of the batch: the one sentence of this search.
    rows = zip(np.asarray(tokens_BET)[0].tolist(), np.asarray(values_BE)[0].tolist(), strict=True)
    # Mask: an empty beam has log P -inf.
    live = [(ids, value) for ids, value in rows if value > -np.inf]
    return {tuple(i for i in ids if i != tokenizer.PAD): value for ids, value in live}
