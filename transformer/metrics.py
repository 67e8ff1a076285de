"""Numbers -> metrics.jsonl, TensorBoard, and what a person sees while waiting."""

import collections
import contextlib
import json
import logging
import math
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import tqdm
from tensorboardX import SummaryWriter

from transformer import storage

REWRITE_SECONDS = 30  # a bucket takes no more than one write of an object a second


class Log:
    """Appends to WORKDIR/metrics.jsonl, one JSON object a line, and to WORKDIR/tensorboard.

    Each line has 'kind' ('train' or 'validation') and 'step'. Lines past `step`, the one that
    training resumes from, are cut: the log of a resumed run is that of an uninterrupted one, but
    for times. Of several processes, one writes.

    Nothing can be appended to a file in a bucket: there, the log is written anew every
    REWRITE_SECONDS, after validations and by `flush`, and there are no TensorBoard files.
    """

    def __init__(self, workdir: Path, step: int, *, writes: bool = True):
        self._path = workdir / "metrics.jsonl"
        self.lines = [line for line in read(workdir) if line["step"] <= step]
        self._writes = writes
        self._appends = writes and not storage.in_bucket(workdir)
        if not writes:
            return
        self._rewrite()
        if not self._appends:
            logging.info("%s is in a bucket: metrics.jsonl, but no TensorBoard files", workdir)
            return
        self._file = open(self._path, "a", 1, encoding="utf-8")  # noqa: SIM115 (`close` closes it)
        self._tensorboard = SummaryWriter(
            str(workdir / "tensorboard"),
            purge_step=step + 1,
            flush_secs=1,  # of points that a killed run loses; two minutes by default
        )

    def write(self, kind: str, step: int, values: dict) -> None:
        """Logs numbers, and texts (which TensorBoard shows as such)."""
        line = {"kind": kind, "step": step, **values}
        self.lines.append(line)
        if not self._writes:
            return
        if not self._appends:
            if kind == "validation" or time.perf_counter() - self._rewritten > REWRITE_SECONDS:
                self._rewrite()
            return
        self._file.write(_json_line(line))
        for name, value in values.items():
            if isinstance(value, int | float):
                self._tensorboard.add_scalar(f"{kind}/{name}", value, step)
            else:
                self._tensorboard.add_text(f"{kind}/{name}", str(value), step)

    def validated(self, step: int) -> bool:
        """Whether the validation of that step is in the log."""
        return any(line["kind"] == "validation" and line["step"] == step for line in self.lines)

    def flush(self) -> None:
        """Before a checkpoint: the lines up to it are kept, as the next run does not write them."""
        if self._writes and not self._appends:
            self._rewrite()

    def _rewrite(self) -> None:
        storage.write_file(self._path, "".join(map(_json_line, self.lines)).encode())
        self._rewritten = time.perf_counter()

    def close(self) -> None:
        self.flush()
        if self._appends:
            self._file.close()
            self._tensorboard.close()


def read(workdir: Path) -> list[dict]:
    """The lines of WORKDIR/metrics.jsonl; a last one that was cut off in writing is left out."""
    path = workdir / "metrics.jsonl"
    if not path.exists():
        return []
    lines = path.read_bytes().decode().split("\n")
    return [json.loads(line) for line in lines[:-1]]


def out_of_patience(lines: list[dict], patience: int) -> bool:
    """Whether the last `patience` validations (0: never) brought no better BLEU than before."""
    bleu = [line["bleu"] for line in lines if line["kind"] == "validation"]
    return 0 < patience < len(bleu) and max(bleu[-patience:]) <= max(bleu[:-patience])


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
            logging.info("%s: %d lines, %s a second%s", what, done, _rounded(pace), left)

    with bar:
        yield advance
    seconds = time.perf_counter() - start
    pace = _rounded(done / seconds)
    logging.info("%s: %d lines in %.1f s, %s a second", what, done, seconds, pace)


class Progress:
    """Where a training run stands: a bar on a terminal, a plain line each time it is told else."""

    def __init__(self, step: int, total: int):
        self.step = self._first = self._logged = step
        self._total = total
        self._bar = tqdm.tqdm(
            total=total, initial=step, desc="train", unit="step", file=sys.stderr, disable=None
        )
        self._clock = time.perf_counter()
        self._pace = self._share = self._waited = 0.0

    def waiting(self, batches: Iterable, computing: Callable[[], bool]) -> Iterator:
        """Gives the batches, and takes the time of waiting for those after which the device is not
        computing any more."""
        batches = iter(batches)
        while True:
            start = time.perf_counter()
            try:
                batch = next(batches)
            except StopIteration:
                return
            if not computing():
                self._waited += time.perf_counter() - start
            yield batch

    def advance(self) -> None:
        """One more step is done."""
        self.step += 1
        self._bar.update()
        if self.step == self._first + 1:  # its time says nothing of the steps to come
            logging.info("step %d, with compilation: %.1f s", self.step, self.lap()["step_seconds"])

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Leaves out of the step time what happens inside."""
        start = time.perf_counter()
        yield
        self._clock += time.perf_counter() - start

    def show(self, values: dict) -> None:
        """Shows the values that are logged of a step."""
        if not self._bar.disable:
            text = "loss {loss:.3f}, perplexity {perplexity:.2f}, {tokens_per_second:,.0f} tokens/s"
            self._bar.set_postfix_str(text.format(**values), refresh=False)
            return
        text = (
            "loss {loss:.3f}, {nats_per_token:.3f} nats/token, perplexity {perplexity:.2f}, "
            "accuracy {accuracy:.1%}, learning rate {learning_rate:.2e}, "
            "gradient {gradient_norm:.2f}, padding {padding:.1%}, "
            "{tokens_per_second:,.0f} tokens/s, {step_seconds:.3f} s/step, "
            "{waiting:.1%} of it waiting for data"
        ).format(**values)
        if "share_of_peak" in values:
            text += f", {values['share_of_peak']:.1%} of the devices' bfloat16 peak"
        left = duration(values["seconds_left"])
        logging.info("step %d/%d: %s, %s left", self.step, self._total, text, left)

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


class Watch:
    """Notices steps whose numbers are none, and losses that jump."""

    MOST = 10  # steps without numbers in a row
    WINDOW = 50  # losses that a jump is held against

    def __init__(self, newest: Callable[[], int | None]):
        """`newest` gives the step that was saved last."""
        self._newest = newest
        self._in_a_row = 0
        self._losses = collections.deque(maxlen=self.WINDOW)

    def sees(self, step: int, sums: dict) -> bool:
        """Whether the step has numbers. If it has none, its update was left out, which is logged;
        FloatingPointError after MOST of them in a row."""
        loss = sums["loss"] / sums["tokens"] if sums["tokens"] else math.nan
        if math.isfinite(loss + sums["gradient_norm"]):
            self._in_a_row = 0
            self._look_for_a_jump(step, loss)
            self._losses.append(loss)
            return True
        self._in_a_row += 1
        logging.warning(
            "step %d: loss %s, gradient norm %s: its update is left out (%d in all)",
            *(step, loss, sums["gradient_norm"], sums["left_out"]),
        )
        if self._in_a_row == self.MOST:
            saved = self._newest()
            last = "nothing was saved yet" if saved is None else f"the last one saved is {saved}"
            raise FloatingPointError(
                f"step {step}: loss {loss}, gradient norm {sums['gradient_norm']}, as in the "
                f"{self.MOST - 1} steps before, at learning rate {sums['learning_rate']:.3g}; "
                f"{last}. Lower config.optimizer.factor, or set config.optimizer.adam.clip_norm"
            )
        return False

    def _look_for_a_jump(self, step: int, loss: float) -> None:
        if len(self._losses) < self.WINDOW:
            return
        middle = statistics.median(self._losses)
        spread = statistics.median(abs(x - middle) for x in self._losses)
        if loss > middle + max(10 * spread, 0.2):
            logging.warning(
                "step %d: loss %.3f jumps from %.3f, the median of the last %d steps",
                *(step, loss, middle, self.WINDOW),
            )


def _rounded(pace: float) -> str:
    return f"{pace:.0f}" if pace >= 10 else f"{pace:.1f}"


def duration(seconds: float) -> str:
    """Seconds as people write them: 42 s, 3 min 5 s, 2 h 4 min."""
    minutes, s = divmod(round(seconds), 60)
    hours, m = divmod(minutes, 60)
    if hours:
        return f"{hours} h {m} min"
    return f"{m} min {s} s" if m else f"{s} s"


def _json_line(values: dict) -> str:
    return json.dumps(values, ensure_ascii=False) + "\n"
