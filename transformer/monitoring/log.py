"""Numbers -> metrics.jsonl, TensorBoard, and what a person sees while waiting."""

import contextlib
import errno
import json
import logging
import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path

from tensorboardX import summary
from tensorboardX.proto.event_pb2 import Event, SessionLog
from tensorboardX.record_writer import RecordWriter

from transformer.distributed import processes
from transformer.storage import paths

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
        self.lines = processes.all_gather(lines)[0]
        self._writes, self._behind = processes.is_first(), False
        self._appends = self._writes and not paths.in_bucket(workdir)
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
        paths.write_file(self._path, "".join(map(_json_line, self.lines)).encode())
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


def out_of_patience(lines: list[dict], patience: int, best_by: str, best_is: str) -> bool:
    """Early stopping: whether the last `patience` validations (0: never) brought no better
    `best_by` than those before. Example: patience 2, highest: 3 5 4 5 -> True."""
    scores = [x[best_by] for x in lines if x["kind"] == "validation" and best_by in x]
    if best_is == "lowest":
        scores = [-score for score in scores]
    return 0 < patience < len(scores) and max(scores[-patience:]) <= max(scores[:-patience])


def _json_line(values: dict) -> str:
    return json.dumps(values, ensure_ascii=False) + "\n"
