"""A profile of a few training steps, for TensorBoard or Perfetto."""

import contextlib
import logging
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax

from transformer.distributed import processes
from transformer.runtime import paths

Tree = Any

WARM_UP = 10  # steps before the trace, as the first ones compile


@contextlib.contextmanager
def traced(first: int, count: int, folder: Path) -> Iterator[Callable[[int, Tree], None]]:
    """Traces `count` steps, after WARM_UP untraced ones, of a run that starts at step `first`.

    Yields a function to call after each step with the step's number and state. With `count` 0 there
    is no trace. If the `with` block ends during the trace, the trace ends too; if before the trace
    begins, a warning is logged.
    """
    # `running` holds the trace between two calls of `after_step`: opened before step begin + 1,
    # closed after step begin + count, or with the run.
    begin, started, running = first + WARM_UP, False, contextlib.ExitStack()
    wanted = count > 0 and processes.is_first()

    def after_step(step: int, state: Tree) -> None:
        nonlocal started
        if wanted and step in (begin, begin + count):
            jax.block_until_ready(state)  # dispatch is asynchronous: earlier steps may still run
            running.close()
            if step == begin:
                running.enter_context(_trace(count, folder))
                started = True

    with running:
        yield after_step
    if wanted and not started:
        logging.warning("no trace: the run ended within %d steps", WARM_UP)


@contextlib.contextmanager
def _trace(count: int, folder: Path) -> Iterator[None]:
    """Writes a trace of its `with` block to a folder, by way of a disk if that is in a bucket."""
    with tempfile.TemporaryDirectory() as scratch:  # JAX cannot write traces into buckets
        local = Path(scratch) if paths.in_bucket(folder) else folder
        try:
            with jax.profiler.trace(local, create_perfetto_trace=True):
                yield
        finally:
            for file in filter(Path.is_file, Path(scratch).rglob("*")):
                paths.write_file(folder / file.relative_to(local), file.read_bytes())
            logging.info("%s: a trace of up to %d steps (docs/performance.md)", folder, count)
