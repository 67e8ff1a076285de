"""What a run says of its steps: metrics that are read late, rates, anomalies, the progress line."""

import collections
import contextlib
import logging
from collections.abc import Callable, Iterator
from typing import Any

import flax.linen as nn
import jax

from transformer.distributed.layout import Layout, bytes_per_device
from transformer.monitoring import progress
from transformer.monitoring.anomalies import Anomalies
from transformer.monitoring.devices import peak
from transformer.monitoring.log import Log
from transformer.monitoring.progress import Progress
from transformer.tasks.task import Task
from transformer.training.update import TrainState

Tree = Any


class Meters:
    """Takes each step's metrics while the device computes further ones, and logs every so many.

    Metrics are read `lag` steps late: the device always has the next step waiting, and the host
    never waits for it.
    """

    def __init__(
        self,
        task: Task,
        log: Log,
        *,
        step: int,
        num_steps: int,
        every: int,
        newest: Callable[[], int | None],
    ):
        """`newest` gives the newest step that is saved."""
        self._task, self._log, self._every = task, log, every
        self._progress = Progress(step, num_steps)
        self._anomalies = Anomalies(newest)
        self._late = collections.deque()  # (step, metrics) that the device may still be computing

    def __enter__(self) -> "Meters":
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.close()

    @contextlib.contextmanager
    def waiting_for_data(self) -> Iterator[None]:
        """Counts the time inside as waiting, if the device has nothing left to compute after it."""
        computing = lambda: bool(self._late) and not self._late[-1][1]["loss"].is_ready()
        with self._progress.waiting(computing):
            yield

    def paused(self) -> contextlib.AbstractContextManager:
        """Leaves what happens inside out of the time of a step."""
        return self._progress.paused()

    def add(self, step: int, metrics: dict, *, shape: tuple[int, int], lag: int) -> None:
        """Takes a step's metrics, of a batch of `shape` (rows, length), and logs those of `lag`
        steps before."""
        rows, length = shape
        least = least_seconds(self._task.model, rows, length)
        extra = {"positions": rows * length, "least_seconds": least}
        self._late.append((step, {**metrics, **extra}))
        while len(self._late) > lag:
            self._log_step(*self._late.popleft())

    def _log_step(self, step: int, metrics: dict) -> None:
        metrics = {name: float(value) for name, value in metrics.items()}
        self._progress.advance()
        # A skipped update is logged by itself.
        if not self._anomalies.check(step, metrics) or step % self._every:
            return
        weight, unit = metrics.pop("weight"), self._task.unit
        rates = {name: metrics.pop(name) for name in ("gradient_norm", "learning_rate")}
        skipped, positions = int(metrics.pop("skipped")), metrics.pop("positions")
        least_seconds, _ = metrics.pop("least_seconds"), metrics.pop("finite")
        # Compiled functions return dicts in the order of their keys.
        names = sorted(metrics, key=lambda name: (name != "loss", name))
        means = {name: metrics[name] / weight for name in names}
        means |= self._task.summarise(means)
        times = self._progress.lap()
        values = {
            **means,
            **rates,
            "skipped": skipped,
            "padding": 1 - weight / positions,
            f"{unit}s_per_second": weight / times["step_seconds"],
            **times,
        }
        if least_seconds:
            values["mfu"] = least_seconds / times["step_seconds"]
        self._log.write("train", step, values)
        self._progress.show(means, values, unit)

    def validation(self, step: int, scores: dict, is_best: bool) -> None:
        """Logs a validation: it marks it as done."""
        self._log.write("validation", step, scores)
        best_by = self._task.best_by
        numbers = {name: value for name, value in scores.items() if not isinstance(value, str)}
        said = [f"{best_by} {numbers.pop(best_by):.4g}{' (best so far)' if is_best else ''}"]
        said += [f"{name.replace('_', ' ')} {value:.4g}" for name, value in numbers.items()]
        samples = f"\n\n{scores['samples']}" if scores.get("samples") else ""
        logging.info("step %d: validation %s%s", step, ", ".join(said), samples)


def describe(task: Task, state: TrainState, layout: Layout) -> None:
    """Says what is about to run."""
    logging.info(
        "%s in %s, the state %.1f MB a device; %s, %s (%s), %s, (data, fsdp, tensor) = %s",
        progress.counted(sum(x.size for x in jax.tree.leaves(state.params)), "parameter"),
        getattr(task.model, "dtype", "float32"),
        bytes_per_device(state) / 1e6,
        progress.counted(jax.process_count(), "process", "processes"),
        progress.counted(layout.mesh.size, "device"),
        *(jax.devices()[0].device_kind, layout.strategy, tuple(layout.mesh.shape.values())),
    )
    logging.info("%s", task.about)


def least_seconds(model: nn.Module, rows: int, length: int) -> float:
    """How long a step of `rows` rows would take at the peak FLOP/s of all devices; 0 if the peak
    or the model's FLOPs are not known."""
    devices = jax.devices()
    flops = getattr(model, "flops", None)
    reached = len(devices) * peak(devices[0].device_kind)
    return flops(rows, length) / reached if flops and reached else 0.0
