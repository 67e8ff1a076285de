"""Several items in one row: which item is in which row, and how the rows are found."""

import hashlib
import io
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from transformer.errors import UserError
from transformer.storage import checksums, paths

OPEN_ROWS = 512  # rows that `pack` still offers a pair; more fill hardly better and take longer


def check(max_length: int, row_length: int, batch_tokens: int, *, pack: bool) -> None:
    """UserError for values of `config.data` that cannot work together."""
    if max_length < 1:
        raise UserError(f"config.data.max_length is at least 1, found {max_length}")
    if pack and max_length > row_length:
        raise UserError(
            f"config.data.max_length={max_length} does not fit into "
            f"config.data.row_length={row_length}"
        )
    if batch_tokens < row_length:
        raise UserError(
            f"config.data.batch_tokens={batch_tokens} is less than one row, "
            f"config.data.row_length={row_length}"
        )


class Rows(NamedTuple):
    """Row r holds the items `items[offsets[r] : offsets[r + 1]]`, in `length` positions a side."""

    length: int
    items: np.ndarray
    offsets: np.ndarray

    def __len__(self) -> int:
        return len(self.offsets) - 1


def trainable(lengths: Sequence[np.ndarray], max_length: int) -> np.ndarray:
    """The items to train on: no side blank or over `max_length` ids (the end symbol included).

    `lengths` has an array a side, such as (source, target). UserError if no item is left.
    """
    blank = np.any([side <= 1 for side in lengths], axis=0)
    long = ~blank & np.any([side > max_length for side in lengths], axis=0)
    if blank.any() or long.any():
        logging.info(
            "training items left out: %d blank on a side, %d over data.max_length=%d, of %d",
            *(blank.sum(), long.sum(), max_length, len(blank)),
        )
    if (blank | long).all():
        raise UserError(
            f"no training item is left: of {len(blank)}, {blank.sum()} are blank on a side and "
            f"{long.sum()} have over config.data.max_length={max_length} pieces"
        )
    return np.flatnonzero(~blank & ~long)


def pack(
    lengths: Sequence[np.ndarray], items: np.ndarray, length: int, seed: int, cache: Path
) -> Rows:
    """Lays several items into each row of `length` positions a side, by `first_fit`.

    `lengths` has an array a side. The result is cached in the folder `cache`. Filled on Multi30k
    (29,000 pairs, rows of 128): see benchmarks/batches.py.
    """
    name = hashlib.sha256(items.tobytes() + f"{length} {seed} {OPEN_ROWS}".encode()).hexdigest()
    path = cache / f"packed-{name[:16]}.npy"
    content = checksums.stamped(path)
    if content is None:
        row_of_item = first_fit([side[items] for side in lengths], length, seed)
        array = io.BytesIO()
        np.save(array, row_of_item)
        content = array.getvalue()
        with paths.cache_in(cache):
            paths.write_file(path, checksums.stamp(content))
    row_of_item = np.load(io.BytesIO(content))
    offsets = np.concatenate([[0], np.cumsum(np.bincount(row_of_item))])
    return Rows(length, items[np.argsort(row_of_item, kind="stable")], offsets)


def unpacked(lengths: Sequence[np.ndarray], items: np.ndarray, length: int) -> list[Rows]:
    """One item a row, in few static lengths: those of `static_lengths`.

    Rows are sorted by length, so that neighbours are alike.
    """
    longest = np.max([side[items] for side in lengths], axis=0)
    order = np.argsort(longest, kind="stable")
    items, longest = items[order], longest[order]
    groups, start = [], 0
    for static_length in static_lengths(length, int(longest.max(initial=1))):
        stop = int(np.searchsorted(longest, static_length, side="right"))
        if stop > start:
            groups.append(Rows(static_length, items[start:stop], np.arange(stop - start + 1)))
        start = stop
    return groups


def static_lengths(length: int, longest: int) -> list[int]:
    """The few lengths that arrays have: length / 8, / 4, / 2, / 1, and doubles up to `longest`."""
    lengths = [max(1, length // 8), max(1, length // 4), max(1, length // 2), length]
    while lengths[-1] < longest:
        lengths.append(2 * lengths[-1])
    return sorted(set(lengths))


def first_fit(lengths: Sequence[np.ndarray], length: int, seed: int) -> np.ndarray:
    """The row of each item, int32: first fit over a seeded permutation of the items.

    An item goes into the first of the OPEN_ROWS rows opened last in which all of its sides find
    room; where none has it, the fullest of these rows is closed and a new one opened. Example: rows
    of 10 and sides (6, 2), (5, 5), (3, 4), in this order: rows 0, 1, 0 (room left: 1 and 4).
    """
    row_of_item = np.zeros(len(lengths[0]), np.int32)
    rooms = [np.full(OPEN_ROWS, length) for _ in lengths]  # of each slot; a slot is an open row
    row_of_slot = np.full(OPEN_ROWS, -1)
    num_rows = 0
    for item in np.random.default_rng(seed).permutation(len(row_of_item)).tolist():
        needed = [side[item] for side in lengths]
        fits = rooms[0] >= needed[0]
        for room, need in zip(rooms[1:], needed[1:], strict=True):
            fits &= room >= need
        slot = int(fits.argmax())
        if not fits[slot]:  # close the fullest row and open a new one in its place
            slot = int(sum(rooms).argmin())
            for room in rooms:
                room[slot] = length
            row_of_slot[slot] = -1
        if row_of_slot[slot] < 0:
            row_of_slot[slot] = num_rows
            num_rows += 1
        for room, need in zip(rooms, needed, strict=True):
            room[slot] -= need
        row_of_item[item] = row_of_slot[slot]
    return row_of_item


def ranges(starts: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """starts[0], starts[0] + 1, ... (counts[0] numbers), then the same of starts[1], and so on."""
    ends = np.cumsum(counts)
    total = int(ends[-1]) if len(ends) else 0
    return np.arange(total) - np.repeat(ends - counts - starts, counts)
