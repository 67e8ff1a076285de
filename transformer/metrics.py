"""Numbers -> metrics.jsonl, TensorBoard, and what a person sees while waiting."""

import contextlib
import errno
import json
import logging
import os
import socket
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import tqdm
from tensorboardX import summary
from tensorboardX.proto.event_pb2 import Event, SessionLog
from tensorboardX.record_writer import RecordWriter

from transformer import processes, storage

KINDS = ("train", "validation")  # of the lines that training itself writes
REWRITE_SECONDS = 30  # a bucket takes no more than one write of an object a second


class Log:
    """Appends to WORKDIR/metrics.jsonl, one JSON object a line, and to WORKDIR/tensorboard.

    Each line has 'kind' ('train', 'validation', or 'test': the final score) and 'step'. Lines past
    `step`, the one that training resumes from, are cut, and so is a final score, which comes again
    when the run ends: the log of a resumed run is that of an uninterrupted one, but for times. Of
    several processes, one writes. What a full disk does not take comes when there is room again.

    Nothing can be appended to a file in a bucket: there, the log is written anew every
    REWRITE_SECONDS, after validations and by `flush`, and there are no TensorBoard files.
    """

    def __init__(self, workdir: Path, step: int):
        self._path = workdir / "metrics.jsonl"
        lines = [x for x in read(workdir) if x["step"] <= step and x.get("kind") in KINDS]
        # All go on from the first one's, whatever their disks show.
        self.lines = processes.everyones(lines)[0]
        self._writes, self._behind = processes.is_first(), False
        self._appends = self._writes and not storage.in_bucket(workdir)
        if not self._writes:
            return
        self._file = None
        self._rewrite()
        if not self._appends:
            logging.info("%s is in a bucket: metrics.jsonl, but no TensorBoard files", workdir)
            return
        self._show(step + 1)

    def write(self, kind: str, step: int, values: dict) -> None:
        """Logs numbers, and texts (which TensorBoard shows as such)."""
        line = {"kind": kind, "step": step, **values}
        self.lines.append(line)
        if not self._writes:
            return
        with self._unless_full():
            if not self._appends:
                if kind == "validation" or time.perf_counter() - self._rewritten > REWRITE_SECONDS:
                    self._rewrite()
                return
            if self._behind:
                self._rewrite()
                self._show(step)
            elif self._file.write(content := _json_line(line).encode()) < len(content):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            for name, value in values.items():
                show = summary.scalar if isinstance(value, int | float) else summary.text
                self._event(step=step, summary=show(f"{kind}/{name}", value))
            self._tensorboard.flush()

    @contextlib.contextmanager
    def _unless_full(self) -> Iterator[None]:
        """Where a disk takes nothing more, that is said once, and the file is behind."""
        try:
            yield
            self._behind = False
        except OSError as error:
            if not self._behind:
                logging.error("%s: %s; lines wait until there is room", self._path, error)
            self._behind = True

    def _show(self, step: int) -> None:
        """Begins a file for TensorBoard, which from that step on shows this one.

        SummaryWriter would write in a thread, which ends when a disk is full, and the run with it.
        """
        folder = self._path.parent / "tensorboard"
        folder.mkdir(exist_ok=True)
        name = f"events.out.tfevents.{time.time_ns()}.{socket.gethostname()}"
        self._tensorboard = RecordWriter(str(folder / name))
        self._event(file_version="brain.Event:2")
        self._event(step=step, session_log=SessionLog(status=SessionLog.START))

    def _event(self, **content: object) -> None:
        event = Event(wall_time=time.time(), **content)
        self._tensorboard.write(event.SerializeToString())

    def validated(self, step: int) -> bool:
        """Whether the validation of that step is in the log."""
        return any(line["kind"] == "validation" and line["step"] == step for line in self.lines)

    def flush(self) -> None:
        """Before a checkpoint: the lines up to it are kept, as the next run does not write them."""
        if self._writes and (self._behind or not self._appends):
            with self._unless_full():
                self._rewrite()

    def _rewrite(self) -> None:
        storage.write_file(self._path, "".join(map(_json_line, self.lines)).encode())
        self._rewritten = time.perf_counter()
        if self._appends:
            if self._file:
                self._file.close()
            self._file = open(self._path, "ab", 0)  # noqa: SIM115 (`close` closes it)

    def close(self) -> None:
        self.flush()
        if self._appends:
            self._file.close()
            with contextlib.suppress(OSError):  # what a full disk has not taken of it
                self._tensorboard.close()


def read(workdir: Path, name: str = "metrics.jsonl") -> list[dict]:
    """The lines of WORKDIR/metrics.jsonl; a last one that was cut off in writing is left out."""
    path = workdir / name
    if not path.exists():
        return []
    lines = path.read_bytes().decode(errors="replace").split("\n")
    found = []
    for number, line in enumerate(lines[:-1], start=1):
        try:
            values = json.loads(line)
        except (ValueError, RecursionError):  # as a power failure may leave
            values = None
        if isinstance(values, dict) and isinstance(values.get("step"), int):
            found.append(values)
        else:
            logging.warning("%s, line %d, is not of a log: it is left out", path, number)
    return found


def out_of_patience(lines: list[dict], patience: int) -> bool:
    """Whether the last `patience` validations (0: never) brought no better BLEU than before."""
    bleu = [line["bleu"] for line in lines if line["kind"] == "validation" and "bleu" in line]
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

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Leaves what happens inside out of the step time, and of the pace that the bar goes by."""
        start = time.perf_counter()
        yield
        pause = time.perf_counter() - start
        self._clock += pause
        if not self._bar.disable:
            self._bar.last_print_t += pause

    def show(self, values: dict) -> None:
        """Shows the values that are logged of a step."""
        at = f"step {self.step}/{self._total}"
        if not self._bar.disable:  # with the time of day in 80 columns
            text = "loss {loss:.3f}, perplexity {perplexity:.2f}, {tokens_per_second:,.0f} tokens/s"
            logging.info("%s: %s", at, text.format(**values))
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
        logging.info("%s: %s, %s left", at, text, duration(values["seconds_left"]))

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


def _json_line(values: dict) -> str:
    return json.dumps(values, ensure_ascii=False) + "\n"
