"""Several processes: starting, barriers, sharing work, all-gathers, signals.

Values are gathered as JSON (numbers, texts, lists and dicts of these), not as device arrays.
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
from jax._src import distributed  # the coordination service's barrier has no public name
from jax.experimental import multihost_utils

# Set in each of several processes that JAX can discover without being given a coordinator: by
# Slurm's srun, Open MPI, TPUs on Kubernetes, an indexed job on Kubernetes.
CLUSTERS = (
    *("SLURM_STEP_NODELIST", "OMPI_MCA_orte_hnp_uri"),
    *("TPU_WORKER_HOSTNAMES", "TPU_PROCESS_ADDRESSES", "JOB_COMPLETION_INDEX"),
)

TPU_DEVICES = (Path("/dev/accel0"), Path("/dev/vfio/0"))

BARRIER_HOURS = 48  # one process may prepare a large corpus while the others wait


def connect(coordinator: str, num_processes: int, process_id: int) -> None:
    """Connects to the run's other processes, if there are any; call it before any other JAX call.

    Cloud TPU, Slurm, Open MPI and Kubernetes are detected; elsewhere `coordinator` is the HOST:PORT
    at which process 0 of `num_processes` listens. Collective.
    """
    address = (coordinator, num_processes, process_id) if coordinator else ()
    on_tpu = importlib.util.find_spec("libtpu") and any(map(Path.exists, TPU_DEVICES))
    if address or on_tpu or any(name in os.environ for name in CLUSTERS):
        # The service would catch SIGTERM: `stop_signals` does that in training, and before training
        # SIGTERM should end the process.
        jax.config.update("jax_enable_preemption_service", False)
        # JAX's defaults would leave the others waiting 90 s for a process that died.
        timeouts = {"heartbeat_timeout_seconds": 30, "shutdown_timeout_seconds": 30}
        jax.distributed.initialize(*address, **timeouts)


def is_first() -> bool:
    """Returns whether this is process 0, the only one that writes files, logs and results."""
    return jax.process_index() == 0


@contextlib.contextmanager
def first_process_first(name: str) -> Iterator[None]:
    """Runs the body in process 0, then in all the others. Collective.

    On a shared disk, the others find the files that process 0 has written. `name` identifies the
    barrier.
    """
    if not is_first():
        _barrier(name)
    yield
    if is_first():
        _barrier(name)
    _barrier(f"{name} by all")


def _barrier(name: str) -> None:
    """Waits until all processes have called it.

    It is the coordination service's barrier, which can wait for hours: the collective libraries of
    devices give up on each other's first message in less than a minute.
    """
    if jax.process_count() > 1:
        milliseconds = BARRIER_HOURS * 3600 * 1000
        distributed.global_state.client.wait_at_barrier(name, milliseconds)


def my_share(count: int) -> range:
    """Returns the indices, out of `count` items, of this process's share; shares are disjoint.

    Example: of 5 items, process 0 of 2 has 0, 2, 4, and process 1 has 1, 3.
    """
    return range(jax.process_index(), count, jax.process_count())


def gather_shares(share: list, count: int) -> list:
    """Returns all `count` results in order, of which each process gives its `my_share`. Collective.

    Results are numbers, texts, or lists and dicts of these.
    """
    if jax.process_count() == 1:
        return share
    # The all-gather is of arrays of one shape: each process's JSON, padded to the longest.
    content = np.frombuffer(json.dumps(share).encode(), np.uint8)
    lengths = multihost_utils.process_allgather(np.int64(len(content)))
    padded = np.pad(content, (0, max(lengths) - len(content)))
    contents = multihost_utils.process_allgather(padded)
    results = [None] * count
    # Inverts my_share: of 5 results, process 1 of 2 fills 1::2, that is, 1 and 3.
    for process, (content, length) in enumerate(zip(contents, lengths, strict=True)):
        results[process :: jax.process_count()] = json.loads(content[:length].tobytes())
    return results


def all_gather(value: object) -> list:
    """Returns the value of each process, in the order of the processes. Collective."""
    return gather_shares([value], jax.process_count())


@contextlib.contextmanager
def stop_signals() -> Iterator[Callable[[], bool]]:
    """Catches signals that ask to save and stop; yields a function: has one been received?

    They are SIGTERM, SIGHUP (the terminal is gone), SIGUSR1 (Slurm's warning) and Ctrl-C. Repeated
    signals change nothing, but a second Ctrl-C raises KeyboardInterrupt. A signal that was ignored
    at the start, as SIGHUP under nohup, stays ignored.
    """
    # A list, not a threading.Event: a signal that interrupts Event.set deadlocks on its lock.
    received = []
    stopping = (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGINT)
    previous = {number: signal.getsignal(number) for number in stopping}
    previous = {n: handler for n, handler in previous.items() if handler is not signal.SIG_IGN}

    def on_signal(number: int, _: object) -> None:
        received.append(number)
        if number == signal.SIGINT:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        # A signal that interrupts a write to the same stream cannot be logged (reentrant call).
        with contextlib.suppress(RuntimeError):
            logging.info("%s received: saving after this step", signal.Signals(number).name)

    for number in previous:
        signal.signal(number, on_signal)
    try:
        yield lambda: bool(received)
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
