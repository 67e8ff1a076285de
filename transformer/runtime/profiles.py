"""A profile of a few training steps, for TensorBoard or Perfetto."""

import contextlib
import logging
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax

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
    begin, started, running = first + WARM_UP, False, False

    def stop() -> None:
        jax.profiler.stop_trace()
        if local_folder != folder:
            for file in filter(Path.is_file, local_folder.rglob("*")):
                paths.write_file(folder / file.relative_to(local_folder), file.read_bytes())
        logging.info("wrote a trace of up to %d steps to %s (docs/performance.md)", count, folder)

    def after_step(step: int, state: Tree) -> None:
        nonlocal started, running
        if count and step in (begin, begin + count) and jax.process_index() == 0:
            jax.block_until_ready(state)  # dispatch is asynchronous: earlier steps may still run
            running = step == begin
            if running:
                jax.profiler.start_trace(str(local_folder), create_perfetto_trace=True)
                started = True
            else:
                stop()

    with tempfile.TemporaryDirectory() as scratch:  # JAX cannot write traces into buckets
        local_folder = Path(scratch) if paths.in_bucket(folder) else folder
        try:
            yield after_step
        finally:
            if running:
                stop()
            elif count and not started and jax.process_index() == 0:
                logging.warning("no trace: the run ended within %d steps", WARM_UP)
