"""The checkpoints that a workdir keeps, and the checkpoint that a run resumes from.

    WORKDIR/checkpoints/STEP/{params,opt_state}   the newest two, to resume from
    WORKDIR/params/STEP/params                    the last `keep` to average, and the newest
    WORKDIR/best/STEP/params                      the best validation

The newest undamaged step is never deleted before a newer step is complete. A workdir with steps but
none to resume from is refused and left untouched, because trained params are worth more than the
new run.
"""

import logging
import math
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from transformer.checkpoints import store
from transformer.checkpoints.store import LATEST, OPT_STATE, PARAMS, CheckpointStore
from transformer.distributed import processes
from transformer.errors import UserError

Tree = Any

TO_RESUME = 2  # checkpoints: the newest, and its predecessor in case the newest is damaged


class Checkpoints:
    """The checkpoints of a workdir while a run trains in it; call `close` at the end.

    params/ keeps the last `keep` steps that are multiples of `every`, and the newest step. A run
    saves between multiples if it validates there or is signalled to stop; the next save deletes
    that step. A resumed run thus ends with the same steps to average as an uninterrupted run.

    A failed save ends the run: its error is raised by the next `save`, `save_best`, `finish` or
    `close`.
    """

    def __init__(
        self, workdir: Path, *, keep: int, every: int, identity: dict[str, str], best_is: str
    ):
        """Opens the checkpoints of a workdir.

        `identity`, such as {'vocabulary': fingerprint}, is saved with each step. Only runs of the
        same identity can restore it. `best_is` is 'highest' or 'lowest'.
        """
        self._workdir, self._keep, self._every = workdir, keep, every
        self._identity, self._best_is = identity, best_is
        self._stores = [CheckpointStore(workdir / place) for place in store.PLACES]
        self._latest, self._averaged, self._best = self._stores
        for opened in self._stores:
            opened.remove_drafts()
        self._thread = ThreadPoolExecutor(1, "checkpoints")
        self._saving = None  # the future of the newest save
        # Steps in best/ that are damaged, or later than the newest undamaged checkpoint.
        self._not_compared = set()

    def save(self, step: int, params: Tree, rest: Tree) -> None:
        """Starts saving the state after `step` batches, including skipped updates.

        `rest` is the state without the params. The arrays may be donated on return. Waits for the
        previous save first, so that saves do not pile up.
        """
        self.finish()
        self._latest.save(step, {PARAMS: params, OPT_STATE: rest})
        self._saving = self._thread.submit(self._complete, step)

    def finish(self) -> None:
        """Waits for the save in progress; raises its error, such as that of a full disk."""
        if self._saving:
            # A barrier of devices would time out while process 0 hashes the files.
            with processes.first_process_first("the newest save is complete"):
                self._saving.result()

    def _complete(self, step: int) -> None:
        """Completes a step whose save was started; runs in the thread."""
        # In this order, because a run killed between the lines settles when it resumes.
        self._latest.complete(step, {"identity": self._identity})
        self._settle(step)

    def _settle(self, newest: int) -> None:
        """Deletes superseded steps and copies the params of the `newest` to params/.

        Deletes first, so that a nearly full disk has room for the copy. Not collective.

        Example: keep=3, every=10, steps 10 20 30 40 47 leave 20 30 40 47 in params/, and 40 47 in
        checkpoints/.
        """
        if not processes.is_first():
            return
        # Not by the method `steps`, which is collective.
        averaged = {*store.complete_steps(self._averaged.folder), newest}
        multiples = sorted(step for step in averaged if step % self._every == 0)
        self._latest.keep(store.complete_steps(self._latest.folder)[-TO_RESUME:])
        self._averaged.keep([*multiples[-self._keep :], newest])
        self._averaged.copy_params(self._latest.path(newest), newest)

    def save_best(self, step: int, params: Tree, score: float) -> bool:
        """Saves the params to best/ if `score` is the best so far; returns whether it saved them.

        NaN is never the best. Call `finish` first, because a run killed with a best step but no
        checkpoint cannot resume.
        """
        # Without `step`, which a killed run may have saved before it scores the step again.
        compared = [x for x in self._best.steps() if x not in (*self._not_compared, step)]
        scores = [store.signed(self._best.about(best, "score"), self._best_is) for best in compared]
        if store.signed(score, self._best_is) <= max(scores, default=-math.inf):  # NaN is -inf
            return False
        self._best.save(step, {PARAMS: params})
        about = {"identity": self._identity, "score": score, "best_is": self._best_is}
        self._best.complete(step, about)
        self._not_compared.discard(step)
        self._best.keep([step])  # last, so that a complete best remains
        return True

    def restore(self, params: Tree, rest: Tree) -> tuple[int, Tree, Tree] | None:
        """Returns the newest undamaged state (step, params, rest); None if nothing was saved.

        `params` and `rest` are trees of jax.ShapeDtypeStruct with shapes and shardings; the devices
        may differ from those at the save. A step with a checksum mismatch is skipped, with a
        warning that names the files. Later steps are deleted, because the run trains them again. A
        later or damaged best stays until the next best.

        UserError, with no step touched, if a workdir with steps has none to resume from.
        """
        steps = self._latest.steps()
        if not steps and not resumable(self._workdir):
            return None
        step = next((x for x in reversed(steps) if not _is_damaged(self._latest, x)), None)
        if step is None:
            raise UserError(
                f"all checkpoints in {self._workdir / LATEST} are damaged, none to resume from "
                "(see the warnings above); nothing was deleted"
            )
        self._latest.check_identity(step, self._identity)
        params = self._latest.restore(step, PARAMS, params)
        rest = self._latest.restore(step, OPT_STATE, rest)
        averaged = [x for x in self._averaged.steps() if x <= step]
        # A run killed in `_complete` may have left no copy of the step.
        is_copied = step in averaged and not _is_damaged(self._averaged, step)
        with processes.first_process_first("the newest checkpoint is settled"):
            self._latest.keep(x for x in steps if x <= step)
            self._averaged.keep(averaged)
            if not is_copied:
                self._settle(step)
        bests = self._best.steps()
        self._best.keep(bests)  # deletes incomplete steps
        self._not_compared = {x for x in bests if x > step or _is_damaged(self._best, x)}
        return step, params, rest

    def close(self) -> None:
        """Waits for the save in progress, raises its error, and closes the folders."""
        self.finish()
        for opened in self._stores:
            opened.close()


def resumable(workdir: Path) -> bool:
    """Returns whether a workdir has a checkpoint to resume from. Not collective.

    False if checkpoints/ has no complete step, as after a kill in the first save. UserError if the
    workdir has params only, such as a copy of best/ for translation.
    """
    if store.complete_steps(workdir / LATEST):
        return True
    averaged, best = (store.all_steps(workdir / place) for place in (store.AVERAGED, store.BEST))
    if not averaged and not best:
        return False
    numbers = ", ".join(map(str, sorted({*averaged, *best})))
    raise UserError(
        f"{workdir} holds trained checkpoints (steps {numbers}), but no complete one with an "
        "optimizer state: it cannot be resumed; nothing was changed; give another --workdir"
    )


def _is_damaged(opened: CheckpointStore, step: int) -> bool:
    """Returns whether a complete step has damaged files, and logs a warning for each."""
    faults = opened.faults(step)
    for fault in faults:
        logging.warning("damaged: %s; step %d is not used", fault, step)
    return bool(faults)
