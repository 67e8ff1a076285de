"""Parts of lines: their division into batches, the bounds of a search, and its hypotheses."""

from typing import NamedTuple

import numpy as np

from transformer.data import tokenizer
from transformer.decoding import shapes
from transformer.decoding.bounds import Bounds

Hypotheses = list[tuple[list[int], float]]  # of a sentence: (ids without the end symbol, score)


class Part(NamedTuple):
    """The input of one search: the ids of a line, or of a part of an over-long line."""

    source: tuple[int, ...]
    prefix: tuple[int, ...] = ()
    # (line, part) of a sampled part; the number of the search is appended. Folded into the seed.
    random_key: tuple[int, ...] = ()


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
        rows = devices * shapes.next_power(4, full, most=most)
        batches.append(order[:rows])
        order = order[rows:]
    return batches


def positions_per_row(length: int, extra_length: int) -> int:
    """Returns how many of `batch_tokens` a row takes: padded source length + extra_length."""
    return shapes.next_power_of_two(length) + extra_length


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
    most_room = shapes.next_power_of_two(max(usual, max(limits) + 1))
    padding = [0] * (rows - len(batch))
    bounds = Bounds(
        min_length_B=np.array([min_length] * len(batch) + padding, np.int32),
        max_length_B=np.array([*limits, *padding], np.int32),
        prefix_BM=tokenizer.padded([part.prefix for part in batch], rows, most_room),
    )
    return bounds, most_room


def numbered(part: Part, number: int) -> Part:
    """Returns a part with the number of its search, so that each search draws other samples."""
    return part._replace(random_key=(*part.random_key, number))


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
