"""Ids -> hypotheses: searches in batches of few static shapes, several batches at a time.

A batch shrinks as its sentences finish, and its room for tokens grows as they get longer. Example:
64 captions of 15 or 16 ids, on one device:

    stage  rows  room  runs until
    1      64    16    the room is full, at t = 16; 17 sentences are active
    2      64    32    at most 64 / 4 = 16 sentences are active, at t = 17
    3      16    32    at most 16 / 4 = 4 sentences are active, at t = 19
    4      4     64    the last sentence finishes, at t = 23
"""

import contextlib
import functools
from collections.abc import Callable
from typing import NamedTuple

import flax.linen as nn
import jax
import numpy as np

from transformer import registry
from transformer.data import tokenizer
from transformer.decoding import batch_sizes, compiled, methods
from transformer.decoding.beam_search import Bounds
from transformer.distributed import layout
from transformer.errors import UserError
from transformer.runtime.memory import fits_in_memory

Hypotheses = list[tuple[list[int], float]]  # of a sentence: (ids without the end symbol, score)


class Part(NamedTuple):
    """The input of one search: the ids of a line or of a part of an over-long line."""

    source: tuple[int, ...]
    prefix: tuple[int, ...] = ()
    # Phrases that the output must have; END behind one means that its last word ends there.
    required: tuple[tuple[int, ...], ...] = ()
    # (line, part) if sampled; the search's number is appended, and all are folded into the seed.
    random_key: tuple[int, ...] = ()


class BatchDecoder:
    """Translates ids with a model, by the method of config.decode.

    On one device, `decode.workers` threads search a batch each. Each static shape is compiled once.
    """

    def __init__(
        self, model: nn.Module, vocabulary: tokenizer.Pieces | None, **decode: int | float | str
    ):
        """Takes the keys of config.decode; UserError for values that its method refuses.

        `vocabulary` is the target's, for methods and rules; None to check the keys.
        """
        self.model = model
        self.decode = decode = methods.Decode(**decode)
        self.workers = compiled.Workers(decode.workers)
        method = registry.load(registry.METHODS[decode.method])(decode, vocabulary)
        for key, is_read, by in (
            ("terms", method.required, "method='terminology'"),
            ("forbidden", "forbidden" in decode.rules, "rules='forbidden'"),
        ):
            if getattr(decode, key, "") and not is_read:
                raise UserError(f"config.decode.{key} is read with config.decode.{by} only")
        if rules := methods.make_rules(decode, vocabulary):
            method = method._replace(options=(*method.options, ("rules", rules)))
        self.method = method
        self._start = functools.partial(
            compiled.start, seed=decode.seed, model=model, num_beams=method.num_beams
        )
        self._proceed = functools.partial(
            compiled.proceed, model=model, extend=method.extend, options=method.options
        )

    def __call__(
        self, params: dict, parts: list[Part], report: Callable[[float], None] = lambda share: None
    ) -> list[Hypotheses]:
        """Returns each part's hypotheses, best first, or its samples in the order drawn.

        `params` come from `compiled.cast_params`. After each batch `report` gets the fraction of
        the work done, up to 1. Several devices share each batch. Batches are then sequential,
        because two threads must not launch programs on all devices.
        """
        devices = layout.num_devices(params)
        # Queue of batches, longest first, so that the workers finish at about the same time.
        batches = self._divide(parts, self.workers.count if devices == 1 else 1, devices)

        def search(batch: list[tuple[int, Part]]) -> list[Hypotheses]:
            batch = [part for _, part in batch]
            with self._fits(batch), layout.launching(params):
                return self._search_batch(params, batch)

        searched = self.workers.pool.map(search, batches) if devices == 1 else map(search, batches)
        hypotheses_by_part = [[] for _ in parts]  # a part's samples come from all its searches
        num_done = 0
        for batch, hypotheses_by_row in zip(batches, searched, strict=True):
            num_done += len(batch)
            report(num_done / (len(parts) * self.method.num_searches))
            for (i, _), hypotheses in zip(batch, hypotheses_by_row, strict=True):
                hypotheses_by_part[i] += hypotheses
        return [hypotheses[: self.method.num_returned] for hypotheses in hypotheses_by_part]

    def _divide(
        self, parts: list[Part], workers: int, devices: int
    ) -> list[list[tuple[int, Part]]]:
        """Divides the searches of all parts, (index, part), into batches, longest parts first.

        Rows per device are a power of 4 within `batch_tokens`: 4 where 7 fit. Sorting by length
        saves padding.
        """
        length = lambda part: max(len(part.source), len(part.prefix))
        # Parts of 3, 9 and 5 ids with 2 searches each have indices 1 1 2 2 0 0.
        queue = [
            (i, parts[i]._replace(random_key=(*parts[i].random_key, number)))
            for i in sorted(range(len(parts)), key=lambda i: -length(parts[i]))
            for number in range(self.method.num_searches)
        ]
        share = len(queue) // (workers * devices)  # a larger batch would leave a worker idle
        batches = []
        while queue:
            # Rows per device fill batch_tokens, within a worker's equal share and the rows left.
            # Neither limit lowers 4 rows to 1, the next power of 4.
            positions = batch_sizes.positions_per_row(length(queue[0][1]), self.decode.extra_length)
            full = max(1, self.decode.batch_tokens // positions)
            left = -(-len(queue) // devices)
            most = min(full, max(4, share), max(4, left))
            rows = devices * batch_sizes.next_power(4, full, most=most)
            batches.append(queue[:rows])
            queue = queue[rows:]
        return batches

    def rehearse(self, params: dict, lengths: list[int]) -> None:
        """Runs the last step of a search in the largest shape that sources of these lengths need.

        UserError if the step does not fit into the devices' memory. Earlier steps need no more.
        """
        devices = layout.num_devices(params)
        parts = [Part((tokenizer.UNKNOWN,) * (n - 1) + (tokenizer.END,)) for n in lengths]

        def size(batch: list[tuple[int, Part]]) -> tuple[int, int]:
            rows = batch_sizes.rows_in_powers_of_4(len(batch), devices)
            longest = len(batch[0][1].source)
            return rows * batch_sizes.positions_per_row(longest, self.decode.extra_length), longest

        batch = [part for _, part in max(self._divide(parts, 1, devices), key=size)]
        with self._fits(batch):
            search = self.begin(params, batch)
            rows = np.arange(len(search.rng_B))
            most_room = search.bounds.prefix_BM.shape[1]
            for room in (most_room // 2, most_room):  # growing holds both in memory
                room = max(room, search.state.tokens_BWT.shape[-1])
                search = layout.shard_rows(compiled.resize(search, rows, room=room), params)
            # The last step, t = most_room - 1, attends to the whole KV cache.
            state = search.state._replace(t=search.state.t + most_room - 1)
            until_active = batch_sizes.fewer_rows(len(rows), devices)
            search = search._replace(state=state)
            jax.block_until_ready(self._proceed(params, *search, until_active=until_active))

    def _fits(self, batch: list[Part]) -> contextlib.AbstractContextManager[None]:
        """Context manager that turns out-of-memory into a UserError that names the batch."""
        longest = max(len(part.source) for part in batch)
        size = f"{len(batch)} sentences of {longest} pieces, {self.method.num_beams} beams each,"
        return fits_in_memory(f"a search of {size}", "lower config.decode.batch_tokens")

    def begin(self, params: dict, batch: list[Part]) -> compiled.Search:
        """Encodes a batch, and returns the search before its first token.

        Rows are padded to a power of 4 on each device. The room starts at the smallest of
        `batch_sizes.next_room`.
        """
        devices = layout.num_devices(params)
        num_rows = batch_sizes.rows_in_powers_of_4(len(batch), devices)
        longest = max(len(part.source) for part in batch)
        bounds = self._bounds(batch, num_rows)
        room = min(bounds.prefix_BM.shape[1], batch_sizes.next_room(1, num_rows // devices))
        sources = [part.source for part in batch]
        source_BS = tokenizer.padded(sources, num_rows, batch_sizes.next_fine_length(longest))
        # (line, part, search) of each row; 0 0 0 for beam search, which is not random.
        keys = tokenizer.padded([part.random_key for part in batch], num_rows, 3)
        source_BS, keys, bounds = layout.shard_rows((source_BS, keys, bounds), params)
        length = batch_sizes.next_power_of_two(longest, batch_sizes.SHORTEST_MEMORY)
        static = {"source_length": length, "room": room}
        memory, state, rng_B = self.workers.call(self._start, params, source_BS, keys, **static)
        return compiled.Search(memory, state, bounds, rng_B)

    def _bounds(self, batch: list[Part], rows: int) -> Bounds:
        """Returns the bounds of a batch padded to `rows`.

        max_length is the source's length + extra_length (paper 6.1), and at least min_length and
        the length of prefix and required phrases. Padded rows have 0, so that they end at the first
        step.
        """
        least, extra_length = self.decode.min_length, self.decode.extra_length
        # The source's length excludes its end symbol.
        given = lambda part: len(part.prefix) + sum(map(len, part.required))
        limits = [max(len(part.source) - 1 + extra_length, least, given(part)) for part in batch]
        # Computed from the padded length of the longest source, so that the room takes few values.
        # Only a long prefix or min_length makes max(limits) + 1 (the end symbol) larger.
        longest = max(len(part.source) for part in batch)
        usual = batch_sizes.positions_per_row(longest, extra_length)
        most_room = batch_sizes.next_power_of_two(max(usual, max(limits) + 1))
        pad_rows = lambda numbers: np.pad(np.array(numbers, np.int32), (0, rows - len(batch)))
        return Bounds(
            min_length_B=pad_rows([least] * len(batch)),
            max_length_B=pad_rows(limits),
            prefix_BM=tokenizer.padded([part.prefix for part in batch], rows, most_room),
            required_BPL=required_phrases(batch, rows),
        )

    def _search_batch(self, params: dict, batch: list[Part]) -> list[Hypotheses]:
        """Searches a batch in stages of fewer rows or more room (see the module's docstring)."""
        devices = layout.num_devices(params)
        search = self.begin(params, batch)
        most_room = search.bounds.prefix_BM.shape[1]
        # Row i of the search is row rows[i] of the whole batch.
        rows = np.arange(len(search.rng_B))
        hypotheses = [[]] * len(rows)
        while True:
            until_active = batch_sizes.fewer_rows(len(rows), devices)
            state = self.workers.call(self._proceed, params, *search, until_active=until_active)
            # Blocks until the stage is computed. Other workers compute meanwhile.
            active = np.asarray(state.active_B)
            tokens_BWT = np.asarray(state.tokens_BWT)[:, : self.method.num_returned]
            scores_BW = np.asarray(state.scores_BW)[:, : self.method.num_returned]
            # A finished row may still pad the batch; it does not change.
            for i in np.flatnonzero(~active):
                hypotheses[rows[i]] = finished(tokens_BWT[i], scores_BW[i])
            if not active.any():
                return hypotheses[: len(batch)]
            # Keep the active rows in order, then finished rows as padding: for active F T F F T
            # and size 4, rows 1 4 0 2.
            size = len(rows)
            while (smaller := batch_sizes.fewer_rows(size, devices)) >= active.sum():
                size = smaller
            remaining = np.arange(size)
            if size < len(rows):
                remaining = np.argsort(~active, kind="stable")[:size]
            # The room is a power of two that includes position t, the next to be written.
            room = min(most_room, batch_sizes.next_room(int(state.t) + 1, size // devices))
            room = max(room, state.tokens_BWT.shape[-1])
            search = search._replace(state=state)
            search = self.workers.call(compiled.resize, search, remaining, room=room)
            search = layout.shard_rows(search, params)
            # With rows 8 9 5 and remaining 2 0, rows 5 8 are left.
            rows = rows[remaining]


def required_phrases(batch: list[Part], rows: int) -> np.ndarray | None:
    """Returns the required phrases of a batch padded to `rows`, [B, P, L]; None without any.

    P and L are powers of 4, so that few shapes are compiled.
    """
    required = [part.required for part in batch] + [()] * (rows - len(batch))
    longest = max(len(ids) for phrases in required for ids in (*phrases, ()))
    P, L = (batch_sizes.next_power(4, n) for n in (max(map(len, required)), max(2, longest)))
    return np.stack([tokenizer.padded(x, P, L) for x in required]) if longest else None


def finished(tokens_WT: np.ndarray, scores_W: np.ndarray) -> Hypotheses:
    """Returns a sentence's finished hypotheses; UserError without any."""
    scored = zip(tokens_WT.tolist(), scores_W.tolist(), strict=True)
    # -inf marks an empty slot, where fewer hypotheses than beams finished.
    hypotheses = [(ids[: ids.index(tokenizer.END)], x) for ids, x in scored if x > -np.inf]
    if not hypotheses:
        raise UserError("the model's scores are non-finite: check its parameters")
    return hypotheses
