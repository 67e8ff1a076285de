"""Progress of a long job: tqdm's bar on a terminal, plain lines in a log."""

import contextlib
import logging
import time
from collections.abc import Callable, Iterable, Iterator

import tqdm

from transformer.errors import quantity

REPORT_SECONDS = 30.0  # between two lines of a log


def progress(
    iterable: Iterable, what: str, *, total: int | None = None, unit: str = "line"
) -> Iterator:
    """Yields the items of an iterable, and shows the progress as `counter` does."""
    with counter(what, total=total, unit=unit) as advance:
        for item in iterable:
            yield item
            advance(1)


@contextlib.contextmanager
def counter(
    what: str, *, total: int | None = None, unit: str = "line", hidden: bool = False
) -> Iterator[Callable[[int], None]]:
    """Yields a function `advance(count)` that shows the progress over lines, or other units.

    A terminal on standard error gets a bar, a log gets a line every REPORT_SECONDS. Both have the
    units done, units per second and, with a known total, the time left. The end logs a summary.
    A `hidden` one, as for an interactive mode, shows and logs nothing.
    """
    if hidden:
        yield lambda count: None
        return
    start = logged = time.perf_counter()
    done = 0

    def advance(count: int) -> None:
        nonlocal done, logged
        done += count
        bar.update(count)
        now = time.perf_counter()
        if bar.disable and now - logged > REPORT_SECONDS:
            logged, rate = now, done / (now - start)
            left = f", {duration((total - done) / rate)} left" if total and done else ""
            logging.info("%s: %s, %s a second%s", what, quantity(done, unit), _rounded(rate), left)

    with tqdm.tqdm(desc=what, total=total, unit=f" {unit}s", leave=False, disable=None) as bar:
        yield advance
    seconds = time.perf_counter() - start
    rate = _rounded(done / seconds)
    logging.info("%s: %s in %.1f s, %s a second", what, quantity(done, unit), seconds, rate)


def waiting(what: str) -> contextlib.AbstractContextManager:
    """Shows `what` on a terminal during its `with` block, for jobs without a count.

    A log gets nothing; the caller logs the wait.
    """
    return tqdm.tqdm(desc=what, bar_format="{desc} ...", leave=False, disable=None)


def _rounded(rate: float) -> str:
    return f"{rate:,.0f}" if rate >= 10 else f"{rate:.1f}"


def duration(seconds: float) -> str:
    """Returns seconds as a short text: 42 s, 3 min 5 s, 2 h 4 min."""
    minutes, s = divmod(round(seconds), 60)
    hours, m = divmod(minutes, 60)
    if hours:
        return f"{hours} h {m} min"
    return f"{m} min {s} s" if m else f"{s} s"
