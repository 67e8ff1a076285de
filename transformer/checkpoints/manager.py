"""Which checkpoints a workdir keeps, and which one a run resumes from.

    WORKDIR/checkpoints/STEP/params       the newest `keep`: averaged for evaluation
    WORKDIR/checkpoints/STEP/opt_state    the newest two: training resumes from one of them
    WORKDIR/best/STEP/params              the best validation

Trained params are worth more than the run that continues. So the newest complete step is never
deleted before a newer one is complete, and a workdir that holds steps, but none to resume from, is
refused and left untouched.
"""

import concurrent.futures
import logging
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax

from transformer.checkpoints import resuming
from transformer.checkpoints.store import BEST, ITEMS, LATEST, OPT_STATE, PARAMS, CheckpointStore
from transformer.distributed import processes
from transformer.errors import UserError
from transformer.runtime import paths
from transformer.workdir.early_stopping import signed

Tree = Any

OPT_STATES = 2  # the newest, and the one before it in case the newest is damaged


class Checkpoints:
    """The checkpoints of a workdir while a run trains in it; call `close` at the end.

    The newest step is kept, and so are the last `keep` steps that are multiples of `every`. A run
    that is signalled to stop saves a step between two multiples; when the resumed run saves its
    next step, that one is deleted. So in the end the same steps are there, and averaged, as after
    an uninterrupted run.
    """

    def __init__(
        self, workdir: Path, *, keep: int, every: int, identity: dict[str, str], best_is: str
    ):
        """Opens the checkpoints of a workdir, creating its folders.

        `identity`, such as {'vocabulary': fingerprint}, is saved with each step: only runs of the
        same identity can restore it. `best_is` is 'highest' or 'lowest'.
        """
        self._workdir, self._keep, self._every = workdir, keep, every
        self._identity, self._best_is = identity, best_is
        # A single thread: the next save cannot overtake the one whose checksums are being written.
        self._thread = concurrent.futures.ThreadPoolExecutor(1, "checkpoints")
        self._saving = None  # (step, future) of the save in progress
        # Steps in best/ that new scores are not compared with: damaged, or later than the step
        # that the run resumed from.
        self._not_compared = set()
        self._open()

    def _open(self) -> None:
        """Opens both folders; called again after a failed save."""
        self._latest = CheckpointStore(self._workdir / LATEST, ITEMS)
        self._best = CheckpointStore(self._workdir / BEST, (PARAMS,))

    def save(self, step: int, params: Tree, rest: Tree) -> bool:
        """Starts saving the state after `step` batches, those with a skipped update included.

        `rest` is everything but the params. The arrays may be donated on return. Waits for the
        previous save first, so that saves do not pile up. False if the disk has no room for this
        save, or the previous one failed; both are logged, and earlier checkpoints stay.
        """
        previous_saved = self.finish()
        if step in self._latest.steps():  # the run was resumed from this step
            return previous_saved
        # If one process failed before Orbax's barrier, the others would wait there forever. So all
        # processes agree first that the folder is writable, and its disk has room.
        error = paths.try_write(self._workdir / LATEST)
        needed = sum(x.nbytes for x in jax.tree.leaves((params, rest)))
        if paths.free_bytes(self._workdir) < needed:
            error = OSError(f"it needs {needed / 1e6:.1f} MB")
        if not self._all_succeeded_or_reopen(f"step {step}", error):
            return False
        # In the thread, although we wait for it: Ctrl-C then interrupts the wait, never Orbax.
        started = self._thread.submit(self._latest.save, step, {PARAMS: params, OPT_STATE: rest})
        error = started.exception()  # such as no inodes left
        if not self._all_succeeded_or_reopen(f"step {step}", error):
            return False
        about = {"step": step, "identity": self._identity}
        self._saving = step, self._thread.submit(self._latest.complete, step, about)
        return previous_saved

    def finish(self) -> bool:
        """Waits for the save in progress; False if it failed, which is logged."""
        if not self._saving:
            return True
        (step, saving), self._saving = self._saving, None
        if not self._all_succeeded_or_reopen(f"step {step}", saving.exception()):
            self._try_to(self._latest.delete, step)  # a partial step takes room from the next one
            return False
        self._delete_old()
        return True

    def _try_to(self, change: Callable, *arguments: object) -> None:
        """Calls `change`, which deletes something; if the disk fails, the next save tries again."""
        try:
            change(*arguments)
        except OSError as error:
            folder = self._workdir / LATEST
            logging.warning("%s: cannot delete an old checkpoint: %s", folder, error)

    def _all_succeeded_or_reopen(self, what: str, error: BaseException | None) -> bool:
        """Returns whether no process had an error; else logs the first error and reopens Orbax."""
        message = error and (str(error) or repr(error)).partition("\n")[0]
        reason = next(filter(None, processes.all_gather(message)), None)
        if reason is None:
            return True
        free = paths.free_bytes(self._workdir)
        logging.error(
            "%s was not saved: %s; %s has %.1f MB left", what, reason, self._workdir, free / 1e6
        )
        self._open()  # an Orbax manager that failed once fails again
        return False

    def _delete_old(self) -> None:
        """Deletes the steps, and the optimizer states, that are not to be kept.

        Kept are the newest complete step and the last `keep` multiples of `every`, with the
        optimizer states of the newest OPT_STATES of these steps.

        Example: keep=3, every=10, steps 10 20 30 40 47: keeps 20 30 40 47, and opt_state of 40 47.
        """
        steps = self._latest.steps()
        multiples = [step for step in steps if step % self._every == 0]
        # A slice, not an index: without a complete step there is none to keep.
        keep = {*steps[-1:], *multiples[-self._keep :]}
        for step in set(self._latest.all_steps()) - keep:
            self._try_to(self._latest.delete, step)
        for step in sorted(keep)[:-OPT_STATES]:
            if self._latest.has(step, OPT_STATE):
                self._try_to(self._latest.drop, step, OPT_STATE)

    def save_best(self, step: int, params: Tree, score: float) -> bool:
        """Saves the params to best/ if `score` is the best so far; returns whether it saved them.

        NaN is never the best. Saves nothing while there is no checkpoint to resume from, because a
        run killed at that moment would be refused when it is started again.
        """
        self.finish()
        if not self._latest.steps():
            logging.error("best of step %d is not saved: no checkpoint could be saved yet", step)
            return False
        compared = [best for best in self._best.steps() if best not in self._not_compared]
        scores = [signed(self._best.about(best, "score"), self._best_is) for best in compared]
        if signed(score, self._best_is) <= max(scores, default=-math.inf):  # -inf: NaN's
            return False
        saving = self._thread.submit(self._write_best, step, params, score)
        if not self._all_succeeded_or_reopen(f"the best of step {step}", saving.exception()):
            self._try_to(self._best.delete, step)
            return False
        self._not_compared.discard(step)
        for old in set(self._best.all_steps()) - {step}:  # last, so that a complete best remains
            self._try_to(self._best.delete, old)
        return True

    def _write_best(self, step: int, params: Tree, score: float) -> None:
        """Saves a step in best/ and completes it; runs in the thread of all saves."""
        self._best.save(step, {PARAMS: params})
        about = {"step": step, "identity": self._identity, "score": score, "best_is": self._best_is}
        self._best.complete(step, about)

    def restore(self, params: Tree, rest: Tree) -> tuple[int, Tree, Tree] | None:
        """Returns the newest undamaged state (step, params, rest); None if nothing was saved.

        `params` and `rest` (everything else) are trees of jax.ShapeDtypeStruct with shapes and
        shardings; the devices may differ from those that saved. A step with a checksum mismatch is
        skipped, with a warning that names the files. Steps later than the returned one are deleted:
        the run trains them again. A later or damaged best stays until there is a new best.

        UserError, with the workdir untouched, if there are steps but none to resume from; OSError
        if a file cannot be read now.
        """
        step = self._newest_undamaged()
        if step is None:
            self._set_aside()
            return None
        self._latest.check_identity(step, self._identity)
        like = {PARAMS: params, OPT_STATE: rest}
        state = [self._latest.restore(step, item, like[item]) for item in ITEMS]
        keep = {earlier for earlier in self._latest.steps() if earlier <= step}
        for later in set(self._latest.all_steps()) - keep:
            logging.info("deleting step %d: later than step %d, or incomplete", later, step)
            self._latest.delete(later)
        complete = self._best.steps()
        for incomplete in set(self._best.all_steps()) - set(complete):
            self._best.delete(incomplete)
        self._not_compared = {x for x in complete if x > step or _is_damaged(self._best, x)}
        return step, *state

    def _newest_undamaged(self) -> int | None:
        """Returns the newest step that has an opt_state and no checksum mismatch."""
        if not resuming.agreed_resumable(self._workdir):
            return None
        for step in reversed(self._latest.steps()):
            # Damage first, which is logged: a damaged checksums.json does not list any item.
            damaged = _is_damaged(self._latest, step)
            if not damaged and self._latest.has(step, OPT_STATE):
                return step
        raise UserError(
            f"no checkpoint in {self._workdir / LATEST} has an undamaged optimizer state to resume "
            "from (see the warnings above); nothing was deleted"
        )

    def _set_aside(self) -> None:
        """Renames the incomplete checkpoint of a run killed in its first save, to start over."""
        for step in self._latest.all_steps():
            place = self._latest.place(step)
            aside = place.with_name(f"incomplete-{step}")
            logging.warning("%s is incomplete: kept as %s, not used", place, aside.name)
            if processes.is_first():
                paths.remove(aside)
                place.rename(aside)
            processes.wait_for_all()  # the others must not see the step any more
            self._open()

    def is_empty(self) -> bool:
        """Returns whether there is no complete step and no save in progress."""
        return not self._saving and self.newest() is None

    def newest(self) -> int | None:
        """Returns the newest complete step, None if there is none."""
        return max(self._latest.steps(), default=None)

    def close(self) -> bool:
        """Waits for the save in progress and closes the folders; False if that save failed."""
        saved = self.finish()
        for store in (self._latest, self._best):
            store.close()
        return saved


def _is_damaged(store: CheckpointStore, step: int) -> bool:
    """Returns whether a complete step has damaged files, and logs a warning for each."""
    faults = store.faults(step)
    for fault in faults:
        logging.warning("damaged: %s; step %d is not used", fault, step)
    return bool(faults)
