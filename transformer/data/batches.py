"""Batch t as a pure function of (corpus, seed, t).

Items are packed into rows once (packing.py). An epoch is a seeded permutation of the rows, so that
batch t is batch t % n of epoch t // n. Any host can make any rows of any batch, in any order: there
is no iterator, and no iterator state in a checkpoint.
"""

import concurrent.futures
import dataclasses
import functools
from collections.abc import Callable, Iterable, Iterator

import numpy as np

from transformer.data.packing import Rows, concatenate_ranges


@dataclasses.dataclass(frozen=True)
class Batches:
    """The batches of a corpus: `batches[t]`, or some rows of it, `batches.rows(t, start, stop)`.

    This class decides which item is in which row of which batch. The task's `assemble(items,
    row_of_item, shape, key)` makes the arrays of `shape` (rows, length), with items[i] in row
    row_of_item[i]. Random choices about an item have to come from `key` = (seed, t) and the item
    alone, so that the rows do not depend on the host that assembles them.

    A batch has rows of one group, `batch_positions // length` of them; the last batch of a group
    may have fewer, and is padded with empty rows. seed None: one epoch after the other, in order.

    Example: groups of 5 and 3 rows, 2 rows per batch, give 3 + 2 batches per epoch, numbered 0 1 2
    of group 0 and 3 4 of group 1. A permutation of 0 to 4 orders the batches of an epoch, and a
    permutation of each group's rows deals them to its batches.
    """

    groups: list[Rows]
    batch_positions: int
    seed: int | None
    assemble: Callable[[np.ndarray, np.ndarray, tuple[int, int], tuple], dict]

    def __len__(self) -> int:
        """Returns the number of batches in an epoch."""
        return sum(self._sizes)

    def shape(self, t: int) -> tuple[int, int]:
        """Returns (rows, positions per side) of batch t."""
        group, _ = self._locate(t)
        return self._rows_in_batch(group), self.groups[group].length

    def first_of_each_length(self) -> list[int]:
        """Returns one batch number t for each row length, the longest first."""
        starts = np.cumsum([0, *self._sizes])[:-1]  # each group's first batch, before the shuffle
        order = _permutation(self.seed, 0, -1, len(self)).tolist()
        by_length = np.argsort([-rows.length for rows in self.groups], kind="stable")
        return [order.index(int(starts[group])) for group in by_length]

    def rows(self, t: int, start: int, stop: int) -> dict:
        """Returns rows start to stop of batch t; rows past its end are empty."""
        group, batch = self._locate(t)
        rows, size = self.groups[group], self._rows_in_batch(group)
        order = _permutation(self.seed, t // len(self), group, len(rows))
        chosen = order[batch * size : (batch + 1) * size][start:stop]
        counts = rows.offsets[chosen + 1] - rows.offsets[chosen]
        items = rows.items[concatenate_ranges(rows.offsets[chosen], counts)]
        row_of_item = np.repeat(np.arange(len(chosen)), counts)
        return self.assemble(items, row_of_item, (stop - start, rows.length), (self.seed, t))

    def __getitem__(self, t: int) -> dict:
        return self.rows(t, 0, self.shape(t)[0])

    @property
    def positions(self) -> int:
        """The number of positions per side in an epoch, padding included."""
        sizes = enumerate(self._sizes)
        return sum(n * self._rows_in_batch(g) * self.groups[g].length for g, n in sizes)

    @property
    def items(self) -> np.ndarray:
        """The items of an epoch, in the order of the rows."""
        return np.concatenate([rows.items for rows in self.groups])

    @property
    def _sizes(self) -> list[int]:
        """The number of batches of each group, rounded up."""
        return [-(-len(rows) // self._rows_in_batch(g)) for g, rows in enumerate(self.groups)]

    def _rows_in_batch(self, group: int) -> int:
        return max(1, self.batch_positions // self.groups[group].length)

    def _locate(self, t: int) -> tuple[int, int]:
        """Returns (group, batch within the group) of batch t.

        With 3 + 2 batches in two groups, batch 4 of an epoch's numbering is (1, 1).
        """
        epoch, position = divmod(t, len(self))
        # Group -1 is the order of the batches; groups 0, 1, ... are the orders of their rows.
        batch = int(_permutation(self.seed, epoch, -1, len(self))[position])
        starts = np.cumsum([0, *self._sizes])
        group = int(np.searchsorted(starts, batch, side="right")) - 1
        return group, batch - int(starts[group])


def prefetch(load: Callable[[int], dict], numbers: Iterable[int]) -> Iterator[dict]:
    """Yields load(t) for each number, with a prefetch of one batch in a background thread.

    An error of load(t) is raised here when batch t is due. Closing the generator does not wait for
    the batch that is being loaded.
    """
    thread = concurrent.futures.ThreadPoolExecutor(1, "batches")
    try:
        pending = None
        for t in numbers:
            prefetched = thread.submit(load, t)  # batch t is loaded while the caller uses t - 1
            if pending is not None:
                yield pending.result()
            pending = prefetched
        if pending is not None:
            yield pending.result()
    finally:
        thread.shutdown(wait=False, cancel_futures=True)


@functools.lru_cache(maxsize=16)
def _permutation(seed: int | None, epoch: int, group: int, size: int) -> np.ndarray:
    """Returns the order of a group's rows in an epoch, or for group -1 that of the batches."""
    if seed is None:
        return np.arange(size)
    return np.random.default_rng((seed, epoch, group + 1)).permutation(size)
