"""State <-> disk, or bucket: which steps are kept, which one a run resumes from or is scored by.

    WORKDIR/checkpoints/STEP/params       the newest `keep`, what is averaged
    WORKDIR/checkpoints/STEP/opt_state    of the newest two, what training resumes from
    WORKDIR/best/STEP/params              of the best validation

What was trained is worth more than the run that goes on: the newest complete step is never deleted
before a newer one is complete, and a workdir that holds a step, but none to resume from, is refused
and left as it is.
"""

import concurrent.futures
import logging
import math
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import jax

from transformer.checkpoints import store
from transformer.checkpoints.store import CheckpointStore
from transformer.distributed import processes
from transformer.errors import UserError
from transformer.storage import paths

Tree = Any

PLACES = LATEST, BEST = ("checkpoints", "best")
PARAMS, OPT_STATE = ITEMS = ("params", "opt_state")
OPT_STATES = 2  # the newest and the one before it, should the newest be damaged


class Checkpoints:
    """The checkpoints of a workdir while it trains; `close` waits for what is still being written.

    A run that is stopped is saved at whatever step it has come to. Only the steps that are a
    multiple of `every` count as its checkpoints: a stopped run averages the same ones as any other.
    """

    def __init__(
        self, workdir: Path, *, keep: int, every: int, identity: dict[str, str], best_is: str
    ):
        """`identity` is what the arrays are for, such as {'vocabulary': its fingerprint}: steps are
        restored by runs of the same one only. `best_is` says which score is: 'highest', 'lowest'.
        """
        self._keep = keep
        self._every = every
        self._identity = identity
        self._best_is = best_is
        self._workdir = workdir
        self._thread = concurrent.futures.ThreadPoolExecutor(1, "checkpoints")
        self._saving = None  # the step that is being saved, and what comes of it
        self._not_compared = set()  # bests that are damaged, or come again
        self._open()

    def _open(self) -> None:
        self._latest = CheckpointStore(self._workdir / LATEST, ITEMS)
        self._best = CheckpointStore(self._workdir / BEST, (PARAMS,))

    def save(self, step: int, params: Tree, opt_state: Tree) -> bool:
        """Begins to save the state after `step` updates; the arrays may be donated after that.

        False if there is no room for it on the disk, or there was none for the one before; both are
        logged, and what was saved earlier stays. Waits for the save before, so none pile up.
        """
        before = self.finish()
        if step in self._latest.steps():  # it is the one that was resumed from
            return before
        needed = sum(x.nbytes for x in jax.tree.leaves((params, opt_state)))
        free = min(processes.all_gather(paths.free_bytes(self._workdir)))
        if free < needed:
            logging.error(
                "step %d is not saved: it takes %.1f MB, %s has %.1f MB left",
                *(step, needed / 1e6, self._workdir, free / 1e6),
            )
            return False
        # One process that fails before Orbax has them all would leave the others waiting in it.
        if not self._took(f"step {step}", paths.unwritable(self._workdir / LATEST)):
            return False
        items = {PARAMS: params, OPT_STATE: opt_state}
        begun = self._thread.submit(self._latest.save, step, items)
        if not self._took(f"step {step}", begun.exception()):  # no inodes, say
            return False
        about = {"step": step, "identity": self._identity}
        self._saving = step, self._thread.submit(self._latest.complete, step, about)
        return before

    def finish(self) -> bool:
        """Waits for what is being saved; False if the disk did not take it, which is logged."""
        if not self._saving:
            return True
        (step, saving), self._saving = self._saving, None
        if not self._took(f"step {step}", saving.exception()):
            self._try_to(self._latest.delete, step)  # half of it takes room from the next one
            return False
        self._delete_old()
        return True

    def _try_to(self, change: Callable, *arguments: object) -> None:
        """Deletes what is not needed; a disk that does not take that is asked again next time."""
        try:
            change(*arguments)
        except OSError as error:
            logging.warning("%s could not be tidied up: %s", self._workdir / LATEST, error)

    def _took(self, what: str, error: BaseException | None) -> bool:
        """Whether the disk took something, for every process; says so if it did not."""
        own = error and (str(error) or repr(error)).partition("\n")[0]
        reason = next(filter(None, processes.all_gather(own)), None)
        if reason is None:
            return True
        free = paths.free_bytes(self._workdir)
        logging.error(
            "%s was not saved: %s; %s has %.1f MB left", what, reason, self._workdir, free / 1e6
        )
        self._open()  # a manager that has failed once fails again, and keeps what is half there
        return False

    def _delete_old(self) -> None:
        """Keeps the newest complete step, the last `keep` that count, and the optimizer's states of
        the newest two. Example: keep=2, every=10, steps 10 20 27 30 -> 20 30, both with theirs."""
        steps = self._latest.steps()
        counted = [step for step in steps if step % self._every == 0]
        kept = {*steps[-1:], *counted[-self._keep :]}
        for step in set(self._latest.all_steps()) - kept:
            self._try_to(self._latest.delete, step)
        for step in sorted(kept)[:-OPT_STATES]:
            if self._latest.has(step, OPT_STATE):
                self._try_to(self._latest.drop, step, OPT_STATE)

    def save_best(self, step: int, params: Tree, score: float) -> bool:
        """Keeps the params if their score is the best so far, and says whether it does; NaN never
        is.

        Not before there is a checkpoint to resume from: a run that was killed then could only be
        refused.
        """
        self.finish()
        if not self._latest.steps():
            logging.error("the best of step %d is not kept: no checkpoint could be saved yet", step)
            return False
        kept = best_step(self._best, set(self._best.steps()) - self._not_compared)
        if math.isnan(score) or (kept is not None and not self._is_better(score, kept)):
            return False
        saving = self._thread.submit(self._write_best, step, params, score)
        if not self._took(f"the best of step {step}", saving.exception()):
            self._try_to(self._best.delete, step)
            return False
        self._not_compared.discard(step)
        for old in set(self._best.all_steps()) - {step}:  # only now: one is always whole
            self._try_to(self._best.delete, old)
        return True

    def _is_better(self, score: float, kept: int) -> bool:
        before = self._best.about(kept)["score"]
        return score > before if self._best_is == "highest" else score < before

    def _write_best(self, step: int, params: Tree, score: float) -> None:
        self._best.save(step, {PARAMS: params})
        about = {"step": step, "identity": self._identity, "score": score, "best_is": self._best_is}
        self._best.complete(step, about)

    def restore(self, params: Tree, opt_state: Tree) -> tuple[int, Tree, Tree] | None:
        """Returns the newest whole state (step, params, opt_state), or None in a workdir where
        nothing was ever saved.

        The arguments are trees of jax.ShapeDtypeStruct that say what is expected and where it goes:
        the devices may be others than those that saved it. A damaged step is passed over, with a
        warning that names its files. What a run saved after that state is deleted: it will come
        again. A later best, or a damaged one, stays until there is a new one.

        UserError, and nothing is touched, if there are steps but none to resume from; OSError if
        the disk cannot read one now.
        """
        step = self._newest_whole()
        if step is None:
            self._set_aside()
            return None
        check_identity(self._latest, step, self._identity)
        like = {PARAMS: params, OPT_STATE: opt_state}
        state = [self._latest.restore(step, item, like[item]) for item in ITEMS]
        stays = {s for s in self._latest.steps() if s <= step}
        for other in set(self._latest.all_steps()) - stays:
            logging.info("deleting step %d: later than step %d, or incomplete", other, step)
            self._latest.delete(other)
        complete = self._best.steps()
        for best in self._best.all_steps():
            if best not in complete:
                self._best.delete(best)
            elif best > step or _is_damaged(self._best, best):
                self._not_compared.add(best)
        return step, *state

    def _newest_whole(self) -> int | None:
        """The newest step with an optimizer's state whose files are all undamaged."""
        if not _agreed_resumable(self._workdir):
            return None
        for step in reversed(self._latest.steps()):
            damaged = _is_damaged(self._latest, step)
            if not damaged and self._latest.has(step, OPT_STATE):
                return step
        raise UserError(
            f"no checkpoint in {self._workdir / LATEST} is undamaged (the files are named above); "
            "nothing was deleted"
        )

    def _set_aside(self) -> None:
        """Renames what was cut off in a run's very first save, so that it can begin anew."""
        for step in self._latest.all_steps():
            place = self._latest.place(step)
            aside = place.with_name(f"incomplete-{step}")
            logging.warning("%s is incomplete: it is kept as %s, and not used", place, aside.name)
            if processes.is_first():
                paths.remove(aside)
                place.rename(aside)
            processes.all_gather(None)
            self._open()

    @property
    def is_empty(self) -> bool:
        """Whether there is no complete step, and none is being saved."""
        return not self._saving and self.newest() is None

    def newest(self) -> int | None:
        """Returns the newest complete step."""
        return max(self._latest.steps(), default=None)

    def close(self) -> bool:
        """Waits for what is being saved, as `finish` does."""
        done = self.finish()
        for folder in (self._latest, self._best):
            folder.close()
        return done


def _is_damaged(folder: CheckpointStore, step: int) -> bool:
    """Whether a complete step has damaged files, which are warned of."""
    faults = folder.faults(step)
    for fault in faults:
        logging.warning("damaged: %s; step %d is not used", fault, step)
    return bool(faults)


def resumable(workdir: Path) -> bool:
    """Returns whether a workdir holds a step to go on from; False where nothing was ever saved, but
    for a first step that was cut off before its checksums.

    UserError where something was trained, and what is left of it cannot be resumed: a copy made to
    translate with, say.
    """
    latest, best = workdir / LATEST, workdir / BEST
    if any(store.has(latest / str(step), OPT_STATE) for step in store.steps(latest)):
        return True
    # In any place: also where another version of this code put them.
    steps = sorted({step for place in (latest, best) for step in store.steps_below(place)})
    complete = [*store.steps(latest), *store.steps(best)]
    if not complete and not store.all_steps(best) and steps == store.all_steps(latest)[:1]:
        return False
    raise UserError(
        f"{workdir} holds what a run has trained (steps {', '.join(map(str, steps))}), but no "
        "complete checkpoint with an optimizer state to go on from: it "
        + ("can be evaluated, not resumed" if complete else "cannot be resumed")
        + "; nothing was touched; give another --workdir"
    )


def _agreed_resumable(workdir: Path) -> bool:
    """As `resumable`, of the workdir as the first process sees it, for all of them."""
    try:
        answer = [resumable(workdir), ""]
    except UserError as error:
        answer = [False, str(error)]
    answer, refusal = processes.all_gather(answer)[0]
    if refusal:
        raise UserError(refusal)
    return answer


def best_step(folder: CheckpointStore, steps: Iterable[int]) -> int | None:
    """Returns the step of the best validation, None of none."""

    def rank(step: int) -> float:
        about = folder.about(step)
        return about["score"] if about["best_is"] == "highest" else -about["score"]

    return max(steps, key=rank, default=None)


def check_identity(folder: CheckpointStore, step: int, identity: dict[str, str]) -> None:
    """UserError if a step was trained for something else: with another vocabulary, say."""
    saved = folder.about(step)["identity"]
    for name, value in identity.items():
        if saved.get(name) != value:
            raise UserError(
                f"{folder.place(step)} was trained with the {name} {saved.get(name)}, but this "
                f"run's is {value}: its outputs would mean something else"
            )
