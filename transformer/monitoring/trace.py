"""A profile of some steps of a run, to open in TensorBoard or Perfetto."""

import contextlib
import logging
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax

from transformer.storage import paths

Tree = Any

WARM_UP = 10  # steps before a trace: the first ones compile


@contextlib.contextmanager
def traced(first: int, count: int, folder: Path) -> Iterator[Callable[[int, Tree], None]]:
    """A function to tell each finished step of a run that began at `first`, and its state.

    It traces `count` steps (0: none) into the folder. They end with the context, if it ends before.
    """
    begin, running = first + WARM_UP, False

    def stop(place: Path) -> None:
        jax.profiler.stop_trace()
        if place != folder:
            for file in filter(Path.is_file, place.rglob("*")):
                paths.write_file(folder / file.relative_to(place), file.read_bytes())
        logging.info("a trace of up to %d steps is in %s (docs/performance.md)", count, folder)

    def finished(step: int, state: Tree) -> None:
        nonlocal running
        if count and step in (begin, begin + count) and jax.process_index() == 0:
            jax.block_until_ready(state)
            running = step == begin
            if running:
                jax.profiler.start_trace(str(place), create_perfetto_trace=True)
            else:
                stop(place)

    with tempfile.TemporaryDirectory() as scratch:  # JAX writes traces on disks only
        place = Path(scratch) if paths.in_bucket(folder) else folder
        try:
            yield finished
        finally:
            if running:
                stop(place)
