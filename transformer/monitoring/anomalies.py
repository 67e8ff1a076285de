"""Metrics of steps -> warnings: updates that are skipped as non-finite, losses that jump."""

import collections
import logging
import math
import statistics
from collections.abc import Callable


class Anomalies:
    """Notices non-finite updates, which are skipped, and losses that jump."""

    MOST = 10  # skipped updates in a row
    WINDOW = 50  # losses whose median a jump is measured from

    def __init__(self, newest: Callable[[], int | None]):
        """`newest` gives the newest step that is saved."""
        self._newest = newest
        self._in_a_row = 0
        self._losses = collections.deque(maxlen=self.WINDOW)

    def check(self, step: int, metrics: dict[str, float]) -> bool:
        """Whether the step's update was made. If it was skipped, as the loss, the gradient or the
        new params are non-finite, that is logged; FloatingPointError after MOST in a row."""
        loss = metrics["loss"] / metrics["weight"] if metrics["weight"] else math.nan
        if metrics["finite"]:
            self._in_a_row = 0
            self._look_for_a_jump(step, loss)
            self._losses.append(loss)
            return True
        self._in_a_row += 1
        norm = metrics["gradient_norm"]
        overflow = ", but non-finite new params" if math.isfinite(loss + norm) else ""
        logging.warning(
            "step %d: loss %s, gradient norm %s%s: the update is skipped (%d in all)",
            *(step, loss, norm, overflow, metrics["skipped"]),
        )
        if self._in_a_row == self.MOST:
            saved = self._newest()
            last = "nothing was saved yet" if saved is None else f"the last one saved is {saved}"
            raise FloatingPointError(
                f"step {step}: loss {loss}, gradient norm {norm}{overflow}, as in the "
                f"{self.MOST - 1} steps before, at learning rate {metrics['learning_rate']:.3g}; "
                f"{last}. "
                "Lower the learning rate (config.optimizer.schedule), or set "
                "config.optimizer.clip_norm"
            )
        return False

    def _look_for_a_jump(self, step: int, loss: float) -> None:
        if len(self._losses) < self.WINDOW:
            return
        middle = statistics.median(self._losses)
        spread = statistics.median(abs(x - middle) for x in self._losses)
        if loss > middle + max(10 * spread, 0.2):
            logging.warning(
                "step %d: loss %.3f jumps from %.3f, the median of the last %d steps",
                *(step, loss, middle, self.WINDOW),
            )
