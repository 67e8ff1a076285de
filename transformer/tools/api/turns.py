"""Programs of several devices, launched by one thread at a time."""

import threading
from collections.abc import Iterator
from typing import Any

from transformer.distributed import layout

# Two threads that launch programs of all devices can wait for each other's for ever.
_LAUNCHING = threading.Lock()


def in_turn(answers: Iterator, params: Any) -> Iterator:
    """Yields the answers; on several devices each is computed while no other thread computes."""
    if layout.num_devices(params) == 1:
        yield from answers
        return
    answers = iter(answers)
    while True:
        with _LAUNCHING:
            answer = next(answers, _LAUNCHING)  # the lock itself marks the end
        if answer is _LAUNCHING:
            return
        yield answer
