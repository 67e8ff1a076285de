"""Runs launch.py in several processes at once, each on its devices, and forwards signals."""

import collections
import dataclasses
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from transformer.distributed.processes import CLUSTER_VARIABLES
from transformer.errors import UserError
from transformer.tools.sweep.sweep_file import Run
from transformer.workdir import log
from transformer.workdir.config_files import ROOT

COUNT = "import jax; print(jax.default_backend(), jax.local_device_count())"


def environments(processes: int) -> list[dict[str, str]]:
    """Returns the additional environment variables of each simultaneous process.

    `processes` 0 is one process per GPU; without GPUs, one process with all devices. UserError for
    several processes on a TPU.
    """
    platform, count = _devices()
    if platform == "tpu" and processes > 1:
        raise UserError(
            f"config.sweep.processes must be 0 or 1 on a TPU, whose chips belong to one process, "
            f"found {processes}"
        )
    if platform != "gpu":
        return [{}] * max(processes, 1)
    # GPUs may have names, such as MIG-...; the variable has them in JAX's order.
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")
    gpus = visible if len(visible) == count and all(visible) else [*map(str, range(count))]
    shared = {}
    if processes > count and not any(name.endswith("MEM_FRACTION") for name in os.environ):
        # JAX allocates three quarters of a GPU's memory at start. Of 5 processes on 2 GPUs, the
        # first GPU has 3.
        shared["XLA_CLIENT_MEM_FRACTION"] = f"{0.9 / -(-processes // count):.2f}"
    return [{"CUDA_VISIBLE_DEVICES": gpus[i % count], **shared} for i in range(processes or count)]


def _devices() -> tuple[str, int]:
    """Returns JAX's platform here, and its number of devices.

    Another process counts them: JAX holds memory of each GPU, and all chips of a TPU, until its
    process ends.
    """
    environment = {**os.environ, "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
    counted = subprocess.run(
        [sys.executable, "-c", COUNT], env=environment, capture_output=True, text=True, check=False
    )
    if counted.returncode:
        reason = (counted.stderr.strip() or "no reason").splitlines()[-1]
        raise UserError(f"JAX finds no devices: {reason}")
    platform, count = counted.stdout.split()[-2:]
    return platform, int(count)


LAUNCH = ROOT / "launch.py"
POLL_SECONDS = 0.5
TAIL_BYTES = 1 << 16  # read from the end of a log for its newest line

# Exit statuses of a signalled run: after saving, and before its first step.
STOPPED = (128 + signal.SIGTERM, -signal.SIGTERM, 128 + signal.SIGINT)


@dataclasses.dataclass
class Child:
    """A run's process, and its newest step so far."""

    run: Run
    environment: dict[str, str]
    process: subprocess.Popen
    step: int


def run_all(
    runs: Sequence[Run],
    environments: Sequence[dict[str, str]],
    *,
    should_stop: Callable[[], bool],
    advance: Callable[[int], None],
    ended: Callable[[Run, int], None],
) -> None:
    """Runs all, one at a time per environment, until `should_stop()`.

    Then sends SIGTERM to the running processes and waits until they have saved. Calls
    `advance(steps)` as steps are logged, and `ended(run, exit status)` for each run that was
    started.
    """
    waiting, free = collections.deque(runs), collections.deque(environments)
    running, signalled = [], False
    try:
        while running or (waiting and not should_stop()):
            while waiting and free and not should_stop():
                running.append(_start(waiting.popleft(), free.popleft()))
            if should_stop() and not signalled:
                signalled = True
                _terminate(running)
            time.sleep(POLL_SECONDS)
            for child in list(running):
                status = child.process.poll()
                # A finished run may have stopped early; a resumed one logs some steps again.
                run, step = child.run, newest_step(child.run)
                if status == 0:
                    step = run.config.train.num_steps
                advance(max(step - child.step, 0))
                child.step = max(step, child.step)
                if status is not None:
                    running.remove(child)
                    free.append(child.environment)
                    ended(run, status)
    finally:
        _terminate(running)  # after an error


def _start(run: Run, environment: dict[str, str]) -> Child:
    """Starts a run, whose output is appended to `run.log`."""
    # Each run is a single process, even if Slurm or another launcher started the sweep.
    inherited = {name: x for name, x in os.environ.items() if name not in CLUSTER_VARIABLES}
    step = newest_step(run)  # before the process can log another one
    with open(run.log, "ab") as output:
        process = subprocess.Popen(
            [sys.executable, str(LAUNCH), *run.arguments],
            env={**inherited, **environment},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            # Ctrl-C would reach all processes of the terminal: only `run_all` forwards it.
            start_new_session=True,
        )
    return Child(run, environment, process, step)


def _terminate(running: Sequence[Child]) -> None:
    for child in running:
        child.process.terminate()


def newest_step(run: Run) -> int:
    """Returns the newest step in a run's metrics.jsonl, 0 if it has none."""
    steps = re.findall(rb'"step": (\d+)', _tail(run.workdir / log.METRICS))
    return max(map(int, steps), default=0)


def last_line(run: Run) -> str:
    """Returns the last line that a run's process has printed."""
    lines = _tail(run.log).decode(errors="replace").split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), "it printed nothing")


def _tail(file: Path) -> bytes:
    if not file.exists():
        return b""
    with open(file, "rb") as content:
        content.seek(max(0, os.fstat(content.fileno()).st_size - TAIL_BYTES))
        return content.read()


def in_words(status: int) -> str:
    """Returns an exit status as text: 'exit status 1', 'killed by SIGKILL'."""
    return f"exit status {status}" if status >= 0 else f"killed by {signal.Signals(-status).name}"
