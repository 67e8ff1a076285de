"""Sizes rounded up, so that few static shapes are compiled."""


def next_power_of_two(length: int, least: int = 16) -> int:
    """The next of least, 2 least, 4 least, ..."""
    return max(least, power(2, length))


def finely(length: int) -> int:
    """The next length of eight in each octave: every one up to 16, then even ones up to 32, ..."""
    step = max(1, power(2, length + 1) // 16)
    return -(-length // step) * step


def power(base: int, size: int, *, most: int = 1 << 30) -> int:
    """The next power of `base` (1, base, ...), or the last one that is not more than `most`."""
    rounded = 1
    while rounded < size and rounded * base <= most:
        rounded *= base
    return rounded


def rows_for_devices(devices: int, rows: int) -> int:
    """As many rows on each device: the next of 1, 4, 16, ..., times the devices."""
    return devices * power(4, -(-rows // devices))
