"""Warnings from a step's metrics: skipped non-finite updates, jumps of the loss."""

import collections
import logging
import math
import statistics
from collections.abc import Callable


class Anomalies:
    """Logs skipped updates and jumps of the loss, and ends a run that skips every update."""

    MOST = 10  # consecutive skipped updates that end the run
    WINDOW = 50  # latest losses, from whose median a jump is measured

    def __init__(self, newest: Callable[[], int | None]):
        """`newest` returns the step of the newest checkpoint, or None."""
        self._newest = newest
        self._consecutive = 0
        self._losses = collections.deque(maxlen=self.WINDOW)

    def check(self, step: int, metrics: dict[str, float]) -> bool:
        """Returns whether a step's update was applied; logs a warning if it was skipped.

        An update is skipped if the loss, the gradient or the learning rate is non-finite.
        FloatingPointError after MOST skipped updates in a row.
        """
        loss = metrics["loss"] / metrics["weight"] if metrics["weight"] else math.nan
        if metrics["finite"]:
            self._consecutive = 0
            self._warn_of_jump(step, loss)
            self._losses.append(loss)
            return True
        self._consecutive += 1
        norm = metrics["gradient_norm"]
        cause = f"loss {loss}, gradient norm {norm}, learning rate {metrics['learning_rate']:.3g}"
        logging.warning(
            "step %d: non-finite update skipped (%s); %d skipped in total",
            *(step, cause, metrics["skipped"]),
        )
        if self._consecutive == self.MOST:
            saved = self._newest()
            newest = "there is none yet" if saved is None else f"the newest one is of step {saved}"
            raise FloatingPointError(
                f"step {step}: {self.MOST} non-finite updates in a row ({cause}). Lower the "
                "learning rate (config.optimizer.schedule) and resume from a checkpoint: "
                f"{newest}. To set "
                "config.optimizer.clip_norm or other arguments give another --workdir, because a "
                "checkpoint only fits its own optimizer"
            )
        return False

    def _warn_of_jump(self, step: int, loss: float) -> None:
        if len(self._losses) < self.WINDOW:
            return
        # Medians, because a jump itself must not move the threshold.
        median = statistics.median(self._losses)
        deviation = statistics.median(abs(x - median) for x in self._losses)
        if loss > median + max(10 * deviation, 0.2):
            logging.warning(
                "step %d: loss %.3f jumps from %.3f, the median of the last %d steps",
                *(step, loss, median, self.WINDOW),
            )
