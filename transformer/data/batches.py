"""Batch t as a pure function of (corpus, seed, t).

A corpus's items are laid into rows once (packing.py). An epoch is a seeded permutation of the rows,
so batch t is batch t % n of epoch t // n, in any order, by any host: there is no iterator whose
state would have to be saved.
"""

import concurrent.futures
import dataclasses
import functools
from collections.abc import Callable, Iterable, Iterator

import numpy as np

from transformer.data.packing import Rows, ranges


@dataclasses.dataclass(frozen=True)
class Batches:
    """Batch t by number, as `batches[t]`, or a part of its rows, as `batches.rows(t, start, stop)`.

    Which item is in which row of which batch is decided here; what a row is, by the task's
    `assemble(items, row_of_item, shape, key)`: the arrays of `shape` (rows, length) that hold
    `items`, items[i] in row row_of_item[i]. What is random about an item comes from `key` = (seed,
    t) and the item alone, so that rows are the same whoever assembles them.

    A batch has `batch_positions // length` rows; where the rows of an epoch run out, the rest of
    its last batch is empty. Without a seed: one epoch, in the rows' order.
    """

    groups: list[Rows]
    batch_positions: int
    seed: int | None
    assemble: Callable[[np.ndarray, np.ndarray, tuple[int, int], tuple], dict]

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
        items = rows.items[ranges(rows.offsets[chosen], counts)]
        row_of_item = np.repeat(np.arange(len(chosen)), counts)
        return self.assemble(items, row_of_item, (stop - start, rows.length), (self.seed, t))

    def __getitem__(self, t: int) -> dict:
        return self.rows(t, 0, self.shape(t)[0])

    @property
    def positions(self) -> int:
        """The positions a side of an epoch, padding included."""
        sizes = enumerate(self._sizes)
        return sum(n * self._rows_in_batch(g) * self.groups[g].length for g, n in sizes)

    @property
    def items(self) -> np.ndarray:
        """The items of an epoch."""
        return np.concatenate([rows.items for rows in self.groups])

    @property
    def _sizes(self) -> list[int]:
        return [-(-len(rows) // self._rows_in_batch(g)) for g, rows in enumerate(self.groups)]

    def _rows_in_batch(self, group: int) -> int:
        return max(1, self.batch_positions // self.groups[group].length)

    def _locate(self, t: int) -> tuple[int, int]:
        """Batch t as (group, number of the batch in the group)."""
        epoch, position = divmod(t, len(self))
        # The order of the batches: its number -1 tells it from the groups' orders of rows.
        batch = int(_permutation(self.seed, epoch, -1, len(self))[position])
        starts = np.cumsum([0, *self._sizes])
        group = int(np.searchsorted(starts, batch, side="right")) - 1
        return group, batch - int(starts[group])


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


@functools.lru_cache(maxsize=16)
def _permutation(seed: int | None, epoch: int, group: int, size: int) -> np.ndarray:
    if seed is None:
        return np.arange(size)
    return np.random.default_rng((seed, epoch, group + 1)).permutation(size)
