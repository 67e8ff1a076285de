"""Logging of steps and validations: metrics (read late), rates, anomalies, the progress line."""

import collections
import contextlib
import logging
import math
import statistics
import time
from collections.abc import Iterator

import flax.linen as nn
import jax
import tqdm

from transformer.distributed.layout import Layout, bytes_per_device
from transformer.errors import UserError
from transformer.runtime import progress
from transformer.runtime.devices import hardware
from transformer.tasks.task import Task
from transformer.training.update import TrainState
from transformer.workdir.log import Log


class Meters:
    """Collects each step's metrics, and logs those of every n-th step.

    Reading a metric blocks until its step is computed. Metrics are therefore read `lag` steps late,
    so that the device always has a queued step.
    """

    def __init__(self, task: Task, log: Log, *, step: int, num_steps: int, every: int):
        """Logs every `every` steps from `step` to `num_steps`."""
        self._task, self._log, self._num_steps, self._every = task, log, num_steps, every
        self._anomalies = Anomalies()
        self._late = collections.deque()  # queue of (step, metrics) that may not be computed yet
        self._bar = tqdm.tqdm(
            desc="train", total=num_steps, initial=step, unit="step", disable=None
        )
        self._begin_lap()

    def close(self) -> None:
        """Ends the progress bar."""
        self._bar.close()

    def _begin_lap(self) -> None:
        """Starts a lap, the steps between two logged lines, over which rates are measured."""
        self._lap = []  # metrics of its steps
        self._lap_start, self._waited = time.perf_counter(), 0.0

    @contextlib.contextmanager
    def waiting_for_data(self) -> Iterator[None]:
        """Counts the time of its body as waiting for data, if the device is idle at the end."""
        start = time.perf_counter()
        yield
        # A late batch costs nothing while the newest queued step is being computed.
        if not self._late or self._late[-1][1]["loss"].is_ready():
            self._waited += time.perf_counter() - start

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Excludes the time of its body, such as a validation, from the step time."""
        start = time.perf_counter()
        yield
        # Shift the lap's start by the pause.
        self._lap_start += time.perf_counter() - start

    def add(self, step: int, metrics: dict, *, shape: tuple[int, int], lag: int) -> None:
        """Queues a step's metrics; logs steps at least `lag` older. `shape` is (rows, length)."""
        rows, length = shape
        seconds = seconds_at_peak(self._task.model, rows, length)
        facts = {"positions": rows * length, "seconds_at_peak": seconds}
        self._late.append((step, {**metrics, **facts}))
        # With lag 2, queued steps 7 8 9 make 7 ready; lag 0 empties the queue.
        ready = [self._late.popleft() for _ in range(len(self._late) - lag)]
        # `float` blocks until the step is computed.
        read = [(t, {name: float(x) for name, x in late.items()}) for t, late in ready]
        self._bar.update(len(read))
        self._lap += [values for _, values in read]
        # `Anomalies` logs skipped updates.
        applied = [(t, values) for t, values in read if self._anomalies.applied(t, values)]
        if due := [(t, values) for t, values in applied if t % self._every == 0]:
            rates = self._rates()
            for t, values in due:
                self._log_step(t, values, rates)
            self._begin_lap()

    def _rates(self) -> dict[str, float]:
        """Returns rates and times, averaged over the lap, because batches differ in weight."""
        seconds = time.perf_counter() - self._lap_start
        rates = {
            f"{self._task.unit}s_per_second": sum(x["weight"] for x in self._lap) / seconds,
            "step_seconds": seconds / len(self._lap),
            "waiting": self._waited / seconds,
        }
        at_peak = sum(x["seconds_at_peak"] for x in self._lap)
        return rates | ({"mfu": at_peak / seconds} if at_peak else {})

    def _log_step(self, step: int, metrics: dict[str, float], rates: dict[str, float]) -> None:
        """Logs a step: means over the batch, learning rate, gradient norm, rates and times."""
        # Sums over the batch become means per token or image, the loss first.
        sums = {name: value for name, value in metrics.items() if name not in NO_SUMS}
        means = {name: sums[name] / metrics["weight"] for name in ("loss", *sums)}
        means |= self._task.summarise(means)
        values = {name: metrics[name] for name in ("gradient_norm", "learning_rate")}
        values["skipped"] = int(metrics["skipped"])
        if "filled" in metrics:  # of the target side
            values["padding"] = 1 - metrics["filled"] / metrics["positions"]
        values |= rates
        values["seconds_left"] = rates["step_seconds"] * (self._num_steps - step)
        self._log.write("train", step, {**means, **values})
        # The console gets a line of less than 80 columns.
        rate = f"{self._task.unit}s_per_second"
        words = in_words({"loss": means["loss"], rate: rates[rate]})
        left = progress.duration(values["seconds_left"])
        logging.info("step %d/%d: %s, %s left", step, self._num_steps, words, left)

    def validation(self, step: int, scores: dict, is_best: bool) -> None:
        """Logs the scores of a validation; the line marks the validation as done."""
        self._log.write("validation", step, scores)
        numbers = {name: value for name, value in scores.items() if not isinstance(value, str)}
        best_by = self._task.best_by
        words = in_words({best_by: numbers[best_by], **numbers})
        best = f" (best {best_by} so far)" if is_best else ""
        samples = f"\n\n{scores['samples']}" if scores.get("samples") else ""
        logging.info("step %d: validation %s%s%s", step, words, best, samples)


# The metrics of a step that are not sums over its batch.
NO_SUMS = (
    *("weight", "gradient_norm", "learning_rate", "skipped", "finite"),
    *("filled", "positions", "seconds_at_peak"),
)


def in_words(values: dict) -> str:
    """Returns values by name as text, such as 'loss 3.709, tokens per second 12,300'."""
    digits = lambda x: f"{x:.4g}" if x < 1000 else f"{x:,.0f}"
    text = lambda x: digits(x) if isinstance(x, int | float) else str(x)
    return ", ".join(f"{name.replace('_', ' ')} {text(x)}" for name, x in values.items())


class Anomalies:
    """Logs skipped updates and jumps of the loss, and ends a run that skips every update."""

    MAX_SKIPPED = 10  # consecutive skipped updates that end the run
    WINDOW = 50  # losses; a jump is measured from their median

    def __init__(self):
        """Starts with an empty window."""
        self._consecutive = 0
        # Window of the latest finite losses.
        self._losses = collections.deque(maxlen=self.WINDOW)

    def applied(self, step: int, metrics: dict[str, float]) -> bool:
        """Returns whether a step's update was applied; logs a warning if it was skipped.

        An update is skipped if the loss, the gradient or the learning rate is non-finite.
        UserError after MAX_SKIPPED skipped updates in a row.
        """
        loss = metrics["loss"] / metrics["weight"] if metrics["weight"] else math.nan
        if metrics["finite"]:
            self._consecutive = 0
            self._warn_of_jump(step, loss)
            self._losses.append(loss)
            return True
        # A skipped update's loss stays out of the window, because NaN would spoil the median.
        self._consecutive += 1
        norm = metrics["gradient_norm"]
        cause = f"loss {loss}, gradient norm {norm}, learning rate {metrics['learning_rate']:.3g}"
        message = "step %d: non-finite update skipped (%s); %d skipped in total"
        logging.warning(message, step, cause, metrics["skipped"])
        if self._consecutive == self.MAX_SKIPPED:
            raise UserError(
                f"step {step}: {self.MAX_SKIPPED} non-finite updates in a row ({cause}). Delete "
                f"checkpoints of step {step - self.MAX_SKIPPED} and later, if any, and resume with "
                "a lower learning rate (config.optimizer.schedule). To set config.optimizer."
                "clip_norm or other arguments give another --workdir, because a checkpoint only "
                "fits its own optimizer"
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


def describe(task: Task, state: TrainState, layout: Layout) -> dict[str, object]:
    """Logs and returns the sizes of model and state, processes, devices, mesh and data."""
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
    logging.info("%s", in_words(facts))
    return facts


def seconds_at_peak(model: nn.Module, rows: int, length: int) -> float:
    """Returns the seconds of a step at the peak FLOP/s of all devices (MFU 1); 0 if unknown."""
    devices = jax.devices()
    flops = getattr(model, "flops", None)
    flops_per_second = len(devices) * hardware(devices[0].device_kind).peak
    return flops(rows, length) / flops_per_second if flops and flops_per_second else 0.0
