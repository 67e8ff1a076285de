"""What is searched, parts of lines: in batches of few static shapes, with bounds.

Sizes are rounded up, so that few shapes are compiled.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from transformer.data import tokenizer
from transformer.decoding.next_tokens import Bounds

SHORTEST = 16
FEW_ROWS = 16  # on a device; their steps take little time, so that too much room costs little
SHORTEST_OF_FEW_ROWS = 64  # 16 would save 1 % of the time, and need a third more programs
SHORTEST_MEMORY = 32  # 16 would save 1 % of the time, and need a third more programs
Hypotheses = list[tuple[list[int], float]]  # of a sentence: (ids without the end symbol, score)


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


def divide(
    lengths: list[int],
    workers: int,
    devices: int,
    *,
    num_searches: int,
    batch_tokens: int,
    extra_length: int,
) -> list[list[tuple[int, int]]]:
    """Divides all pairs (index of a part, number of its search) into batches, longest parts first.

    Rows are a power of 4 on each device, within `batch_tokens`: where 7 rows fit, 4. Sorting makes
    the lengths in a batch alike, which saves padding.
    """
    # Of parts of 3, 9 and 5 ids with 2 searches each: (1, 0) (1, 1) (2, 0) (2, 1) (0, 0) (0, 1).
    order = sorted(range(len(lengths)), key=lambda i: -lengths[i])
    order = [(i, number) for i in order for number in range(num_searches)]
    share = len(order) // (workers * devices)  # a larger batch would leave a worker idle
    batches = []
    while order:
        # Rows per device: what batch_tokens allows, but no more than an equal share for each
        # worker, nor than are left. These two never lower 4 rows to 1, the next power of 4.
        longest = lengths[order[0][0]]
        full = max(1, batch_tokens // positions_per_row(longest, extra_length))
        left = -(-len(order) // devices)
        most = min(full, max(4, share), max(4, left))
        rows = devices * next_power(4, full, most=most)
        batches.append(order[:rows])
        order = order[rows:]
    return batches


def positions_per_row(length: int, extra_length: int) -> int:
    """Returns how many of `batch_tokens` a row takes: padded source length + extra_length."""
    return next_power_of_two(length) + extra_length


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
    usual = positions_per_row(max(len(part.source) for part in batch), extra_length)
    most_room = next_power_of_two(max(usual, max(limits) + 1))
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


# Rounding.


def next_power_of_two(length: int, least: int = SHORTEST) -> int:
    """Rounds a length up to a power of two, `least` at least."""
    return max(least, next_power(2, length))


def next_room(length: int, rows: int) -> int:
    """Rounds the room for tokens up to a power of two, for so many rows on a device.

    At least SHORTEST, or SHORTEST_OF_FEW_ROWS for FEW_ROWS or fewer.
    """
    return next_power_of_two(length, SHORTEST_OF_FEW_ROWS if rows <= FEW_ROWS else SHORTEST)


def next_fine_length(length: int) -> int:
    """Rounds a length up to one of two per octave: 2, 4, 6, 8, 12, 16, 24, 32, 48, 64.

    Four per octave would save the encoder 8 % of its positions, which is 0.6 % of the time to
    translate a file, and need 16 programs instead of 11.
    """
    # Multiples of a quarter of the next power of two: 17 to 31 ids have steps of 8, so 24 or 32.
    step = max(2, next_power(2, length + 1) // 4)
    return -(-length // step) * step


def next_power(base: int, size: int, *, most: int = 1 << 30) -> int:
    """Rounds a size up to a power of `base`, or to the largest power that is at most `most`."""
    rounded = 1
    while rounded < size and rounded * base <= most:
        rounded *= base
    return rounded


def rows_in_powers_of_4(rows: int, devices: int) -> int:
    """Rounds rows up to the same power of 4 on each device: 9 rows on 2 devices to 2 * 16."""
    return devices * next_power(4, -(-rows // devices))


def fewer_rows(rows: int, devices: int) -> int:
    """Returns the next smaller size of a shrinking batch, alike on each device; 0 if there is none.

    A quarter of the rows, but never 1 row: 64 16 4. With 32 and 1 as well, a file would be
    translated in 1 to 4 % less time, but its process would have to load 58 programs instead of 36,
    a tenth of a second each.
    """
    # On each device 64 -> 16 -> 4 -> 0: the integer division drops what is below 16.
    return devices * (rows // devices // 16 * 4)
