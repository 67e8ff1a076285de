"""Items -> rows: packs several items into a row, or gives each item a row of few lengths."""

import hashlib
import itertools
import logging
import operator
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from transformer.errors import UserError
from transformer.runtime import checksums, progress

# For `best_fit`. More waiting items take longer and hardly fill better. At WMT's lengths 0.8 % of
# the target positions are empty with 512, 0.6 % with 1024, 0.4 % with 4096; with 1.0 or 2.0 average
# items in reserve, 0.9 % or 1.2 %.
WAITING = 1024
RESERVE = 1.5


class Rows(NamedTuple):
    """Rows of one length: row r holds the items `items[offsets[r] : offsets[r + 1]]`.

    Example: items 4 9 2 with offsets 0 2 3 are items 4 and 9 in row 0, and item 2 in row 1. A row
    has `length` positions per side. Rows of several corpora stand one corpus after the other, and
    `reads` has (the number of rows, the number of rows that an epoch reads) of each.
    """

    length: int
    items: np.ndarray
    offsets: np.ndarray
    reads: tuple[tuple[int, int], ...] = ()  # () reads each row once

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def num_read(self) -> int:
        """The number of rows that an epoch reads."""
        return sum(count for _, count in self.reads) if self.reads else len(self)


def join(parts: Sequence[tuple[Rows, int]]) -> Rows:
    """Joins rows of one length, each given with the number of them that an epoch reads."""
    counts = np.concatenate([np.diff(rows.offsets) for rows, _ in parts])
    items = np.concatenate([rows.items for rows, _ in parts])
    reads = tuple((len(rows), count) for rows, count in parts)
    return Rows(parts[0][0].length, items, np.concatenate([[0], np.cumsum(counts)]), reads)


def rows_of_epoch(reads: Sequence[tuple[int, int]], epoch: int, seed: int) -> np.ndarray:
    """Returns the sorted rows of `Rows.reads` that an epoch reads.

    A corpus is read in passes over all its rows, each in another order. Example: of 5 rows with 3
    per epoch, epoch 1 has the last two of the order of pass 0, and the first of that of pass 1.
    """
    chosen = []
    start = 0  # the corpus's first row
    for c, (size, count) in enumerate(reads):
        passes, places = np.divmod(np.arange(epoch * count, (epoch + 1) * count), size)
        for number in np.unique(passes):
            order = np.random.default_rng((seed, c, int(number), 1)).permutation(size)
            chosen.append(start + order[places[passes == number]])
        start += size
    return np.sort(np.concatenate(chosen))


def mix(mixture: Sequence[dict], items: np.ndarray, rows_of: Callable) -> list[Rows]:
    """Returns the rows of a mixture, in groups of one length, with their `reads`.

    `items` are the sorted pairs to train on, and rows_of(items) packs some of them into groups of
    rows. No row has pairs of two corpora. Logs the shares.
    """
    ends = np.cumsum([corpus["size"] for corpus in mixture])
    pairs_of = np.split(items, np.searchsorted(items, ends[:-1]))
    groups_of = [rows_of(pairs) if len(pairs) else [] for pairs in pairs_of]
    sizes = [sum(map(len, groups)) for groups in groups_of]
    counts = counts_of(mixture, sizes)
    parts = []
    for corpus, groups, size, count in zip(mixture, groups_of, sizes, counts, strict=True):
        message = "%s: %d of an epoch's %d rows, which are %.2f passes over its own"
        logging.info(message, corpus["name"], count, sum(sizes), count / size)
        group_counts = _rounded([*map(len, groups)], count)
        # Without groups whose share is rounded to no row.
        parts += [(rows, n) for rows, n in zip(groups, group_counts, strict=True) if n]
    lengths = sorted({rows.length for rows, _ in parts})
    return [join([(rows, n) for rows, n in parts if rows.length == x]) for x in lengths]


def counts_of(mixture: Sequence[dict], sizes: Sequence[int]) -> list[int]:
    """Returns how much an epoch reads of each corpus of these sizes, in all as much as there is.

    UserError for a corpus of size 0.
    """
    if 0 in sizes:
        raise UserError(f"the corpus {mixture[sizes.index(0)]['name']} has no pair to train on")
    weights = [corpus["weight"] or size for corpus, size in zip(mixture, sizes, strict=True)]
    return _rounded(np.array(weights) ** (1 / mixture[0]["temperature"]), sum(sizes))


def _rounded(shares: Sequence[float], total: int) -> list[int]:
    """Returns integers in proportion to shares, of sum `total`, by largest remainder."""
    exact = np.array(shares) * (total / sum(shares))
    counts = exact.astype(int)
    # The rest, after rounding down, goes to the largest fractions.
    counts[np.argsort(counts - exact, kind="stable")[: total - counts.sum()]] += 1
    return counts.tolist()


def select_trainable(lengths: Sequence[np.ndarray], max_length: int) -> np.ndarray:
    """Returns the indices of items with no side blank or over `max_length` ids, including END.

    `lengths` has an array per side, such as (source, target). Logs the number of dropped items;
    UserError if none is left.
    """
    blank = np.any([side <= 1 for side in lengths], axis=0)  # END alone has length 1
    long = ~blank & np.any([side > max_length for side in lengths], axis=0)
    if blank.any() or long.any():
        message = "training items dropped: %d blank on a side, %d over data.max_length=%d, of %d"
        logging.info(message, blank.sum(), long.sum(), max_length, len(blank))
    if (blank | long).all():
        raise UserError(
            f"no training item is left: of {len(blank)}, {blank.sum()} are blank on a side and "
            f"{long.sum()} have over config.data.max_length={max_length} pieces"
        )
    return np.flatnonzero(~blank & ~long).astype(np.int32)


def pack(
    lengths: Sequence[np.ndarray], items: np.ndarray, length: int, seed: int, cache: Path
) -> Rows:
    """Packs items into rows of `length` positions per side, by `best_fit`.

    `lengths` has an array per side. `cache` must be the folder of the ids, because the name of the
    cached rows does not depend on the lengths. benchmarks/batches.py measures the padding.
    """
    options = f"{length} {seed} {WAITING} {RESERVE}"
    name = hashlib.sha256(items.tobytes() + options.encode()).hexdigest()
    directory = cache / f"packed-{name[:16]}"

    def write(folder: Path) -> None:
        row_of_item = best_fit([side[items] for side in lengths], length, seed)
        np.save(folder / "row_of_item.npy", row_of_item)

    checksums.make_folder(directory, write, "packing again")
    row_of_item = np.load(directory / "row_of_item.npy")
    # Sort the items by row: items 5 6 7 in rows 1 0 1 become items 6 5 7 with offsets 0 1 3.
    offsets = np.concatenate([[0], np.cumsum(np.bincount(row_of_item))])
    return Rows(length, items[np.argsort(row_of_item, kind="stable")], offsets)


def best_fit(lengths: Sequence[np.ndarray], length: int, seed: int) -> np.ndarray:
    """Returns the row of each item, int32: best fit over a seeded permutation of the items.

    `lengths` has an array per side, with values up to `length`. The next WAITING items of the
    permutation wait, and one row is filled at a time. The waiting items take turns while the row
    has room for RESERVE average items. Then the row takes the largest item that fits, until none
    does. Only a row's last items are thus chosen, and every item has its turn. Example: rows of 10,
    and four waiting items with (source, target) lengths (5, 4) (6, 5) (2, 3) (4, 6). The longer
    side has 4.5 positions on average, so that 6.75 are reserved:

        item    goes into  because                  room left
        (5, 4)  row 0      it is its turn           (5, 6): less than 6.75 on a side
        (4, 6)  row 0      it is the largest to fit (1, 0): nothing fits
        (6, 5)  row 1      it is its turn           (4, 5)
        (2, 3)  row 1      it is the largest to fit (2, 2)
    """
    row_of_item = np.zeros(len(lengths[0]), np.int32)
    reserve = RESERVE * max(side.mean() for side in lengths)
    arrivals = _in_seeded_order(lengths, seed)
    waiting = list(itertools.islice(arrivals, WAITING))
    # The lengths of the waiting items and their sum, [sides + 1, WAITING].
    sizes = np.array([(*item_lengths, sum(item_lengths)) for _, item_lengths in waiting]).T.copy()
    row = 0
    room = [length] * len(lengths)  # of the row, on each side
    turn = 0
    # Round robin until the row is nearly full, then best fit.
    while waiting:
        turn %= len(waiting)
        if min(room) >= reserve and all(map(operator.le, waiting[turn][1], room)):
            slot = turn
            turn += 1
        else:
            slot = _largest_that_fits(sizes[:, : len(waiting)], room)
        # Nothing fits, so close the row.
        if slot is None:
            room, row = [length] * len(lengths), row + 1
            continue
        item, item_lengths = waiting[slot]
        row_of_item[item] = row
        room = list(map(operator.sub, room, item_lengths))
        # The next item, or else the last waiting item, takes the slot.
        arrival = next(arrivals, None) or waiting.pop()
        if slot < len(waiting):
            waiting[slot] = arrival
            sizes[:, slot] = (*arrival[1], sum(arrival[1]))
    return row_of_item


def _in_seeded_order(lengths: Sequence[np.ndarray], seed: int) -> Iterator[tuple[int, tuple]]:
    """Yields (item, its length on each side) in a seeded order, with a progress bar."""
    chunk = 1 << 16  # items
    order = np.arange(len(lengths[0]), dtype=np.int32)
    np.random.default_rng(seed).shuffle(order)
    with progress.counter("pack", total=len(order), unit="item") as advance:
        for start in range(0, len(order), chunk):
            items = order[start : start + chunk]
            lengths_of_items = zip(*(side[items].tolist() for side in lengths), strict=True)
            yield from zip(items.tolist(), lengths_of_items, strict=True)
            advance(len(items))


def _largest_that_fits(sizes: np.ndarray, room: Sequence[int]) -> int | None:
    """Returns the column of the largest item that fits, or None; `sizes` as in `best_fit`."""
    fits = sizes[0] <= room[0]
    for side, side_room in zip(sizes[1:-1], room[1:], strict=True):
        fits &= side <= side_room
    # Items that do not fit count as 0, so they win only if no item fits.
    slot = int((fits * sizes[-1]).argmax())
    return slot if fits[slot] else None


def one_per_row(lengths: Sequence[np.ndarray], items: np.ndarray, length: int) -> list[Rows]:
    """Returns rows of one item each, grouped by `static_lengths`.

    An item gets the shortest length that fits all its sides. Items are sorted by length to cut them
    into groups; each group's rows are padded to one length.
    """
    longest = np.max([side[items] for side in lengths], axis=0)
    order = np.argsort(longest, kind="stable")
    items, longest = items[order], longest[order]
    groups = []
    start = 0
    for static_length in static_lengths(length, int(longest.max(initial=1))):
        # Sorted lengths 3 8 9 with static lengths 8 and 16 give items 0 and 1, then item 2.
        stop = int(np.searchsorted(longest, static_length, side="right"))
        if stop > start:
            groups.append(Rows(static_length, items[start:stop], np.arange(stop - start + 1)))
        start = stop
    return groups


def static_lengths(length: int, longest: int) -> list[int]:
    """Returns length / 8, / 4, / 2, / 1, then doubles until `longest` fits.

    Example: length 64 and longest 100 give [8, 16, 32, 64, 128].
    """
    lengths = [max(1, length // n) for n in (8, 4, 2, 1)]
    while lengths[-1] < longest:
        lengths.append(2 * lengths[-1])
    return sorted(set(lengths))


def concatenate_ranges(starts: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Concatenates the ranges starts[i], ..., starts[i] + counts[i] - 1, without a Python loop.

    Starts 10 20 with counts 2 3 give 10 11 20 21 22. That is 0 1 2 3 4 plus 10 in the first range,
    and plus 18 in the second, because it begins at 2.
    """
    ends = np.cumsum(counts)
    return np.arange(int(counts.sum())) - np.repeat(ends - counts - starts, counts)
