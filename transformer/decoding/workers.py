"""A search in progress, and the worker threads that search several batches at the same time."""

import concurrent.futures
import contextlib
import os
import threading
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax

from transformer.decoding.parts import Hypotheses


class Search(NamedTuple):
    """A search in progress.

    `finish(report)` waits for the end and returns each part's hypotheses, best first, or its
    samples in the order drawn. After each batch `report` gets the fraction of the work that is
    done, up to 1. `cancel()` drops the batches that have not begun, and waits for those that have;
    `finish` does so after an error.
    """

    finish: Callable[[Callable[[float], None]], list[Hypotheses]]
    cancel: Callable[[], None]


class Workers:
    """Holds `count` threads that search one batch each; only one of them compiles a static shape.

    A count of 0 means one thread for each core of a CPU, at most 8, and one for an accelerator.
    """

    def __init__(self, count: int):
        if not count:
            count = min(8, _num_cores()) if jax.default_backend() == "cpu" else 1
        self.count = count
        self._pool = concurrent.futures.ThreadPoolExecutor(count)
        # Shapes that are compiled, and the lock under which one worker compiles.
        self._compiled, self._lock = set(), threading.Lock()

    def submit(self, function: Callable, *arguments: Any) -> concurrent.futures.Future:
        """Queues a call of a function; calls begin in the order in which they were submitted."""
        return self._pool.submit(function, *arguments)

    @contextlib.contextmanager
    def compiling(self, *shape: object) -> Iterator[None]:
        """Lets one worker compile a shape while the others wait; once compiled, takes no lock."""
        with contextlib.ExitStack() as stack:
            # Double-checked locking: read without the lock, then again once the lock is held.
            if shape not in self._compiled:
                stack.enter_context(self._lock)
                if shape in self._compiled:  # another worker compiled it while this one waited
                    stack.close()
            yield
            # Only after success: a shape whose compilation failed is tried again.
            self._compiled.add(shape)


def _num_cores() -> int:
    """Returns the number of CPU cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
