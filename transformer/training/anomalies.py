"""Warnings from a step's metrics: skipped non-finite updates, jumps of the loss."""

import collections
import logging
import math
import statistics
from collections.abc import Callable


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
