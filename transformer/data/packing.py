"""Items -> rows: packs several items into a row, or gives each its own row of few lengths."""

import hashlib
import io
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from transformer.errors import UserError
from transformer.monitoring import progress
from transformer.storage import checksums, paths

OPEN_ROWS = 512  # rows that `first_fit` tries; more take longer and fill hardly better


class Rows(NamedTuple):
    """Rows of one length: row r holds the items `items[offsets[r] : offsets[r + 1]]`.

    Example: items 4 9 2 with offsets 0 2 3 are row 0 with the items 4 and 9, row 1 with item 2. A
    row has `length` positions per side.
    """

    length: int
    items: np.ndarray
    offsets: np.ndarray

    def __len__(self) -> int:
        return len(self.offsets) - 1


def select_trainable(lengths: Sequence[np.ndarray], max_length: int) -> np.ndarray:
    """Returns the items to train on: no side blank or over `max_length` ids (END included).

    `lengths` has an array per side, such as (source, target). Logs how many items are dropped;
    UserError if none is left.
    """
    blank = np.any([side <= 1 for side in lengths], axis=0)  # END alone has length 1
    long = ~blank & np.any([side > max_length for side in lengths], axis=0)
    if blank.any() or long.any():
        logging.info(
            "training items dropped: %d blank on a side, %d over data.max_length=%d, of %d",
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
    """Packs items into rows of `length` positions per side, by `first_fit`.

    `lengths` has an array per side. The rows are cached as a file of the folder `cache`, which has
    to be that of the ids: the file's name does not depend on the lengths. benchmarks/batches.py
    measures how full the rows are.
    """
    name = hashlib.sha256(items.tobytes() + f"{length} {seed} {OPEN_ROWS}".encode()).hexdigest()
    path = cache / f"packed-{name[:16]}.npy"
    content = checksums.unstamped(path)
    if content is None:
        row_of_item = first_fit([side[items] for side in lengths], length, seed)
        array = io.BytesIO()
        np.save(array, row_of_item)
        content = array.getvalue()
        with paths.full_disk_as_user_error(cache):
            paths.write_file(path, checksums.stamp(content))
    row_of_item = np.load(io.BytesIO(content))
    # Sort the items by row: rows 1 0 1 of the items 5 6 7 give items 6 5 7 and offsets 0 1 3.
    offsets = np.concatenate([[0], np.cumsum(np.bincount(row_of_item))])
    return Rows(length, items[np.argsort(row_of_item, kind="stable")], offsets)


def first_fit(lengths: Sequence[np.ndarray], length: int, seed: int) -> np.ndarray:
    """Returns the row of each item, int32: first fit over a seeded permutation of the items.

    An item goes into the first of OPEN_ROWS open rows with room on all sides; open rows are empty
    at first, and numbered when they get their first item. If no row has room, the fullest is
    closed, and a new one is opened in its slot. Example with rows of 10 and items of (source,
    target) lengths, in this order:

        item    goes into  room left
        (6, 2)  row 0      row 0 (4, 8)
        (5, 5)  row 1      row 0 (4, 8)  row 1 (5, 5)    row 0 has too little source room
        (3, 4)  row 0      row 0 (1, 4)  row 1 (5, 5)
        (5, 5)  row 1      row 0 (1, 4)  row 1 (0, 0)

    The result is 0 1 0 1. With OPEN_ROWS 2, an item (7, 7) would then close row 1, the fullest, and
    be the first of row 2.
    """
    row_of_item = np.zeros(len(lengths[0]), np.int32)
    free_of_sides = [np.full(OPEN_ROWS, length) for _ in lengths]  # free positions of each slot
    row_of_slot = np.full(OPEN_ROWS, -1)  # -1: no row yet
    num_rows = 0
    order = np.random.default_rng(seed).permutation(len(row_of_item)).tolist()
    for item in progress.progress(order, "pack", total=len(order), unit="item"):
        item_lengths = [side[item] for side in lengths]
        fits = free_of_sides[0] >= item_lengths[0]
        for free, item_length in zip(free_of_sides[1:], item_lengths[1:], strict=True):
            fits &= free >= item_length
        slot = int(fits.argmax())  # the first that fits; 0 if none does
        if not fits[slot]:  # close the fullest row: its slot is empty again
            slot = int(sum(free_of_sides).argmin())
            for free in free_of_sides:
                free[slot] = length
            row_of_slot[slot] = -1
        if row_of_slot[slot] < 0:
            row_of_slot[slot] = num_rows
            num_rows += 1
        for free, item_length in zip(free_of_sides, item_lengths, strict=True):
            free[slot] -= item_length
        row_of_item[item] = row_of_slot[slot]
    return row_of_item


def one_per_row(lengths: Sequence[np.ndarray], items: np.ndarray, length: int) -> list[Rows]:
    """Returns rows of one item each, grouped by `static_lengths`.

    An item goes into the shortest length that all of its sides fit into. Items are sorted by length
    only to cut them into groups; each group's rows are padded to its one length.
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
    """Returns length / 8, / 4, / 2, / 1, then doubles until `longest` fits.

    64 and 100 give [8, 16, 32, 64, 128].
    """
    lengths = [max(1, length // 8), max(1, length // 4), max(1, length // 2), length]
    while lengths[-1] < longest:
        lengths.append(2 * lengths[-1])
    return sorted(set(lengths))


def concatenate_ranges(starts: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Concatenates the ranges starts[i], ..., starts[i] + counts[i] - 1, without a Python loop.

    Starts 10 20 with counts 2 3 give 10 11 20 21 22: that is 0 1 2 3 4, with 10 added to the first
    range, which lies at 0, and 18 to the second, which lies at 2.
    """
    ends = np.cumsum(counts)
    total = int(ends[-1]) if len(ends) else 0
    return np.arange(total) - np.repeat(ends - counts - starts, counts)


def check(max_length: int, row_length: int, batch_tokens: int, *, pack: bool) -> None:
    """UserError for values of `config.data` that contradict each other."""
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
