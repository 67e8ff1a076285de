"""Ids -> hypotheses: sentences in batches of few static shapes, several batches at a time.

A batch shrinks as its sentences finish, and its room for tokens grows as they get longer. Example:
64 sentences of up to 13 ids, on one device:

    stage  rows  room  runs until
    1      64    16    at most 64 / 2 = 32 sentences are active, at t = 14
    2      32    16    t = 16, the room is full; 19 are active
    3      32    32    at most 16 sentences are active, at t = 17
    4      16    64    at most 16 / 4 = 4 sentences are active, at t = 21
    5      4     64    at most 1 sentence is active, at t = 25
    6      1     64    it finishes, at t = 28

Rows and room take few values (shapes.py), so that few shapes are compiled.
"""

import concurrent.futures
import contextlib
import functools
import os
import threading
from collections.abc import Callable, Iterator
from typing import NamedTuple

import flax.linen as nn
import jax
import numpy as np

from transformer.data import tokenizer
from transformer.decoding import compiled, shapes
from transformer.decoding.bounds import Bounds
from transformer.distributed import inference
from transformer.monitoring.memory import fits_in_memory

Tree = dict
Hypotheses = list[tuple[list[int], float]]  # of a sentence: (ids without the end symbol, score)

SAMPLES_TOGETHER = 8  # samples in one search: the cost of attention is quadratic in its beams


class Part(NamedTuple):
    """What one search translates: the ids of a line, or of a part of an over-long line."""

    source: tuple[int, ...]
    prefix: tuple[int, ...] = ()
    # (line, part) of a sampled part; the number of the search is appended. Folded into the seed.
    random_key: tuple[int, ...] = ()


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
        """Takes keys of config.decode (configs/translation.py), which options.py has checked."""
        self.model = model
        self.method = method
        self._min_length = min_length
        self._extra_length = extra_length
        self._batch_tokens = batch_tokens
        self._workers = workers or (min(8, _num_cores()) if jax.default_backend() == "cpu" else 1)
        self._pool = functools.cache(concurrent.futures.ThreadPoolExecutor)  # of so many workers
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
        self._start = functools.partial(
            compiled.start, seed=seed, model=model, num_beams=self._num_beams
        )
        self._advance = functools.partial(
            compiled.advance, model=model, beam=method == "beam", options=self.options
        )
        self._compiled, self._lock = set(), threading.Lock()

    def __call__(self, params: Tree, parts: list[Part]) -> list[Hypotheses]:
        """Returns what `submit` finds."""
        return self.submit(params, parts)()

    def submit(
        self, params: Tree, parts: list[Part]
    ) -> Callable[[Callable[[float], None]], list[Hypotheses]]:
        """Starts to search; returns a function that waits for the end, `finish(report)`.

        It returns each part's hypotheses, best first, or its samples in the order drawn. After each
        batch `report` gets the share of the work done so far, up to 1. What is submitted meanwhile
        is searched next, so that no worker waits. `params` come from `compiled.cast_params`.
        """
        longest = [max(len(part.source), len(part.prefix)) for part in parts]
        # Several devices share each batch, so that batches then come one after the other.
        devices = inference.num_devices(params)
        workers = self._workers if devices == 1 else 1
        batches = self._batches(longest, workers, devices)
        futures = [
            self._pool(workers).submit(
                self._search_or_out_of_memory,
                params,
                [_numbered(parts[i], number) for i, number in batch],
            )
            for batch in batches
        ]

        def finish(report: Callable[[float], None] = lambda share: None) -> list[Hypotheses]:
            hypotheses_of_part = [[] for _ in parts]
            num_done = 0
            try:
                for batch, future in zip(batches, futures, strict=True):
                    hypotheses_of_row = future.result()
                    num_done += len(batch)
                    report(num_done / (len(parts) * self._num_searches))
                    for (i, _), hypotheses in zip(batch, hypotheses_of_row, strict=True):
                        hypotheses_of_part[i] += hypotheses
            finally:  # after an error the batches that have not begun are not searched
                for future in futures:
                    future.cancel()
            return [hypotheses[: self._num_returned] for hypotheses in hypotheses_of_part]

        return finish

    def rehearse(self, params: Tree, lengths: list[int]) -> None:
        """Runs the last step of a search in the largest shape that sources of these lengths need.

        UserError if it does not fit into the devices' memory. The steps before it need about as
        much or less.
        """
        devices = inference.num_devices(params)

        def size(batch: list[tuple[int, int]]) -> tuple[int, int]:
            length = lengths[batch[0][0]]
            rows = shapes.rows_in_powers_of_4(len(batch), devices)
            return rows * self._positions_per_row(length), length

        batches = self._batches(lengths, 1, devices)
        batch = max(batches, key=size)
        length = lengths[batch[0][0]]
        part = Part((*[tokenizer.UNKNOWN] * (length - 1), tokenizer.END))
        with self._fits([part] * len(batch)):
            search, most_room = self.begin(params, [part] * len(batch))
            rows = np.arange(len(search[1].tokens_BWT))
            for room in (most_room // 2, most_room):  # growing takes the memory of both
                room = max(room, search[1].tokens_BWT.shape[-1])
                search = compiled.resize(search, rows, model=self.model, room=room)
                search = inference.shard_rows(search, params)
            memory, state, bounds, rng_B = search
            state = state._replace(t=state.t + most_room - 1)
            until_active = shapes.fewer_rows(len(rows), devices)
            state = self._advance(params, memory, state, bounds, rng_B, until_active=until_active)
            jax.block_until_ready(state)

    def _batches(
        self, lengths: list[int], workers: int, devices: int
    ) -> list[list[tuple[int, int]]]:
        """Divides all (part, number of the search) into batches, the longest parts first.

        Rows are a power of 4 on each device, within `batch_tokens`: where 7 rows fit, 4. Sorting
        makes the lengths in a batch alike, which saves padding.
        """
        order = sorted(range(len(lengths)), key=lambda i: -lengths[i])
        order = [(i, number) for i in order for number in range(self._num_searches)]
        share = len(order) // (workers * devices)  # a larger batch would leave a worker idle
        batches = []
        while order:
            # Rows per device: what batch_tokens allows, but no more than an equal share for each
            # worker, nor than are left. These two never lower 4 rows to 1, the next power of 4.
            full = max(1, self._batch_tokens // self._positions_per_row(lengths[order[0][0]]))
            left = -(-len(order) // devices)
            most = min(full, max(4, share), max(4, left))
            rows = devices * shapes.next_power(4, full, most=most)
            batches.append(order[:rows])
            order = order[rows:]
        return batches

    def _positions_per_row(self, length: int) -> int:
        """Returns how many of `batch_tokens` a row takes: padded source length + extra_length."""
        return shapes.next_power_of_two(length) + self._extra_length

    def _search_or_out_of_memory(self, params: Tree, batch: list[Part]) -> list[Hypotheses]:
        """Searches a batch; UserError if it does not fit into the devices' memory."""
        with self._fits(batch):
            return self._search_batch(params, batch)

    def _fits(self, batch: list[Part]) -> contextlib.AbstractContextManager[None]:
        """Raises UserError in its `with` block if a batch does not fit into the devices' memory."""
        longest = max(len(part.source) for part in batch)
        size = f"{len(batch)} sentences of {longest} pieces, {self._num_beams} beams each,"
        return fits_in_memory(f"a search of {size}", "lower config.decode.batch_tokens")

    @contextlib.contextmanager
    def _compiling(self, *shape: object) -> Iterator[None]:
        """Lets one worker compile a shape while the others wait; once compiled, takes no lock."""
        with contextlib.ExitStack() as stack:
            if shape not in self._compiled:
                stack.enter_context(self._lock)
                if shape in self._compiled:  # another worker compiled it while this one waited
                    stack.close()
            yield
            self._compiled.add(shape)

    def _bounds(self, batch: list[Part], rows: int) -> tuple[Bounds, int]:
        """Returns the bounds of a batch padded to `rows`, and the most room its search can need.

        max_length is the source's length + extra_length (paper 6.1), or the prefix's length or
        min_length if one of these is larger. Padded rows have 0: they end at the first step.
        """
        limits = [
            max(
                len(part.source) - 1 + self._extra_length,  # without the source's end symbol
                self._min_length,
                len(part.prefix),
            )
            for part in batch
        ]
        # Of the longest source's length, rounded up, so that most_room takes few values;
        # max(limits) + 1 (the end symbol) is larger only for a long prefix or min_length.
        usual = self._positions_per_row(max(len(part.source) for part in batch))
        most_room = shapes.next_power_of_two(max(usual, max(limits) + 1))
        padding = [0] * (rows - len(batch))
        bounds = Bounds(
            min_length_B=np.array([self._min_length] * len(batch) + padding, np.int32),
            max_length_B=np.array([*limits, *padding], np.int32),
            prefix_BM=tokenizer.padded([part.prefix for part in batch], rows, most_room),
        )
        return bounds, most_room

    def begin(self, params: Tree, batch: list[Part]) -> tuple[tuple, int]:
        """Encodes a batch: (memory, state, bounds, rng_B), and the most room its search can need.

        Rows are padded to a power of 4 on each device; the room is the least for so many.
        """
        devices = inference.num_devices(params)
        num_rows = shapes.rows_in_powers_of_4(len(batch), devices)
        longest = max(len(part.source) for part in batch)
        memory_length = shapes.next_memory_length(longest)
        bounds, most_room = self._bounds(batch, num_rows)
        room = min(most_room, shapes.next_room(1, num_rows // devices))
        sources = [part.source for part in batch]
        source_BS = tokenizer.padded(sources, num_rows, shapes.next_fine_length(longest))
        keys = np.zeros((num_rows, 3), np.int32)
        keys[: len(batch), : len(batch[0].random_key)] = [part.random_key for part in batch]

        source_BS, keys, bounds = inference.shard_rows((source_BS, keys, bounds), params)
        with self._compiling("start", source_BS.shape):
            memory, state, rng_B = self._start(
                params, source_BS, keys, source_length=memory_length, room=room
            )
        return (memory, state, bounds, rng_B), most_room

    def _search_batch(self, params: Tree, batch: list[Part]) -> list[Hypotheses]:
        """Searches a batch in stages of fewer rows or more room (the module's docstring)."""
        devices = inference.num_devices(params)
        (memory, state, bounds, rng_B), most_room = self.begin(params, batch)
        num_rows, _, room = state.tokens_BWT.shape
        memory_length = shapes.next_memory_length(max(len(part.source) for part in batch))
        hypotheses, is_open = [[]] * num_rows, np.ones(num_rows, bool)
        # rows[i] is the row of the whole batch that is now row i of the search.
        rows = np.arange(num_rows)
        while True:
            until_active = shapes.fewer_rows(len(rows), devices)
            shape = (memory_length, most_room, *state.tokens_BWT.shape)
            with self._compiling("advance", *shape):
                state = self._advance(
                    params, memory, state, bounds, rng_B, until_active=until_active
                )
            active, t = np.asarray(state.active_B), int(state.t)
            done = is_open[rows] & (~active | (t == most_room))
            for row, tokens, scores in zip(
                rows[done],
                np.asarray(state.tokens_BWT)[done, : self._num_returned],
                np.asarray(state.scores_BW)[done, : self._num_returned],
                strict=True,
            ):
                hypotheses[row] = _finished(tokens, scores)
            is_open[rows[done]] = False
            if not is_open.any():
                return hypotheses[: len(batch)]
            # Active rows first, in their order, then finished ones as padding, which do not change
            # any more: of active F T F F T, a size of 4 keeps rows 1 4 0 2.
            size = len(rows)
            while (smaller := shapes.fewer_rows(size, devices)) >= active.sum():
                size = smaller
            remaining = np.arange(size)
            if size < len(rows):
                remaining = np.argsort(~active, kind="stable")[:size]
            room = max(room, min(most_room, shapes.next_room(t + 1, size // devices)))
            with self._compiling("resize", *shape, size, room):
                resized = compiled.resize(
                    (memory, state, bounds, rng_B), remaining, model=self.model, room=room
                )
            memory, state, bounds, rng_B = inference.shard_rows(resized, params)
            rows = rows[remaining]


def _numbered(part: Part, number: int) -> Part:
    """Returns a part with the number of its search, so that each search draws other samples."""
    return part._replace(random_key=(*part.random_key, number))


def _num_cores() -> int:
    """Returns the number of CPU cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _finished(tokens_WT: np.ndarray, scores_W: np.ndarray) -> Hypotheses:
    """Returns one sentence's finished hypotheses; FloatingPointError if there are none."""
    hypotheses = []
    for ids, score in zip(tokens_WT.tolist(), scores_W.tolist(), strict=True):
        if score > -np.inf:
            hypotheses.append((ids[: ids.index(tokenizer.END)], score))
    if not hypotheses:
        raise FloatingPointError("the model's scores are non-finite: check its parameters")
    return hypotheses
