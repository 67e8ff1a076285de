"""Ids -> hypotheses: sentences in batches of few static shapes, several batches at a time.

A batch shrinks as its sentences finish, and its room for tokens grows as they get longer. Example:
64 captions of 15 or 16 ids, on one device:

    stage  rows  room  runs until
    1      64    16    t = 16, the room is full; 17 sentences are active
    2      64    32    at most 64 / 4 = 16 sentences are active, at t = 17
    3      16    64    at most 16 / 4 = 4 sentences are active, at t = 19
    4      4     64    the last of them finishes, at t = 23

Rows and room take few values (batch_sizes.py), so that few shapes are compiled.
"""

import concurrent.futures
import contextlib
import functools
from collections.abc import Callable
from typing import NamedTuple

import flax.linen as nn
import jax
import numpy as np

from transformer.data import tokenizer
from transformer.decoding import batch_sizes, compiled
from transformer.decoding.beam_search import Bounds
from transformer.distributed import layout
from transformer.runtime.memory import fits_in_memory

Tree = dict
Hypotheses = list[tuple[list[int], float]]  # of a sentence: (ids without the end symbol, score)

SAMPLES_TOGETHER = 8  # samples in one search: the cost of attention is quadratic in its beams


class Part(NamedTuple):
    """The input of one search: the ids of a line, or of a part of an over-long line."""

    source: tuple[int, ...]
    prefix: tuple[int, ...] = ()
    # (line, part) of a sampled part; the number of the search is appended. Folded into the seed.
    random_key: tuple[int, ...] = ()

    def numbered(self, number: int) -> "Part":
        """Returns the part with the number of its search, so that each draws other samples."""
        return self._replace(random_key=(*self.random_key, number))


class Search(NamedTuple):
    """A search in progress.

    `finish(report)` waits for the end and returns each part's hypotheses, best first, or its
    samples in the order drawn. After each batch `report` gets the fraction of the work that is
    done, up to 1. `cancel()` drops the batches that have not begun, and waits for those that have;
    `finish` does so after an error.
    """

    finish: Callable[[Callable[[float], None]], list[Hypotheses]]
    cancel: Callable[[], None]


class BatchDecoder:
    """Translates ids with a model: the best hypotheses, or samples.

    With `workers` threads, as many batches are searched at the same time on one device; each static
    shape is compiled by one of them.
    """

    def __init__(
        self,
        model: nn.Module,
        *,
        method: str,
        beam_width: int,
        length_penalty: str,
        length_alpha: float,
        stopping: str,
        num_hypotheses: int,
        num_samples: int,
        temperature: float,
        top_k: int,
        top_p: float,
        seed: int,
        min_length: int,
        extra_length: int,
        batch_tokens: int,
        workers: int,
    ):
        """Takes keys of config.decode (configs/translation.py), which translator.py has checked."""
        self.model = model
        self.method = method
        self._min_length, self._extra_length = min_length, extra_length
        self.workers = compiled.Workers(workers)
        options = {"penalty": length_penalty, "alpha": length_alpha}
        if method == "beam":
            self._num_beams, self._num_searches, self._num_returned = beam_width, 1, num_hypotheses
            options |= {"stopping": stopping, "num_hypotheses": num_hypotheses}
        else:
            # 20 samples are drawn in 3 searches of 7 beams; the first 20 of these 21 are returned.
            self._num_returned = num_samples if method == "mbr" else num_hypotheses
            self._num_searches = -(-self._num_returned // SAMPLES_TOGETHER)
            self._num_beams = -(-self._num_returned // self._num_searches)
            options |= {"temperature": temperature, "top_k": top_k, "top_p": top_p}
        self.options = tuple(options.items())  # of the search or of sampling
        self._divide = functools.partial(
            batch_sizes.divide,
            num_searches=self._num_searches,
            batch_tokens=batch_tokens,
            extra_length=extra_length,
        )
        self._start = functools.partial(
            compiled.start, seed=seed, model=model, num_beams=self._num_beams
        )
        self._advance = functools.partial(
            compiled.advance, model=model, beam=method == "beam", options=self.options
        )

    def __call__(self, params: Tree, asked: list[Part]) -> list[Hypotheses]:
        """Returns each part's hypotheses, best first, or its samples in the order drawn."""
        return self.submit(params, asked).finish(lambda share: None)

    def submit(self, params: Tree, asked: list[Part]) -> Search:
        """Begins to search; `params` come from `compiled.cast_params`.

        Parts submitted before this search is finished are queued behind these, so that no worker
        waits. Several devices share each batch: batches then come one after the other, in the
        thread that calls `finish`, because two threads must not launch programs of all devices.
        """
        # Queue of batches, the longest first: what is left for the last workers is short.
        longest = [max(len(part.source), len(part.prefix)) for part in asked]
        devices = layout.num_devices(params)
        batches = self._divide(longest, self.workers.count if devices == 1 else 1, devices)
        numbered = [[asked[i].numbered(number) for i, number in batch] for batch in batches]

        def search(batch: list[Part]) -> list[Hypotheses]:
            with layout.launching(params):
                return self._search_batch(params, batch)

        futures = []
        if devices == 1:
            futures = [self.workers.pool.submit(search, batch) for batch in numbered]

        def finish(report: Callable[[float], None]) -> list[Hypotheses]:
            results = (future.result() for future in futures)
            if devices > 1:
                results = map(search, numbered)
            # (i, number) -> part i; a part's samples come from all of its searches.
            hypotheses_by_part = [[] for _ in asked]
            num_done = 0
            try:
                for batch, searched in zip(batches, numbered, strict=True):
                    with self._fits(searched):
                        hypotheses_by_row = next(results)
                    num_done += len(batch)
                    report(num_done / (len(asked) * self._num_searches))
                    for (i, _), hypotheses in zip(batch, hypotheses_by_row, strict=True):
                        hypotheses_by_part[i] += hypotheses
            except Exception:  # not of Ctrl-C, which need not wait for a batch
                cancel()
                raise
            return [hypotheses[: self._num_returned] for hypotheses in hypotheses_by_part]

        def cancel() -> None:
            # `future.cancel` is False for a batch that has begun: a thread cannot be interrupted.
            begun = [future for future in futures if not future.cancel()]
            concurrent.futures.wait(begun)

        return Search(finish, cancel)

    def rehearse(self, params: Tree, lengths: list[int]) -> None:
        """Runs the last step of a search in the largest shape that sources of these lengths need.

        UserError if the step does not fit into the devices' memory. Earlier steps need about as
        much or less.
        """
        devices = layout.num_devices(params)

        def size(batch: list[tuple[int, int]]) -> tuple[int, int]:
            length = lengths[batch[0][0]]
            rows = batch_sizes.rows_in_powers_of_4(len(batch), devices)
            return rows * batch_sizes.positions_per_row(length, self._extra_length), length

        batches = self._divide(lengths, 1, devices)
        batch = max(batches, key=size)
        length = lengths[batch[0][0]]
        part = Part((tokenizer.UNKNOWN,) * (length - 1) + (tokenizer.END,))
        with self._fits([part] * len(batch)):
            search, most_room = self.begin(params, [part] * len(batch))
            rows = np.arange(len(search[1].tokens_BWT))
            for room in (most_room // 2, most_room):  # growing takes the memory of both
                room = max(room, search[1].tokens_BWT.shape[-1])
                search = compiled.resize(search, rows, room=room)
                search = layout.shard_rows(search, params)
            memory, state, bounds, rng_B = search
            # Only the last step: t = most_room - 1 attends to the whole KV cache.
            state = state._replace(t=state.t + most_room - 1)
            until_active = batch_sizes.fewer_rows(len(rows), devices)
            state = self._advance(params, memory, state, bounds, rng_B, until_active=until_active)
            jax.block_until_ready(state)

    def _fits(self, batch: list[Part]) -> contextlib.AbstractContextManager[None]:
        """Context manager: turns out-of-memory inside into a UserError that names the batch."""
        longest = max(len(part.source) for part in batch)
        size = f"{len(batch)} sentences of {longest} pieces, {self._num_beams} beams each,"
        return fits_in_memory(f"a search of {size}", "lower config.decode.batch_tokens")

    def begin(self, params: Tree, batch: list[Part]) -> tuple[tuple, int]:
        """Encodes a batch; returns ((memory, state, bounds, rng_B), the most room it can need).

        Rows are padded to a power of 4 on each device. The first room is the smallest that
        `batch_sizes.next_room` gives for so many rows.
        """
        devices = layout.num_devices(params)
        num_rows = batch_sizes.rows_in_powers_of_4(len(batch), devices)
        longest = max(len(part.source) for part in batch)
        memory_length = batch_sizes.next_power_of_two(longest, batch_sizes.SHORTEST_MEMORY)
        bounds, most_room = batch_bounds(
            batch, num_rows, min_length=self._min_length, extra_length=self._extra_length
        )
        room = min(most_room, batch_sizes.next_room(1, num_rows // devices))
        sources = [part.source for part in batch]
        source_BS = tokenizer.padded(sources, num_rows, batch_sizes.next_fine_length(longest))
        # (line, part, search) of each row, 0 0 0 for beam search, which draws nothing.
        keys = np.zeros((num_rows, 3), np.int32)
        keys[: len(batch), : len(batch[0].random_key)] = [part.random_key for part in batch]

        source_BS, keys, bounds = layout.shard_rows((source_BS, keys, bounds), params)
        with self.workers.compiling("start", source_BS.shape):
            memory, state, rng_B = self._start(
                params, source_BS, keys, source_length=memory_length, room=room
            )
        return (memory, state, bounds, rng_B), most_room

    def _search_batch(self, params: Tree, batch: list[Part]) -> list[Hypotheses]:
        """Searches a batch in stages of fewer rows or more room (the module's docstring)."""
        devices = layout.num_devices(params)
        (memory, state, bounds, rng_B), most_room = self.begin(params, batch)
        num_rows, _, room = state.tokens_BWT.shape
        longest = max(len(part.source) for part in batch)
        memory_length = batch_sizes.next_power_of_two(longest, batch_sizes.SHORTEST_MEMORY)
        hypotheses, is_open = [[]] * num_rows, np.ones(num_rows, bool)
        # rows[i] is the row of the whole batch that is now row i of the search.
        rows = np.arange(num_rows)
        while True:
            until_active = batch_sizes.fewer_rows(len(rows), devices)
            shape = (memory_length, most_room, *state.tokens_BWT.shape)
            with self.workers.compiling("advance", *shape):
                state = self._advance(
                    params, memory, state, bounds, rng_B, until_active=until_active
                )
            # Blocks until the stage is computed; other workers compute theirs meanwhile.
            active, t = np.asarray(state.active_B), int(state.t)
            done = is_open[rows] & (~active | (t == most_room))
            for row, tokens, scores in zip(
                rows[done],
                np.asarray(state.tokens_BWT)[done, : self._num_returned],
                np.asarray(state.scores_BW)[done, : self._num_returned],
                strict=True,
            ):
                hypotheses[row] = finished(tokens, scores)
            is_open[rows[done]] = False
            if not is_open.any():
                return hypotheses[: len(batch)]
            # Active rows first, in their order, then finished ones as padding, which do not change
            # any more: of active F T F F T, a size of 4 keeps rows 1 4 0 2.
            size = len(rows)
            while (smaller := batch_sizes.fewer_rows(size, devices)) >= active.sum():
                size = smaller
            remaining = np.arange(size)
            if size < len(rows):
                remaining = np.argsort(~active, kind="stable")[:size]
            # Room is a power of two: enough for position t, the one to be written next.
            room = max(room, min(most_room, batch_sizes.next_room(t + 1, size // devices)))
            with self.workers.compiling("resize", *shape, size, room):
                resized = compiled.resize((memory, state, bounds, rng_B), remaining, room=room)
            memory, state, bounds, rng_B = layout.shard_rows(resized, params)
            # Rows 8 9 5 of the whole batch and remaining 2 0 leave rows 5 8.
            rows = rows[remaining]


def batch_bounds(
    batch: list[Part], rows: int, *, min_length: int, extra_length: int
) -> tuple[Bounds, int]:
    """Returns the bounds of a batch padded to `rows`, and the most room its search can need.

    max_length is the source's length + extra_length (paper 6.1), or the prefix's length or
    min_length if one of these is larger. Padded rows have 0: they end at the first step.
    """
    # The source's length is without its end symbol.
    limits = [
        max(len(part.source) - 1 + extra_length, min_length, len(part.prefix)) for part in batch
    ]
    # From the padded length of the longest source, so that most_room takes few values. Only a long
    # prefix or min_length makes max(limits) + 1 (the end symbol) larger.
    usual = batch_sizes.positions_per_row(max(len(part.source) for part in batch), extra_length)
    most_room = batch_sizes.next_power_of_two(max(usual, max(limits) + 1))
    padding = [0] * (rows - len(batch))
    bounds = Bounds(
        min_length_B=np.array([min_length] * len(batch) + padding, np.int32),
        max_length_B=np.array([*limits, *padding], np.int32),
        prefix_BM=tokenizer.padded([part.prefix for part in batch], rows, most_room),
    )
    return bounds, most_room


def finished(tokens_WT: np.ndarray, scores_W: np.ndarray) -> Hypotheses:
    """Returns one sentence's finished hypotheses; FloatingPointError if there are none."""
    hypotheses = []
    for ids, score in zip(tokens_WT.tolist(), scores_W.tolist(), strict=True):
        # -inf marks an empty slot: fewer hypotheses than beams were finished.
        if score > -np.inf:
            hypotheses.append((ids[: ids.index(tokenizer.END)], score))
    if not hypotheses:
        raise FloatingPointError("the model's scores are non-finite: check its parameters")
    return hypotheses
