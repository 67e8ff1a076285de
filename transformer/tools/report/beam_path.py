"""Follows a beam search: what each step considered, and what it kept.

The search is that of `BatchDecoder`, one step at a time: the same compiled functions in the same
order. Nothing is decided here; fates are read from the states between the steps.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from transformer.data import tokenizer
from transformer.decoding import beam_search, compiled
from transformer.decoding.batch_decoder import BatchDecoder
from transformer.decoding.parts import Part
from transformer.distributed import layout

Tree = dict
FATES = ("lives", "finished", "dropped")


class Candidate(NamedTuple):
    """A hypothesis that a step considered: one that lived before it, and one more token."""

    ids: tuple[int, ...]  # the last is the end symbol if it has ended
    log_prob: float
    score: float  # log P / length penalty, of the length so far
    fate: str  # one of FATES


class Step(NamedTuple):
    """One step of a search for one sentence; both lists are best first."""

    candidates: list[Candidate]
    finished: list[tuple[tuple[int, ...], float]]  # the best so far, and their scores


def beam_path(decoder: BatchDecoder, params: Tree, part: Part) -> Iterator[Step]:
    """Yields each step of the beam search for one sentence.

    The first of the last step's `finished` are the hypotheses of `decoder(params, [part])`. A live
    candidate whose continuations are all dropped in the next step died there; those that live after
    the last step could not win any more. `params` come from `compiled.cast_params`.
    """
    if decoder.method != "beam":
        raise ValueError(f"a beam's path is of beam search, found method {decoder.method!r}")
    batch, room = decoder.begin(params, [part])
    # All rows are kept: row 0 is the sentence, the others are padding.
    every_row = np.arange(len(batch[1].active_B))
    batch = compiled.resize(batch, every_row, model=decoder.model, room=room)
    memory, state, bounds, _ = layout.shard_rows(batch, params)
    while beam_search.is_unfinished(0, state):
        candidates, state = compiled.extend(
            params, memory, state, bounds, model=decoder.model, options=decoder.options
        )
        yield _step(candidates, state, dict(decoder.options))


def _step(
    candidates: beam_search.Candidates, state: beam_search.DecodingState, options: dict
) -> Step:
    """Returns a step of the first row, without its empty beams, whose log P is -inf."""
    t = int(state.t)
    penalty = float(beam_search.length_penalty(t, options["penalty"], options["alpha"]))
    live = _hypotheses(state.live_tokens_BWT, state.live_log_probs_BW)
    finished = _hypotheses(state.tokens_BWT, state.scores_BW)
    fates = dict.fromkeys(live, "lives") | dict.fromkeys(finished, "finished")
    considered = _hypotheses(candidates.tokens_BET, candidates.log_probs_BE)
    return Step(
        [
            Candidate(ids, log_prob, log_prob / penalty, fates.get(ids, "dropped"))
            for ids, log_prob in considered.items()
        ],
        list(finished.items()),
    )


def _hypotheses(tokens_BET: np.ndarray, values_BE: np.ndarray) -> dict[tuple[int, ...], float]:
    """Returns {ids: value} of the first row, without padding; no two hypotheses are the same."""
    # Index 0 is the first row of the batch: the one sentence of this search.
    rows = zip(np.asarray(tokens_BET)[0].tolist(), np.asarray(values_BE)[0].tolist(), strict=True)
    return {
        tuple(i for i in ids if i != tokenizer.PAD): value for ids, value in rows if value > -np.inf
    }
