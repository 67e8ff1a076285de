"""Sizes of chunks and batches, rounded so that few static shapes are compiled."""

import itertools
from collections.abc import Iterable, Iterator
from typing import TypeVar

Item = TypeVar("Item")

SHORTEST = 16
# Tokens for which a search first has room in its KV cache, by rows on a device (powers of 4). Steps
# of few rows are cheap, so unused room costs little. With 16 for all, --mode=translate of 500 lines
# loads more programs, and takes 5.7 seconds instead of 5.0 (two cores, quickstart's model).
SHORTEST_ROOM = {1: 64, 4: 64, 16: 32}
SHORTEST_MEMORY = 32  # 16 would save 1 % of the time, and need a third more programs


def chunks(items: Iterable[Item], count: int) -> Iterator[list[Item]]:
    """Yields lists of `count` items, the last perhaps shorter; reads items one list at a time."""
    items = iter(items)
    while chunk := list(itertools.islice(items, count)):
        yield chunk


# Rounding.


def positions_per_row(length: int, extra_length: int) -> int:
    """Returns a row's share of `batch_tokens`: padded source length + extra_length."""
    return next_power_of_two(length) + extra_length


def next_power_of_two(length: int, least: int = SHORTEST) -> int:
    """Rounds a length up to a power of two, at least `least`."""
    return max(least, next_power(2, length))


def next_room(length: int, rows: int) -> int:
    """Rounds the room for tokens up to a power of two, for `rows` rows on a device.

    At least SHORTEST_ROOM of these rows, or SHORTEST.
    """
    return next_power_of_two(length, SHORTEST_ROOM.get(rows, SHORTEST))


def next_fine_length(length: int) -> int:
    """Rounds a length up to one of two values per octave: 2, 4, 6, 8, 12, 16, 24, 32, 48, 64.

    Four per octave would save the encoder 8 % of its positions, or 0.6 % of the time to translate a
    file, but need 16 programs instead of 11.
    """
    # Multiples of a quarter of the next power of two: 17 to 31 ids are rounded to 24 or 32.
    step = max(2, next_power(2, length + 1) // 4)
    return -(-length // step) * step


def next_power(base: int, size: int, *, most: int = 1 << 30) -> int:
    """Rounds a size up to a power of `base`, but at most to the largest power up to `most`."""
    rounded = 1
    while rounded < size and rounded * base <= most:
        rounded *= base
    return rounded


def rows_in_powers_of_4(rows: int, devices: int) -> int:
    """Rounds rows up to the same power of 4 on each device: 9 rows on 2 devices to 2 * 16."""
    return devices * next_power(4, -(-rows // devices))


def fewer_rows(rows: int, devices: int) -> int:
    """Returns the next smaller size of a shrinking batch, equal on each device; 0 after the last.

    Each size is a quarter of the last, down to 4 rows. With sizes 32 and 1 as well, translating a
    file would take 1 to 4 % less time, but its process would load 58 programs instead of 36, at a
    tenth of a second each.
    """
    # On each device 64 -> 16 -> 4 -> 0; below 16 the integer division gives 0.
    return devices * (rows // devices // 16 * 4)
