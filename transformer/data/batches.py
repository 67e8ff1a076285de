"""Batch t as a pure function of (rows, seed, t).

Items are packed into rows once (packing.py). An epoch is a seeded permutation of the rows, in a
mixture of those that it reads, and batch t is batch t % n of epoch t // n. Any host can make any
rows of any batch in any order, so checkpoints need no iterator state.
"""

import concurrent.futures
import dataclasses
import functools
import itertools
import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

import jax
import numpy as np

from transformer.data import packing

Loaded = TypeVar("Loaded")


@dataclasses.dataclass(frozen=True)
class Batches:
    """The batches of a corpus: `batches[t]`, or some of its rows, `batches.rows(t, start, stop)`.

    This class deals the packed rows to batches. The task's `assemble(items, row_of_item, shape,
    key)` makes the arrays of `shape` (rows, length), with items[i] in row row_of_item[i]. Random
    choices about an item must depend on `key` = (seed, t) and the item only, so that any host
    assembles the same rows.

    A batch has `batch_positions // length` rows of one group. The last batch of a group is padded
    with empty rows. With seed None, for evaluation, the order is not random. A group smaller than
    one batch then has a batch of the next power of two, so that less than half of it is empty and
    splits share static shapes: 24 rows where 128 fit become a batch of 32.

    Example: groups of 5 and 3 rows with 2 rows per batch have 3 + 2 batches per epoch: 0 1 2 of
    group 0, and 3 4 of group 1. A permutation of 0 to 4 orders the batches of an epoch, and a
    permutation of each group's rows deals them to its batches.
    """

    groups: list[packing.Rows]
    batch_positions: int
    seed: int | None
    assemble: Callable[[np.ndarray, np.ndarray, tuple[int, int], tuple], dict]

    def rows(self, t: int, start: int, stop: int) -> dict:
        """Returns rows start to stop of batch t; rows past its end are empty."""
        g, batch = self._locate(t)
        group, num_rows = self.groups[g], self._rows_per_batch(g)
        # With 2 rows per batch, batch 1 has rows 2 and 3 of the group in the epoch's order.
        order = _permutation(self.seed, t // len(self), g, group.reads or len(group))
        chosen = order[batch * num_rows : (batch + 1) * num_rows][start:stop]
        # Rows 4 and 0 with 2 and 3 items become rows 0 0 1 1 1 of the batch.
        counts = group.offsets[chosen + 1] - group.offsets[chosen]
        items = group.items[packing.concatenate_ranges(group.offsets[chosen], counts)]
        row_of_item = np.repeat(np.arange(len(chosen)), counts)
        return self.assemble(items, row_of_item, (stop - start, group.length), (self.seed, t))

    def __getitem__(self, t: int) -> dict:
        return self.rows(t, 0, self.shape(t)[0])

    def _locate(self, t: int) -> tuple[int, int]:
        """Returns (g, b): batch t is batch b of groups[g].

        Example: with 3 batches in group 0 and 2 in group 1, an epoch has (0, 0), (0, 1), (0, 2),
        (1, 0) and (1, 1), in a random order.
        """
        epoch, position = divmod(t, len(self))
        # Group -1 orders the batches; groups 0, 1, ... order their rows.
        batch = int(_permutation(self.seed, epoch, -1, len(self))[position])
        # With starts 0 3 5, batch 3 is batch 0 of group 1.
        starts = np.cumsum([0, *self._batches_per_group])
        g = int(np.searchsorted(starts, batch, side="right")) - 1
        return g, batch - int(starts[g])

    def shape(self, t: int) -> tuple[int, int]:
        """Returns (rows, positions per side) of batch t."""
        g, _ = self._locate(t)
        return self._rows_per_batch(g), self.groups[g].length

    def num_filled(self, t: int) -> int:
        """Returns the number of rows of batch t that hold items; they come first."""
        g, batch = self._locate(t)
        num_rows = self._rows_per_batch(g)
        return min(num_rows, self.groups[g].num_read - batch * num_rows)

    def __len__(self) -> int:
        """Returns the number of batches in an epoch."""
        return sum(self._batches_per_group)

    @property
    def _batches_per_group(self) -> list[int]:
        """The number of batches of each group, rounded up."""
        return [-(-x.num_read // self._rows_per_batch(g)) for g, x in enumerate(self.groups)]

    def _rows_per_batch(self, g: int) -> int:
        full = max(1, self.batch_positions // self.groups[g].length)
        if self.seed is not None:
            return full
        # The next power of two: (24 - 1).bit_length() is 5, and 1 << 5 is 32.
        return min(full, 1 << (len(self.groups[g]) - 1).bit_length())

    def first_of_each_length(self, epoch: int = 0) -> list[int]:
        """Returns the number t of an epoch's first batch of each row length, longest rows first.

        A group's first batch is its fullest.
        """
        starts = np.cumsum([0, *self._batches_per_group])  # before the shuffle
        order = _permutation(self.seed, epoch, -1, len(self)).tolist()
        # order[i] is the batch at position i of the epoch, so `index` inverts the shuffle.
        by_length = np.argsort([-group.length for group in self.groups], kind="stable")
        return [epoch * len(self) + order.index(int(starts[g])) for g in by_length]

    def largest(self) -> list[int]:
        """Returns the numbers t of the one or two batches that need the most memory.

        The first has the longest rows, which need most for attention. The second, if it differs,
        has the most positions, including empty rows.
        """
        numbers = self.first_of_each_length()
        largest = max(numbers, key=lambda t: math.prod(self.shape(t)))
        return list(dict.fromkeys([numbers[0], largest]))

    @property
    def positions(self) -> int:
        """The number of positions per side in batches of all rows, padding included."""
        rows = [self._rows_per_batch(g) for g in range(len(self.groups))]
        return sum(-(-len(x) // n) * n * x.length for x, n in zip(self.groups, rows, strict=True))

    @property
    def items(self) -> np.ndarray:
        """The items of all rows, in their order."""
        return np.concatenate([group.items for group in self.groups])


def example_of(assemble: Callable, rows: int, length: int) -> dict:
    """Returns the shapes and dtypes of a batch from `assemble`, as ShapeDtypeStructs."""
    no_items = np.zeros(0, int)
    batch = assemble(no_items, no_items, (rows, length), (0, 0))
    return jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), batch)


def prefetch(load: Callable[[Any], Loaded], numbers: Iterable) -> Iterator[Loaded]:
    """Yields load(t) for each t of `numbers`, with a prefetch of one in a background thread.

    An error of load(t) is raised when batch t is due, an error of `numbers` at once. Closing the
    generator does not wait for a batch in progress.
    """
    # One thread loads batches in order, and at most one batch waits in memory.
    thread = concurrent.futures.ThreadPoolExecutor(1, "batches")
    try:
        loading = (thread.submit(load, t) for t in numbers)
        # Batch t + 1 is submitted before batch t is yielded, and None after the last.
        for pending, _ in itertools.pairwise(itertools.chain(loading, [None])):
            yield pending.result()
    finally:
        thread.shutdown(wait=False, cancel_futures=True)


@functools.lru_cache(maxsize=16)  # an epoch's order of batches, and the orders of its groups
def _permutation(seed: int | None, epoch: int, g: int, rows: int | tuple) -> np.ndarray:
    """Returns an epoch's order of the rows of group g, or of the batches for g = -1.

    `rows` is their number, or the `reads` of a mixture.
    """
    if seed is None:
        return np.arange(rows)
    if isinstance(rows, tuple):
        rows = packing.rows_of_epoch(rows, epoch, seed)
    # g + 1, because seeds must not be negative.
    return np.random.default_rng((seed, epoch, g + 1)).permutation(rows)
