"""Steps' numbers -> warnings: updates that are left out, losses that jump."""

import collections
import logging
import math
import statistics
from collections.abc import Callable


class Watch:
    """Notices updates that are left out because something is non-finite, and losses that jump."""

    MOST = 10  # updates left out in a row
    WINDOW = 50  # losses that a jump is held against

    def __init__(self, newest: Callable[[], int | None]):
        """`newest` gives the step that was saved last."""
        self._newest = newest
        self._in_a_row = 0
        self._losses = collections.deque(maxlen=self.WINDOW)

    def sees(self, step: int, sums: dict) -> bool:
        """Whether the step's update was made. If it was left out, as loss, gradient or the new
        params are non-finite, that is logged; FloatingPointError after MOST of them in a row."""
        loss = sums["loss"] / sums["tokens"] if sums["tokens"] else math.nan
        if sums["good"]:
            self._in_a_row = 0
            self._look_for_a_jump(step, loss)
            self._losses.append(loss)
            return True
        self._in_a_row += 1
        finite = math.isfinite(loss + sums["gradient_norm"])
        overflow = ", but new params that are non-finite" if finite else ""
        logging.warning(
            "step %d: loss %s, gradient norm %s%s: its update is left out (%d in all)",
            *(step, loss, sums["gradient_norm"], overflow, sums["left_out"]),
        )
        if self._in_a_row == self.MOST:
            saved = self._newest()
            last = "nothing was saved yet" if saved is None else f"the last one saved is {saved}"
            raise FloatingPointError(
                f"step {step}: loss {loss}, gradient norm {sums['gradient_norm']}{overflow}, as "
                f"in the {self.MOST - 1} steps before, at learning rate "
                f"{sums['learning_rate']:.3g}; {last}. Lower config.optimizer.factor, or set "
                "config.optimizer.adam.clip_norm"
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
