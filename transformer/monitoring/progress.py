"""A long job's progress: a bar on a terminal, plain lines in a log."""

import contextlib
import logging
import sys
import time
from collections.abc import Callable, Iterable, Iterator

import tqdm


def progress(
    iterable: Iterable, what: str, *, total: int | None = None, every: float = 30.0
) -> Iterator:
    """The iterable, with a `counter` of its items."""
    with counter(what, total=total, every=every) as advance:
        for item in iterable:
            yield item
            advance(1)


@contextlib.contextmanager
def counter(
    what: str, *, total: int | None = None, every: float = 30.0
) -> Iterator[Callable[[int], None]]:
    """A function to tell how many more lines are done.

    It shows a bar on a terminal's standard error, else it logs a line `every` so many seconds and
    at the end. Both say how many are done, how many a second and, if the total is known, the time
    that is left.
    """
    start = shown = time.perf_counter()
    bar = tqdm.tqdm(
        desc=what, total=total, unit=" lines", file=sys.stderr, disable=None, leave=False
    )
    done = 0

    def advance(count: int) -> None:
        nonlocal done, shown
        done += count
        bar.update(count)
        now = time.perf_counter()
        if bar.disable and now - shown > every:
            shown, pace = now, done / (now - start)
            left = f", {duration((total - done) / pace)} left" if total and done else ""
            lines = counted(done, "line")
            logging.info("%s: %s, %s a second%s", what, lines, _rounded(pace), left)

    with bar:
        yield advance
    seconds = time.perf_counter() - start
    lines, pace = counted(done, "line"), _rounded(done / seconds)
    logging.info("%s: %s in %.1f s, %s a second", what, lines, seconds, pace)


class Progress:
    """Shows where a training run stands: a line for each step that is logged; on a terminal a
    short one, above a bar with the time that is left."""

    def __init__(self, step: int, total: int):
        self.step = self._logged = step
        self._total = total
        self._bar = tqdm.tqdm(
            desc="train",
            total=total,
            initial=step,
            unit="step",
            file=sys.stderr,
            disable=None,
            dynamic_ncols=True,
        )
        self._clock = time.perf_counter()
        self._pace = self._share = self._waited = 0.0

    @contextlib.contextmanager
    def waiting(self, computing: Callable[[], bool]) -> Iterator[None]:
        """Counts the time inside as waiting for data, if the device is not computing after it."""
        start = time.perf_counter()
        yield
        if not computing():
            self._waited += time.perf_counter() - start

    def advance(self) -> None:
        """One more step is done."""
        self.step += 1
        self._bar.update()

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Leaves what happens inside out of the step time, and of the pace that the bar goes by."""
        start = time.perf_counter()
        yield
        pause = time.perf_counter() - start
        self._clock += pause
        if not self._bar.disable:
            self._bar.last_print_t += pause

    def show(self, means: dict[str, float], values: dict[str, float], unit: str) -> None:
        """Shows what is logged of a step: the loss and other means, rates and times."""
        at = f"step {self.step}/{self._total}"
        rate = f"{values[f'{unit}s_per_second']:,.0f} {unit}s/s"
        said = [f"{name.replace('_', ' ')} {value:.4g}" for name, value in means.items()]
        if not self._bar.disable:  # with the time of day in 80 columns
            logging.info("%s: %s", at, ", ".join([*said[:2], rate]))
            return
        said += [
            f"learning rate {values['learning_rate']:.2e}",
            f"gradient norm {values['gradient_norm']:.2f}",
            f"padding {values['padding']:.1%}",
            rate,
            f"{values['step_seconds']:.3f} s/step, {values['waiting']:.1%} of it waiting for data",
        ]
        if "mfu" in values:
            said.append(f"MFU {values['mfu']:.1%} of the devices' bfloat16 peak")
        left = duration(values["seconds_left"])
        logging.info("%s: %s, %s left", at, ", ".join(said), left)

    def lap(self) -> dict[str, float]:
        """Seconds a step since the last lap, the share of them that was spent waiting for batches,
        and seconds left at that pace."""
        if self.step > self._logged:
            now = time.perf_counter()
            self._pace = (now - self._clock) / (self.step - self._logged)
            self._share = self._waited / max(now - self._clock, 1e-9)
            self._clock, self._logged, self._waited = now, self.step, 0.0
        left = self._pace * (self._total - self.step)
        return {"step_seconds": self._pace, "waiting": self._share, "seconds_left": left}

    def close(self) -> None:
        self._bar.close()


def counted(number: int, noun: str, plural: str = "") -> str:
    """A number and what it counts: 1 line, 24,000 lines, 2 processes."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def _rounded(pace: float) -> str:
    return f"{pace:.0f}" if pace >= 10 else f"{pace:.1f}"


def duration(seconds: float) -> str:
    """Seconds as people write them: 42 s, 3 min 5 s, 2 h 4 min."""
    minutes, s = divmod(round(seconds), 60)
    hours, m = divmod(minutes, 60)
    if hours:
        return f"{hours} h {m} min"
    return f"{m} min {s} s" if m else f"{s} s"
