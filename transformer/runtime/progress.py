"""Progress of a long job: a bar on a terminal, plain lines in a log."""

import contextlib
import functools
import logging
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import jax
import tqdm

from transformer.errors import quantity

REPORT_SECONDS = 30.0  # between two lines of a log


def progress(
    iterable: Iterable, what: str, *, total: int | None = None, unit: str = "line"
) -> Iterator:
    """Yields the items of an iterable, and shows how many were taken; takes `counter`'s options."""
    with counter(what, total=total, unit=unit) as advance:
        for item in iterable:
            yield item
            advance(1)


@contextlib.contextmanager
def counter(
    what: str,
    *,
    total: int | None = None,
    unit: str = "line",
    note: Callable[[], str] = lambda: "",
) -> Iterator[Callable[[int], None]]:
    """Yields a function `advance(count)` that shows the progress over lines, or other units.

    If standard error is a terminal, it shows a bar, which also says when JAX is compiling;
    otherwise it logs a line every REPORT_SECONDS. Both have the number of units done, units a
    second, if the total is known the time left, and what `note()` returns. At the end, a summary is
    logged.
    """
    start = shown = time.perf_counter()
    done = 0

    def advance(count: int) -> None:
        nonlocal done, shown
        done += count
        bar.update(count)
        now = time.perf_counter()
        if bar.disable and now - shown > REPORT_SECONDS:
            shown, rate = now, done / (now - start)
            left = f", {duration((total - done) / rate)} left" if total and done else ""
            left += f", {note()}" if note() else ""
            logging.info("%s: %s, %s a second%s", what, quantity(done, unit), _rounded(rate), left)

    with _bar(note, desc=what, total=total, unit=f" {unit}s") as bar:
        yield advance
    seconds = time.perf_counter() - start
    units, rate = quantity(done, unit), _rounded(done / seconds)
    logging.info("%s: %s in %.1f s, %s a second", what, units, seconds, rate)


@contextlib.contextmanager
def waiting(what: str) -> Iterator[None]:
    """Names what the body waits for, where nothing can be counted, such as a compilation.

    If standard error is a terminal, it shows the name and the seconds so far. Otherwise it shows
    nothing: the caller logs what it waits for.
    """
    with _bar(desc=what, bar_format="{desc} [{elapsed}]"):
        yield


@contextlib.contextmanager
def _bar(note: Callable[[], str] = lambda: "", **options: Any) -> Iterator[tqdm.tqdm]:
    """Shows a bar on a terminal, redrawn every half second: its time goes on between updates."""
    done = threading.Event()

    def redraw() -> None:
        while not done.wait(0.5):
            bar.set_postfix_str("compiling" if compiling() else note())

    # A thread, because the calling one is inside XLA while a program compiles.
    thread = threading.Thread(target=redraw, daemon=True)
    with tqdm.tqdm(file=sys.stderr, disable=None, leave=False, **options) as bar:
        if bar.disable:
            yield bar
            return
        compiling = _follow_compilations()
        thread.start()
        try:
            yield bar
        finally:
            done.set()
            thread.join()


@functools.cache
def _follow_compilations() -> Callable[[], bool]:
    """Returns a function that says whether a program is being compiled.

    JAX reports that a program is lowered, which is when its compilation begins, and that it is
    compiled, both in the thread that waits for it (but for the dry run's step, training/loop.py).
    """
    # Threads, not a flag: several programs may be compiled at the same time.
    waiting_threads = set()

    def listen(event: str, seconds: float, **_: object) -> None:
        if event == LOWERED:
            waiting_threads.add(threading.get_ident())
        elif event == COMPILED:
            waiting_threads.discard(threading.get_ident())

    jax.monitoring.register_event_duration_secs_listener(listen)
    return lambda: bool(waiting_threads)


LOWERED = "/jax/core/compile/jaxpr_to_mlir_module_duration"
COMPILED = "/jax/core/compile/backend_compile_duration"


class Progress:
    """The progress of a training run, which also times its steps.

    Each step that is logged is one line; on a terminal, a short one above a progress bar.
    """

    def __init__(self, step: int, total: int):
        """Starts at `step` of `total` steps."""
        self.step = self._lap_step = step
        self._total = total
        options = {"total": total, "initial": step, "unit": "step", "dynamic_ncols": True}
        self._bar = tqdm.tqdm(desc="train", file=sys.stderr, disable=None, **options)
        self._lap_start = time.perf_counter()
        self._waited = 0.0  # seconds of this lap
        self._step_seconds = self._waiting = 0.0  # of the last lap

    @contextlib.contextmanager
    def waiting(self, computing: Callable[[], bool]) -> Iterator[None]:
        """Counts the body's time as waiting for data, unless `computing()` is true at its end.

        While the device is still computing earlier steps, a late batch costs nothing.
        """
        start = time.perf_counter()
        yield
        if not computing():
            self._waited += time.perf_counter() - start

    def advance(self) -> None:
        """Counts one step."""
        self.step += 1
        self._bar.update()

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Excludes the body's time (a validation, say) from step times and the bar's estimate."""
        start = time.perf_counter()
        yield
        # Moves the start of the lap forward, as if the pause had been before it.
        pause = time.perf_counter() - start
        self._lap_start += pause
        if not self._bar.disable:
            self._bar.last_print_t += pause  # tqdm measures its rate from here

    def show(self, means: dict[str, float], values: dict[str, float], unit: str) -> None:
        """Logs a step's means (the loss first), learning rate, gradient norm, throughput, times.

        `unit` is what the throughput counts: 'token', 'image'.
        """
        position = f"step {self.step}/{self._total}"
        throughput = f"{values[f'{unit}s_per_second']:,.0f} {unit}s/s"
        parts = [f"{name.replace('_', ' ')} {value:.4g}" for name, value in means.items()]
        if not self._bar.disable:  # a terminal's 80 columns, of which the time of day takes nine
            logging.info("%s: %s", position, ", ".join([*parts[:2], throughput]))
            return
        parts += [
            f"learning rate {values['learning_rate']:.2e}",
            f"gradient norm {values['gradient_norm']:.2f}",
            *([f"padding {values['padding']:.1%}"] if "padding" in values else []),
            throughput,
            f"{values['step_seconds']:.3f} s/step ({values['waiting']:.1%} waiting for data)",
            *([f"MFU {values['mfu']:.1%}"] if "mfu" in values else []),
            f"{duration(values['seconds_left'])} left",
        ]
        logging.info("%s", in_lines(f"{position}:", parts))

    def lap(self, ahead: int = 0) -> dict[str, float]:
        """Ends a lap of steps and returns its times; if no step was taken, the last lap's times.

        The times are 'step_seconds', 'waiting' (the fraction of the lap spent waiting for data) and
        'seconds_left' in the run at that rate. The lap includes `ahead` steps that are computed,
        but not yet counted by `advance`.
        """
        # The steps ahead count in this lap, whose time they took: the next begins behind them.
        if self.step > self._lap_step:
            now = time.perf_counter()
            seconds = now - self._lap_start
            self._step_seconds = seconds / (self.step + ahead - self._lap_step)
            self._waiting = self._waited / max(seconds, 1e-9)
            self._lap_start, self._lap_step, self._waited = now, self.step + ahead, 0.0
        return {
            "step_seconds": self._step_seconds,
            "waiting": self._waiting,
            "seconds_left": self._step_seconds * (self._total - self.step),
        }

    def close(self) -> None:
        """Closes the progress bar."""
        self._bar.close()


def in_lines(head: str, parts: Iterable[str]) -> str:
    """Returns a log message, a head and parts with commas between, wrapped between its parts.

    Its lines fit into 120 columns, of which the time of day takes nine.
    """
    # No-break spaces keep textwrap from breaking a line within a part.
    text = ", ".join(part.replace(" ", "\u00a0") for part in parts)
    options = {"width": 111, "subsequent_indent": "    ", "break_on_hyphens": False}
    return textwrap.fill(f"{head} {text}", **options).replace("\u00a0", " ")


def _rounded(rate: float) -> str:
    return f"{rate:,.0f}" if rate >= 10 else f"{rate:.1f}"


def duration(seconds: float) -> str:
    """Returns seconds as a short text: 42 s, 3 min 5 s, 2 h 4 min."""
    minutes, s = divmod(round(seconds), 60)
    hours, m = divmod(minutes, 60)
    if hours:
        return f"{hours} h {m} min"
    return f"{m} min {s} s" if m else f"{s} s"
