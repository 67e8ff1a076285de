"""Ids -> packed arrays: batch t is a pure function of (corpus, seed, t).

A corpus's pairs are laid into rows once (`pack`: several pairs a row; `unpacked`: one). An epoch is
a seeded permutation of the rows, so batch t is batch t % n of epoch t // n, in any order, by any
host: there is no iterator whose state would have to be saved.
"""

import concurrent.futures
import dataclasses
import functools
import hashlib
import io
import logging
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import numpy as np

from transformer import checksums, storage, tokenizer
from transformer.errors import UserError
from transformer.ids import Tokens

OPEN_ROWS = 512  # rows that `pack` still offers a pair; more fill hardly better and take longer


class Rows(NamedTuple):
    """Row r holds the pairs `pairs[offsets[r] : offsets[r + 1]]`, in `length` positions a side."""

    length: int
    pairs: np.ndarray
    offsets: np.ndarray

    def __len__(self) -> int:
        return len(self.offsets) - 1


def trainable(tokens: Tokens, max_length: int) -> np.ndarray:
    """The pairs to train on: no side blank or over `max_length` ids (its end included)."""
    source, target = tokens.source_lengths, tokens.target_lengths
    blank = (source <= 1) | (target <= 1)
    long = ~blank & ((source > max_length) | (target > max_length))
    if blank.any() or long.any():
        logging.info(
            "training pairs left out: %d blank on a side, %d over data.max_length=%d, of %d",
            *(blank.sum(), long.sum(), max_length, len(source)),
        )
    if (blank | long).all():
        raise UserError(
            f"no training pair is left: of {len(source)}, {blank.sum()} are blank on a side and "
            f"{long.sum()} have over config.data.max_length={max_length} pieces"
        )
    return np.flatnonzero(~blank & ~long)


def pack(tokens: Tokens, pairs: np.ndarray, length: int, seed: int) -> Rows:
    """Lays several pairs into each row of `length` source and `length` target positions.

    First fit over a seeded permutation of the pairs, among the OPEN_ROWS rows opened last and not
    yet full; cached beside the tokens. Filled on Multi30k (29,000 pairs, rows of 128): see
    benchmarks/batches.py.
    """
    name = hashlib.sha256(pairs.tobytes() + f"{length} {seed} {OPEN_ROWS}".encode()).hexdigest()
    path = tokens.directory / f"packed-{name[:16]}.npy"
    content = checksums.stamped(path)
    if content is None:
        source, target = tokens.source_lengths[pairs], tokens.target_lengths[pairs]
        row_of_pair = _first_fit(source, target, length, seed)
        array = io.BytesIO()
        np.save(array, row_of_pair)
        content = array.getvalue()
        with storage.cache_in(tokens.directory):
            storage.write_file(path, checksums.stamp(content))
    row_of_pair = np.load(io.BytesIO(content))
    offsets = np.concatenate([[0], np.cumsum(np.bincount(row_of_pair))])
    return Rows(length, pairs[np.argsort(row_of_pair, kind="stable")], offsets)


def unpacked(tokens: Tokens, pairs: np.ndarray, length: int) -> list[Rows]:
    """One pair a row, in few static lengths: those of `static_lengths`.

    Rows are sorted by length, so that neighbours are alike.
    """
    longest = np.maximum(tokens.source_lengths, tokens.target_lengths)[pairs]
    order = np.argsort(longest, kind="stable")
    pairs, longest = pairs[order], longest[order]
    groups, start = [], 0
    for static_length in static_lengths(length, int(longest.max(initial=1))):
        stop = int(np.searchsorted(longest, static_length, side="right"))
        if stop > start:
            groups.append(Rows(static_length, pairs[start:stop], np.arange(stop - start + 1)))
        start = stop
    return groups


def static_lengths(length: int, longest: int) -> list[int]:
    """The few lengths that arrays have: length / 8, / 4, / 2, / 1, and doubles up to `longest`."""
    lengths = [max(1, length // 8), max(1, length // 4), max(1, length // 2), length]
    while lengths[-1] < longest:
        lengths.append(2 * lengths[-1])
    return sorted(set(lengths))


@dataclasses.dataclass(frozen=True)
class Batches:
    """Batch t by number, as `batches[t]`, or a part of its rows, as `batches.rows(t, start, stop)`.

    A batch is {'inputs': the model's keyword arguments, 'targets', 'weights'}, arrays of [rows,
    length]; weights are 1 on target positions and 0 on padding. It has `batch_tokens // length`
    rows; where the rows of an epoch run out, the rest of its last batch is empty. Without a seed:
    one epoch, in the rows' order.
    """

    tokens: Tokens
    groups: list[Rows]
    batch_tokens: int
    seed: int | None

    def __len__(self) -> int:
        """Batches in an epoch."""
        return sum(self._sizes)

    def shape(self, t: int) -> tuple[int, int]:
        """How many rows batch t has, and how many positions a side they have."""
        group, _ = self._locate(t)
        return self._rows_in_batch(group), self.groups[group].length

    def first_of_each_length(self) -> list[int]:
        """The number of a batch of each length that rows have, the longest first."""
        starts = np.cumsum([0, *self._sizes])[:-1]
        order = _permutation(self.seed, 0, -1, len(self)).tolist()
        by_length = np.argsort([-rows.length for rows in self.groups], kind="stable")
        return [order.index(int(starts[group])) for group in by_length]

    def rows(self, t: int, start: int, stop: int) -> dict:
        """Rows start to stop of batch t; those past its end are empty."""
        group, batch = self._locate(t)
        rows, size = self.groups[group], self._rows_in_batch(group)
        order = _permutation(self.seed, t // len(self), group, len(rows))
        chosen = order[batch * size : (batch + 1) * size][start:stop]
        counts = rows.offsets[chosen + 1] - rows.offsets[chosen]
        pairs = rows.pairs[_ranges(rows.offsets[chosen], counts)]
        row_of_pair = np.repeat(np.arange(len(chosen)), counts)
        return _assemble(self.tokens, pairs, row_of_pair, (stop - start, rows.length))

    def __getitem__(self, t: int) -> dict:
        return self.rows(t, 0, self.shape(t)[0])

    @property
    def _sizes(self) -> list[int]:
        return [-(-len(rows) // self._rows_in_batch(g)) for g, rows in enumerate(self.groups)]

    def _rows_in_batch(self, group: int) -> int:
        return max(1, self.batch_tokens // self.groups[group].length)

    def _locate(self, t: int) -> tuple[int, int]:
        """Batch t as (group, number of the batch in the group)."""
        epoch, position = divmod(t, len(self))
        # The order of the batches: its number -1 tells it from the groups' orders of rows.
        batch = int(_permutation(self.seed, epoch, -1, len(self))[position])
        starts = np.cumsum([0, *self._sizes])
        group = int(np.searchsorted(starts, batch, side="right")) - 1
        return group, batch - int(starts[group])


def filled(batches: Batches) -> tuple[float, float]:
    """The shares of source and target positions of an epoch that hold a token."""
    positions = sum(
        size * batches._rows_in_batch(g) * batches.groups[g].length
        for g, size in enumerate(batches._sizes)
    )
    pairs = np.concatenate([rows.pairs for rows in batches.groups])
    source, target = batches.tokens.source_lengths, batches.tokens.target_lengths
    return source[pairs].sum() / positions, target[pairs].sum() / positions


def ahead(load: Callable[[int], dict], numbers: Iterable[int]) -> Iterator[dict]:
    """load(t) for each number, one ahead in a background thread; its errors come out here, at once:
    nothing waits for the batch after that one."""
    thread = concurrent.futures.ThreadPoolExecutor(1, "batches")
    try:
        waiting = None
        for t in numbers:
            loading = thread.submit(load, t)
            if waiting is not None:
                yield waiting.result()
            waiting = loading
        if waiting is not None:
            yield waiting.result()
    finally:
        thread.shutdown(wait=False, cancel_futures=True)


def _first_fit(source: np.ndarray, target: np.ndarray, length: int, seed: int) -> np.ndarray:
    """The row of each pair."""
    row_of_pair = np.zeros(len(source), np.int32)
    source_room = np.full(OPEN_ROWS, length)
    target_room = np.full(OPEN_ROWS, length)
    row_of_slot = np.full(OPEN_ROWS, -1)
    num_rows = 0
    for pair in np.random.default_rng(seed).permutation(len(source)).tolist():
        fits = (source_room >= source[pair]) & (target_room >= target[pair])
        slot = int(fits.argmax())
        if not fits[slot]:  # close the fullest row and open a new one in its place
            slot = int((source_room + target_room).argmin())
            source_room[slot] = target_room[slot] = length
            row_of_slot[slot] = -1
        if row_of_slot[slot] < 0:
            row_of_slot[slot] = num_rows
            num_rows += 1
        source_room[slot] -= source[pair]
        target_room[slot] -= target[pair]
        row_of_pair[pair] = row_of_slot[slot]
    return row_of_pair


def _assemble(
    tokens: Tokens, pairs: np.ndarray, row_of_pair: np.ndarray, shape: tuple[int, int]
) -> dict:
    source, source_positions, source_segments = _lay(
        tokens.source, tokens.source_offsets, pairs, row_of_pair, shape
    )
    targets, target_positions, target_segments = _lay(
        tokens.target, tokens.target_offsets, pairs, row_of_pair, shape
    )
    # The decoder reads the target shifted right; every sentence of a row begins with the start
    # symbol, never with its neighbour's end.
    shifted = np.roll(targets, 1)
    shifted[target_positions == 0] = tokenizer.START
    real = target_segments > 0
    return {
        "inputs": {
            "source": source,
            "target": np.where(real, shifted, tokenizer.PAD),
            "source_positions": source_positions,
            "target_positions": target_positions,
            "source_segments": source_segments,
            "target_segments": target_segments,
        },
        "targets": targets,
        "weights": real.astype(np.float32),
    }


def _lay(
    ids: np.ndarray,
    offsets: np.ndarray,
    pairs: np.ndarray,
    row_of_pair: np.ndarray,
    shape: tuple[int, int],
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Lays one side's sentences one behind the other into their rows: (ids, positions, segments).

    A position counts from its sentence's beginning; segments number a row's sentences from 1; 0 is
    padding.
    """
    lengths = offsets[pairs + 1] - offsets[pairs]
    ends = np.cumsum(lengths)
    first = np.searchsorted(row_of_pair, row_of_pair)  # the first pair of each pair's row
    column = (ends - lengths) - (ends - lengths)[first]
    position = _ranges(np.zeros_like(lengths), lengths)
    place = np.repeat(row_of_pair * shape[1] + column, lengths) + position
    arrays = np.zeros((3, shape[0] * shape[1]), np.int32)
    arrays[0, place] = ids[np.repeat(offsets[pairs], lengths) + position]
    arrays[1, place] = position
    arrays[2, place] = np.repeat(np.arange(len(pairs)) - first + 1, lengths)
    ids, positions, segments = arrays.reshape(3, *shape)
    return ids, positions, segments


def _ranges(starts: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """starts[0], starts[0] + 1, ... (counts[0] numbers), then the same of starts[1], and so on."""
    ends = np.cumsum(counts)
    total = int(ends[-1]) if len(ends) else 0
    return np.arange(total) - np.repeat(ends - counts - starts, counts)


@functools.lru_cache(maxsize=16)
def _permutation(seed: int | None, epoch: int, group: int, size: int) -> np.ndarray:
    if seed is None:
        return np.arange(size)
    return np.random.default_rng((seed, epoch, group + 1)).permutation(size)
