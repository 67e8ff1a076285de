"""One process -> many: joining the others, taking turns, sharing work and results, stopping."""

import contextlib
import importlib.util
import json
import logging
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import jax
import numpy as np
from jax._src import distributed  # its barrier is nowhere else
from jax.experimental import multihost_utils

# What says that this process is one of several which JAX can find by itself: Slurm's srun, Open
# MPI, TPUs on Kubernetes, an indexed job there.
CLUSTERS = (
    *("SLURM_STEP_NODELIST", "OMPI_MCA_orte_hnp_uri"),
    *("TPU_WORKER_HOSTNAMES", "TPU_PROCESS_ADDRESSES", "JOB_COMPLETION_INDEX"),
)

TPU_DEVICES = (Path("/dev/accel0"), Path("/dev/vfio/0"))


def connect(coordinator: str, num_processes: int, process_id: int) -> None:
    """Joins the run's other processes, if there are any, before anything else asks JAX.

    Cloud TPU, Slurm, Open MPI and Kubernetes say themselves who they are; elsewhere `coordinator`
    is the HOST:PORT at which process 0 of `num_processes` listens.
    """
    who = (coordinator, num_processes, process_id) if coordinator else ()
    tpu = importlib.util.find_spec("libtpu") and any(map(Path.exists, TPU_DEVICES))
    if who or tpu or any(name in os.environ for name in CLUSTERS):
        # It would catch SIGTERM, which `stop_signals` does in training and nothing should before.
        jax.config.update("jax_enable_preemption_service", False)
        # By default, the others would wait a minute and a half for one that died.
        jax.distributed.initialize(*who, heartbeat_timeout_seconds=30, shutdown_timeout_seconds=30)


def is_first() -> bool:
    """Whether this process is the one that writes what only one can write."""
    return jax.process_index() == 0


@contextlib.contextmanager
def first_process_first(what: str) -> Iterator[None]:
    """Process 0 does what is inside, then the others do.

    Where disks are shared, these find it done.
    """
    if not is_first():
        _barrier(what)
    yield
    if is_first():
        _barrier(what)
    _barrier(f"{what} by all")


def _barrier(what: str) -> None:
    """Waits for all processes, for hours if need be, and not by their devices: the libraries of
    these wait less than a minute for each other's first word."""
    if jax.process_count() > 1:
        distributed.global_state.client.wait_at_barrier(what, 48 * 3600 * 1000)


def my_share(count: int) -> range:
    """Which of `count` things are this process's: each is one process's."""
    return range(jax.process_index(), count, jax.process_count())


def gather_shares(found: list, count: int) -> list:
    """Everybody's: the `count` things of which each process has found its `share`. They are
    numbers, texts, or lists and dicts of such."""
    if jax.process_count() == 1:
        return found
    text = np.frombuffer(json.dumps(found).encode(), np.uint8)
    lengths = multihost_utils.process_allgather(np.int64(len(text)))
    texts = multihost_utils.process_allgather(np.pad(text, (0, max(lengths) - len(text))))
    everything = [None] * count
    for process, (text, length) in enumerate(zip(texts, lengths, strict=True)):
        everything[process :: jax.process_count()] = json.loads(text[:length].tobytes())
    return everything


def all_gather(value: object) -> list:
    """What each process says, in their order."""
    return gather_shares([value], jax.process_count())


@contextlib.contextmanager
def stop_signals() -> Iterator[Callable[[], bool]]:
    """Gives a function that says whether a signal has asked to finish the step, save and stop.

    SIGTERM, SIGHUP (the terminal is gone), SIGUSR1 (Slurm's) and Ctrl-C do; further ones change
    nothing, but a second Ctrl-C stops at once. What was ignored at the start, as by nohup, stays
    ignored.
    """
    received = []  # no threading.Event: a signal inside its `set` would wait for its lock for ever
    asking = (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGINT)
    handlers = {number: signal.getsignal(number) for number in asking}
    handlers = {n: handler for n, handler in handlers.items() if handler is not signal.SIG_IGN}

    def request(number: int, _: object) -> None:
        received.append(number)
        if number == signal.SIGINT:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        # The signal may have come in the middle of another write: the log cannot take the line.
        with contextlib.suppress(RuntimeError):
            logging.info("%s: saving after this step", signal.Signals(number).name)

    for number in handlers:
        signal.signal(number, request)
    try:
        yield lambda: bool(received)
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
