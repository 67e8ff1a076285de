"""Logging of steps and validations: metrics (read late), rates, anomalies, the progress line."""

import collections
import contextlib
import logging
import math
import statistics
from collections.abc import Callable, Iterator
from typing import Any

import flax.linen as nn
import jax

from transformer.distributed.layout import Layout, bytes_per_device
from transformer.errors import quantity
from transformer.runtime import progress
from transformer.runtime.devices import hardware
from transformer.runtime.progress import Progress
from transformer.tasks.task import Task
from transformer.training.state import TrainState
from transformer.workdir.log import Log

Tree = Any


class Meters:
    """Collects each step's metrics and logs those of every n-th step.

    Reading a metric blocks until its step is computed. So metrics are read `lag` steps late: the
    device always has a next step queued, and the host never blocks on the newest one.
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
        """Logs every `every` steps from `step` to `num_steps`.

        `newest()` returns the newest saved step, quoted in the error when every update is
        non-finite.
        """
        self._task, self._log, self._every = task, log, every
        self._progress = Progress(step, num_steps)
        self._anomalies = Anomalies(newest)
        self._late = collections.deque()  # queue of (step, metrics), perhaps not computed yet
        self._lap = []  # (weight, seconds at peak) of the steps since the last line

    def __enter__(self) -> "Meters":
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.close()

    @contextlib.contextmanager
    def waiting_for_data(self) -> Iterator[None]:
        """Counts the time of its body as waiting for data, if the device is idle at the end."""
        # The newest queued step is still computed: then the device does not wait for the host.
        computing = lambda: bool(self._late) and not self._late[-1][1]["loss"].is_ready()
        with self._progress.waiting(computing):
            yield

    def paused(self) -> contextlib.AbstractContextManager:
        """Excludes the time of its body from the step time."""
        return self._progress.paused()

    def add(self, step: int, metrics: dict, *, shape: tuple[int, int], lag: int) -> None:
        """Queues a step's metrics (`shape` is (rows, length)); logs steps at least `lag` older."""
        rows, length = shape
        seconds = seconds_at_peak(self._task.model, rows, length)
        extra = {"positions": rows * length, "seconds_at_peak": seconds}
        self._late.append((step, {**metrics, **extra}))
        # Queue: with lag 2, steps 7 8 9 make 7 ready; lag 0 empties it.
        ready = [self._late.popleft() for _ in range(len(self._late) - lag)]
        jax.block_until_ready(ready)
        # All of them took this lap's time: they count in its rates, which each of their lines has.
        self._lap += [(float(x["weight"]), x.pop("seconds_at_peak")) for _, x in ready]
        last = len(ready) - 1
        logged = [self._log_step(*late, ahead=last - i) for i, late in enumerate(ready)]
        if any(logged):
            self._lap.clear()

    def _log_step(self, step: int, metrics: dict, *, ahead: int) -> bool:
        """Checks a step's metrics for anomalies, logs them if the step is due, and returns whether.

        `ahead` further steps are read together with it: the elapsed time is divided among them.
        """
        metrics = {name: float(value) for name, value in metrics.items()}
        self._progress.advance()
        # `check` logs a skipped update itself.
        if not self._anomalies.check(step, metrics) or step % self._every:
            return False
        weight, unit = metrics.pop("weight"), self._task.unit
        rates = {name: metrics.pop(name) for name in ("gradient_norm", "learning_rate")}
        skipped, positions = int(metrics.pop("skipped")), metrics.pop("positions")
        metrics.pop("finite")
        filled = metrics.pop("filled", None)  # of the target side
        # The loss first. (Compiled functions return dicts sorted by key.)
        names = sorted(metrics, key=lambda name: (name != "loss", name))
        # Sums over the batch become means per token or image.
        means = {name: metrics[name] / weight for name in names}
        means |= self._task.summarise(means)
        times = self._progress.lap(ahead)
        values = {**means, **rates, "skipped": skipped}
        if filled is not None:
            values["padding"] = 1 - filled / positions
        # Rates are of the lap, as its times are: batches of other lengths have other weights.
        lap_weight, lap_at_peak = map(statistics.fmean, zip(*self._lap, strict=True))
        values |= {f"{unit}s_per_second": lap_weight / times["step_seconds"], **times}
        if lap_at_peak:
            values["mfu"] = lap_at_peak / times["step_seconds"]
        self._log.write("train", step, values)
        self._progress.show(means, values, unit)
        return True

    def validation(self, step: int, scores: dict, is_best: bool) -> None:
        """Logs the scores of a validation; the line in the log marks the validation as done."""
        self._log.write("validation", step, scores)
        best_by = self._task.best_by
        numbers = {name: value for name, value in scores.items() if not isinstance(value, str)}
        words = [f"{best_by} {numbers.pop(best_by):.4g}{' (best so far)' if is_best else ''}"]
        words += [f"{name.replace('_', ' ')} {value:.4g}" for name, value in numbers.items()]
        samples = f"\n\n{scores['samples']}" if scores.get("samples") else ""
        text = progress.in_lines(f"step {step}: validation", words)
        logging.info("%s%s", text, samples)


class Anomalies:
    """Logs skipped updates and jumps of the loss, and ends a run that skips every update."""

    MAX_SKIPPED = 10  # consecutive skipped updates that end the run
    WINDOW = 50  # latest losses, from whose median a jump is measured

    def __init__(self, newest: Callable[[], int | None]):
        """Takes `newest()`, which returns the step of the newest checkpoint, or None."""
        self._newest = newest
        self._consecutive = 0
        # Window of finite losses: the oldest falls out as a new one comes.
        self._losses = collections.deque(maxlen=self.WINDOW)

    def check(self, step: int, metrics: dict[str, float]) -> bool:
        """Returns whether a step's update was applied; logs a warning if it was skipped.

        An update is skipped if the loss, the gradient or the learning rate is non-finite.
        FloatingPointError after MAX_SKIPPED skipped updates in a row.
        """
        loss = metrics["loss"] / metrics["weight"] if metrics["weight"] else math.nan
        if metrics["finite"]:
            self._consecutive = 0
            self._warn_of_jump(step, loss)
            self._losses.append(loss)
            return True
        # Skipped: its loss does not enter the window, or a NaN would spoil the median.
        self._consecutive += 1
        norm = metrics["gradient_norm"]
        cause = f"loss {loss}, gradient norm {norm}, learning rate {metrics['learning_rate']:.3g}"
        message = "step %d: non-finite update skipped (%s); %d skipped in total"
        logging.warning(message, step, cause, metrics["skipped"])
        if self._consecutive == self.MAX_SKIPPED:
            saved = self._newest()
            newest = "there is none yet" if saved is None else f"the newest one is of step {saved}"
            raise FloatingPointError(
                f"step {step}: {self.MAX_SKIPPED} non-finite updates in a row ({cause}). Lower "
                "the learning rate (config.optimizer.schedule) and resume from a checkpoint: "
                f"{newest}. To set config.optimizer.clip_norm or other arguments give another "
                "--workdir, because a checkpoint only fits its own optimizer"
            )
        return False

    def _warn_of_jump(self, step: int, loss: float) -> None:
        if len(self._losses) < self.WINDOW:
            return
        # Medians, because a jump itself must not move the threshold.
        median = statistics.median(self._losses)
        deviation = statistics.median(abs(x - median) for x in self._losses)
        if loss > median + max(10 * deviation, 0.2):
            message = "step %d: loss %.3f jumps from %.3f, the median of the last %d steps"
            logging.warning(message, step, loss, median, self.WINDOW)


def describe(task: Task, state: TrainState, layout: Layout) -> dict[str, Any]:
    """Logs and returns the sizes of model and state, the processes, devices, mesh, and the data."""
    facts = {
        "parameters": sum(x.size for x in jax.tree.leaves(state.params)),
        "dtype": getattr(task.model, "dtype", "float32"),
        "bytes_per_device": bytes_per_device(state),
        "processes": jax.process_count(),
        "devices": layout.mesh.size,
        "device": jax.devices()[0].device_kind,
        "strategy": layout.strategy,
        "mesh": tuple(layout.mesh.shape.values()),
        "data": task.about,
    }
    size = f"{quantity(facts['parameters'], 'parameter')} in {facts['dtype']}"
    processes = quantity(facts["processes"], "process", "processes")
    devices = f"{quantity(facts['devices'], 'device')} ({facts['device']})"
    message = "%s, %.1f MB of state per device; %s, %s, %s, (data, fsdp, tensor) = %s"
    megabytes = facts["bytes_per_device"] / 1e6
    logging.info(message, size, megabytes, processes, devices, facts["strategy"], facts["mesh"])
    logging.info("%s", task.about)
    return facts


def seconds_at_peak(model: nn.Module, rows: int, length: int) -> float:
    """Returns the seconds of a step at the peak FLOP/s of all devices (MFU 1).

    0 if the devices' peak or the model's FLOPs are unknown.
    """
    devices = jax.devices()
    flops = getattr(model, "flops", None)
    flops_per_second = len(devices) * hardware(devices[0].device_kind).peak
    return flops(rows, length) / flops_per_second if flops and flops_per_second else 0.0
