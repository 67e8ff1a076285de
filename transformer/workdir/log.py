"""A run's log: metrics.jsonl and TensorBoard, truncated on resuming. Listeners get new lines."""

import datetime
import json
import logging
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from tensorboardX import summary
from tensorboardX.event_file_writer import EventsWriter
from tensorboardX.proto.event_pb2 import Event, SessionLog

from transformer.distributed import processes
from transformer.errors import quantity
from transformer.runtime import paths

METRICS, STARTS, RESULTS = "metrics.jsonl", "starts.jsonl", "evaluations.jsonl"
KINDS = ("train", "validation")  # the kinds of lines that the training loop writes
REWRITE_SECONDS = 30  # between writes to a bucket, which allows one write per object and second


OnLog = Callable[[dict], object]  # (new line)


class Log:
    """Appends to WORKDIR/metrics.jsonl, one JSON object per line, and to TensorBoard.

    Each line has 'step', the step of the loss or of the scored params, and 'kind': 'train',
    'validation' or, for the final score, its split (final_SPLIT for a split in KINDS). On resuming
    from `step`, later lines and the final score are removed, and logged again. The log of a resumed
    run thus equals that of an uninterrupted run, except for times. Only process 0 writes, but all
    processes have its `lines`. OSError if the disk is full.

    Files in a bucket cannot be appended to. There, the whole log is rewritten every
    REWRITE_SECONDS, after validations and by `flush`. A bucket gets no TensorBoard files.
    """

    def __init__(self, workdir: Path, step: int, listeners: Sequence[OnLog] = ()):
        """Opens the log of a run at `step`; `listeners` get each new line. Collective."""
        self._listeners = listeners
        self._path = workdir / METRICS
        lines = [x for x in read(workdir) if x["step"] <= step and x.get("kind") in KINDS]
        # Without a shared disk, only process 0 has a log.
        self.lines = processes.all_gather(lines)[0]
        self._step = step
        self._writes = processes.is_first()
        self._in_bucket = paths.in_bucket(workdir)
        self._file = self._tensorboard = None  # stay None in a bucket
        if self._writes:
            self._rewrite()
            if self._in_bucket:
                logging.info("%s is in a bucket: no TensorBoard files are written", workdir)
            else:
                self._open_files()

    def write(self, kind: str, step: int, values: dict) -> None:
        """Logs a line of numbers and texts."""
        self._step = step
        line = {"kind": kind, "step": step, **values}
        self.lines.append(line)
        if not self._writes:
            return
        for listener in self._listeners:
            listener(line)
        if self._in_bucket:
            # A rewrite writes the whole log, so lines of training wait for REWRITE_SECONDS.
            if kind == "validation" or time.perf_counter() - self._rewritten > REWRITE_SECONDS:
                self.flush()
            return
        with paths.naming(self._path):
            self._file.write(_json_line(line).encode())
            self._file.flush()
            for name, value in values.items():
                summarise = summary.scalar if isinstance(value, int | float) else summary.text
                self._event(step=step, summary=summarise(f"{kind}/{name}", value))
            self._tensorboard.flush()

    def started(self, step: int, facts: dict) -> None:
        """Appends a line to WORKDIR/starts.jsonl: the step and time of this start, and `facts`.

        starts.jsonl keeps every start of the run.
        """
        if not self._writes:
            return
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        line = {"step": step, "time": now, **facts}
        paths.append_line(self._path.with_name(STARTS), json.dumps(line).encode())

    def has_validation(self, step: int) -> bool:
        """Returns whether the log has a step's validation."""
        return any(line["kind"] == "validation" and line["step"] == step for line in self.lines)

    def flush(self) -> None:
        """Brings all lines to the disk, or into the bucket.

        Call it before saving a checkpoint, because a resumed run does not log the lines again.
        """
        if self._writes and self._in_bucket:
            self._rewrite()
        elif self._writes:
            os.fsync(self._file.fileno())

    def _rewrite(self) -> None:
        """Atomically rewrites the file with all lines."""
        paths.write_file(self._path, "".join(map(_json_line, self.lines)).encode())
        self._rewritten = time.perf_counter()

    def _open_files(self) -> None:
        """Opens metrics.jsonl for appending and a new TensorBoard file in WORKDIR/tensorboard.

        Its START event hides later events of older files. tensorboardX's SummaryWriter is not used,
        because on a full disk its thread dies and the run hangs.
        """
        self._file = open(self._path, "ab")  # noqa: SIM115 (`close` closes it)
        folder = self._path.parent / "tensorboard"
        folder.mkdir(exist_ok=True)
        # With a suffix, because tensorboardX names files by the second, and would replace a file.
        self._tensorboard = EventsWriter(str(folder / "events"), f".{time.time_ns()}")
        # At step 20, START with step 21 hides the events of steps 21, 22, ... in older files.
        self._event(step=self._step + 1, session_log=SessionLog(status=SessionLog.START))

    def _event(self, **content: object) -> None:
        self._tensorboard.write_event(Event(wall_time=time.time(), **content))

    def close(self) -> None:
        """Flushes and closes the files."""
        self.flush()
        for file in filter(None, (self._file, self._tensorboard)):
            file.close()


def read(workdir: Path, name: str = METRICS) -> list[dict]:
    """Returns the lines of WORKDIR/metrics.jsonl, or of another log; [] without a log.

    A last line without a newline, cut off by a kill, is ignored. Other lines that are not objects
    with a step are skipped with a warning.
    """
    path = workdir / name
    if not path.exists():
        return []
    # texts[:-1] leaves out the rest after the last newline. splitlines would also split at other
    # characters within a text.
    texts = path.read_bytes().decode(errors="replace").split("\n")
    lines = [line for line in map(_parsed, texts[:-1]) if line]
    if skipped := len(texts) - 1 - len(lines):
        logging.warning("%s: %s skipped: not log lines", path, quantity(skipped, "line"))
    return lines


def _parsed(text: str) -> dict | None:
    """Returns a line's object; None unless it has a step, as after a power failure."""
    try:
        values = paths.parse_json(text)
    except (ValueError, RecursionError):
        return None
    return values if isinstance(values, dict) and type(values.get("step")) is int else None


def _json_line(values: dict) -> str:
    return json.dumps(values, ensure_ascii=False) + "\n"
