"""Several processes: starting, barriers, sharing work, all-gathers, signals.

Values are gathered as JSON: None, booleans, numbers, strings, lists, dicts with string keys; tuples
become lists. The JSON is a padded uint8 array, because devices gather arrays of one shape only.
"""

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
from jax._src import distributed as jax_distributed  # its barrier has no public name
from jax.experimental import multihost_utils

from transformer.errors import UserError

# Environment variables by which JAX detects a cluster and its coordinator: Slurm's srun, Open MPI,
# Kubernetes with TPUs (the third and fourth), and an indexed job of Kubernetes.
CLUSTER_VARIABLES = (
    "SLURM_STEP_NODELIST",
    "OMPI_MCA_orte_hnp_uri",
    "TPU_WORKER_HOSTNAMES",
    "TPU_PROCESS_ADDRESSES",
    "JOB_COMPLETION_INDEX",
)

TPU_DEVICES = (Path("/dev/accel0"), Path("/dev/vfio/0"))

BARRIER_MILLISECONDS = 48 * 3600 * 1000  # because one process may prepare a large corpus


def connect(coordinator: str, num_processes: int, process_id: int) -> None:
    """Connects to any other processes of the run; call it before any other JAX call.

    Cloud TPU, Slurm, Open MPI and Kubernetes are detected. Elsewhere `coordinator` is the HOST:PORT
    of process 0 of `num_processes`; UserError if they do not fit together. Collective.
    """
    host, _, port = coordinator.rpartition(":")
    is_right = host and port.isdigit() and process_id < num_processes
    if (coordinator or num_processes) and not is_right:
        raise UserError(
            "config.parallel.coordinator must be HOST:PORT, with process_id below num_processes, "
            f"found {coordinator!r}, {process_id} and {num_processes}"
        )
    cluster = (coordinator, num_processes, process_id) if coordinator else ()
    on_tpu = importlib.util.find_spec("libtpu") and any(map(Path.exists, TPU_DEVICES))
    if cluster or on_tpu or any(name in os.environ for name in CLUSTER_VARIABLES):
        # The service would catch SIGTERM. But in training `stop_signals` catches it, and before
        # training SIGTERM should end the process.
        jax.config.update("jax_enable_preemption_service", False)
        # With JAX's defaults, processes wait 90 s for a process that died.
        timeouts = {"heartbeat_timeout_seconds": 30, "shutdown_timeout_seconds": 30}
        jax.distributed.initialize(*cluster, **timeouts)


def is_first() -> bool:
    """Returns whether this is process 0, which writes the run's log, results and config."""
    return jax.process_index() == 0


@contextlib.contextmanager
def first_process_first(name: str) -> Iterator[None]:
    """Runs the body in process 0, then in all other processes. Collective.

    On a shared disk, the other processes find the files that process 0 has written. `name`
    identifies the barrier.
    """
    if not is_first():
        _barrier(name)
    yield
    if is_first():
        _barrier(name)
    _barrier(f"{name} by all")


def _barrier(name: str) -> None:
    """Blocks until all processes have called it with this name.

    The coordination service's barrier waits 48 hours. A barrier of devices (Gloo, NCCL) would time
    out within a minute.
    """
    if jax.process_count() > 1:
        jax_distributed.global_state.client.wait_at_barrier(name, BARRIER_MILLISECONDS)


def my_share(count: int) -> range:
    """Returns the indices of this process's share of `count` items; shares are disjoint.

    Example: of 5 items, process 0 of 2 has 0, 2, 4, and process 1 has 1, 3.
    """
    return range(jax.process_index(), count, jax.process_count())


def gather_shares(share: list, count: int) -> list:
    """Gathers each process's results of its `my_share`, in order. Collective.

    Returns `count` results, which are JSON values (see the module's docstring).
    """
    if jax.process_count() == 1:
        return share
    # All-gather each process's JSON, padded to the longest.
    content = np.frombuffer(json.dumps(share).encode(), np.uint8)
    lengths = multihost_utils.process_allgather(np.int64(len(content)))
    padded = np.pad(content, (0, max(lengths) - len(content)))
    contents = multihost_utils.process_allgather(padded)
    results = [None] * count
    # The inverse of my_share: of 5 results, process 1 of 2 fills 1::2, that is, 1 and 3.
    for process, (content, length) in enumerate(zip(contents, lengths, strict=True)):
        results[process :: jax.process_count()] = json.loads(content[:length].tobytes())
    return results


def all_gather(value: object) -> list:
    """Returns each process's value, in the order of the processes. Collective."""
    return gather_shares([value], jax.process_count())


@contextlib.contextmanager
def stop_signals() -> Iterator[Callable[[], bool]]:
    """Catches stop signals; yields a function that returns whether a signal was received.

    The signals are SIGTERM, SIGHUP (the terminal is gone), SIGUSR1 (Slurm's warning) and Ctrl-C.
    A second Ctrl-C raises KeyboardInterrupt; other repeated signals change nothing. A signal that
    was ignored at the start, as SIGHUP under nohup, stays ignored.
    """
    # Not a threading.Event, because a signal that interrupts Event.set deadlocks on its lock.
    received = []
    stopping = (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGINT)
    # The handlers to restore at the end, without ignored signals.
    previous = {n: signal.getsignal(n) for n in stopping if signal.getsignal(n) != signal.SIG_IGN}

    def on_signal(number: int, _: object) -> None:
        received.append(number)
        if number == signal.SIGINT:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        message = "%s received: stopping after the current step or batch, and saving"
        # Logging fails (reentrant call) if the signal interrupts a write to the same stream.
        with contextlib.suppress(RuntimeError):
            logging.info(message, signal.Signals(number).name)

    for number in previous:
        signal.signal(number, on_signal)
    try:
        yield lambda: bool(received)
    finally:
        for number, handler in previous.items():
            # None: a handler of C, which Python cannot restore.
            signal.signal(number, handler or signal.SIG_DFL)
