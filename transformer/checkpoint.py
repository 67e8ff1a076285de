"""State <-> disk, or bucket: Orbax, asynchronous and atomic.

    WORKDIR/checkpoints/parameters/STEP   the newest `keep`, what is averaged
    WORKDIR/checkpoints/optimizer/STEP    of the newest two, what training resumes from
    WORKDIR/best/STEP                     parameters of the highest validation BLEU

Each is sealed by checksums (sealed.py), and names the vocabulary it was trained with.
"""

import concurrent.futures
import contextlib
import logging
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import jax
import numpy as np

from transformer import checksums, processes, storage
from transformer.sealed import DamagedError, Sealed

Tree = Any

PLACES = ("checkpoints/parameters", "checkpoints/optimizer", "best")
WEIGHTS = ("average", "best", "latest")
OPTIMIZER_STATES = 2  # the newest and the one before: it outlives a newest that was cut off


class Checkpoints:
    """The checkpoints of a workdir while it trains; `close` waits for what is still being written.

    A run that is stopped is saved at whatever step it has come to. Only the steps that are a
    multiple of `every` count as its checkpoints: a stopped run averages the same ones as any other.
    """

    def __init__(self, workdir: Path, *, keep: int, every: int, vocabulary: str):
        self._keep = keep
        self._every = every
        self._vocabulary = vocabulary
        self._workdir = workdir
        self._thread = concurrent.futures.ThreadPoolExecutor(1, "checkpoints")
        self._saving = None  # the step that is being saved, and what comes of it
        self._open()

    def _open(self) -> None:
        parameters, optimizer, best = (self._workdir / place for place in PLACES)
        self._parameters = Sealed(parameters)
        self._optimizer = Sealed(optimizer, keep=OPTIMIZER_STATES)
        self._best = Sealed(best)

    def save(self, step: int, parameters: Tree, optimizer_state: Tree) -> bool:
        """Begins to save the state after `step` updates; the arrays may be donated after that.

        False if there is no room for it on the disk, or there was none for the one before; both are
        logged, and what was saved earlier stays. Waits for the save before, so none pile up.
        """
        before = self.finish()
        self._delete_old()
        state = (parameters, optimizer_state)
        needed = sum(x.nbytes for x in jax.tree.leaves(state))
        free = min(processes.everyones(storage.free_bytes(self._workdir)))
        if free < needed:
            logging.error(
                "step %d is not saved: it takes %.1f MB, %s has %.1f MB left",
                *(step, needed / 1e6, self._workdir, free / 1e6),
            )
            return False
        about = {"step": step, "vocabulary": self._vocabulary}
        # Of both before either: several processes would wait for each other in different orders.
        sums = [checksums.of_arrays(arrays) for arrays in state]
        self._parameters.save(step, parameters, sums[0], about)
        self._optimizer.save(step, optimizer_state, sums[1], about)
        self._saving = step, self._thread.submit(self._seal, step)
        return before

    def _seal(self, step: int) -> None:
        """Waits until a step is written, and writes its checksums."""
        with contextlib.ExitStack() as both:  # also if one of them fails
            for folder in (self._parameters, self._optimizer):
                both.callback(folder.seal, step)

    def finish(self) -> bool:
        """Waits for what is being saved; False if the disk did not take it, which is logged."""
        if not self._saving:
            return True
        (step, saving), self._saving = self._saving, None
        return self._took(f"step {step}", saving.exception())

    def _took(self, what: str, error: BaseException | None) -> bool:
        """Whether the disk took something, for every process; says so if it did not."""
        own = error and (str(error) or repr(error)).partition("\n")[0]
        reason = next(filter(None, processes.everyones(own)), None)
        if reason is None:
            return True
        free = storage.free_bytes(self._workdir)
        logging.error(
            "%s was not saved: %s; %s has %.1f MB left", what, reason, self._workdir, free / 1e6
        )
        self._open()  # a manager that has failed once fails again, and keeps what is half there
        return False

    def save_best(self, step: int, parameters: Tree, bleu: float) -> bool:
        """Keeps the parameters if their BLEU is the highest so far, and says whether it does."""
        whole = [step for step in self._best.steps() if _is_whole(self._best, step)]
        kept = _best_step(self._best, whole)
        if math.isnan(bleu) or (kept is not None and self._best.about(kept)["bleu"] >= bleu):
            return False
        saving = self._thread.submit(self._write_best, step, parameters, bleu)
        if not self._took(f"the best of step {step}", saving.exception()):
            return False
        for old in set(self._best.steps()) - {step}:  # only now: one best is always whole
            self._best.delete(old)
        return True

    def _write_best(self, step: int, parameters: Tree, bleu: float) -> None:
        about = {"step": step, "vocabulary": self._vocabulary, "bleu": bleu}
        if step in self._best.steps():
            self._best.delete(step)  # it was damaged
        self._best.save(step, parameters, checksums.of_arrays(parameters), about, force=True)
        self._best.seal(step)

    def restore(self, parameters: Tree, optimizer_state: Tree) -> tuple[int, Tree, Tree] | None:
        """The newest whole state (step, parameters, optimizer state), or None if there is none.

        The arguments are trees of jax.ShapeDtypeStruct that say what is expected and where it goes:
        the devices may be others than those that saved it. A step with a damaged file is passed
        over, with a warning that names it. What a run saved after that state, in a save that was
        cut off between its halves or as its best, is deleted: it will come again.
        """
        saved = self._parameters.steps()
        both = set(saved) & set(self._optimizer.steps())
        if len(saved) > 1 and not both:
            raise ValueError(
                f"{self._parameters.folder} has the steps {saved}, but {self._optimizer.folder} "
                "has none of them: such a run can be evaluated, not resumed; give another "
                "--workdir"
            )
        states = (self._restored(step, parameters, optimizer_state) for step in sorted(both)[::-1])
        state = next(filter(None, states), None)
        if both and not state:
            raise ValueError(
                f"none of the checkpoints in {self._parameters.folder.parent} is whole (their "
                "damaged files are named above); nothing was deleted"
            )
        step = state[0] if state else -1
        for folder in (self._parameters, self._optimizer, self._best):
            for later in folder.steps():
                if later > step:
                    logging.info("deleting %s, later than step %d", folder.place(later), step)
                    folder.delete(later)
        return state

    def _restored(
        self, step: int, parameters: Tree, optimizer_state: Tree
    ) -> tuple[int, Tree, Tree] | None:
        """The state of a step, or None if anything of it is damaged, which is named."""
        if not (_is_whole(self._parameters, step) and _is_whole(self._optimizer, step)):
            return None
        _check(self._parameters, step, self._vocabulary)
        try:
            parameters = self._parameters.restore(step, parameters)
            return step, parameters, self._optimizer.restore(step, optimizer_state)
        except DamagedError as error:
            logging.warning("%s; step %d is not used", error, step)
            return None

    def _delete_old(self) -> None:
        """Makes room for one more: leaves keep - 1 regular ones, and the newest."""
        steps = self._parameters.steps()
        counted = [step for step in steps if step % self._every == 0]
        stays = {*steps[-1:], *counted[max(0, len(counted) - self._keep + 1) :]}
        for step in set(steps) - stays:
            self._parameters.delete(step)

    def newest(self) -> int | None:
        """The step that was saved last, as far as it is known by now."""
        both = set(self._parameters.steps()) & set(self._optimizer.steps())
        return max(both, default=None)

    def close(self) -> bool:
        """Waits for what is being saved, as `finish` does."""
        done = self.finish()
        for folder in (self._parameters, self._optimizer, self._best):
            folder.close()
        return done


def regular(steps: list[int], every: int) -> list[int]:
    """Of the steps saved, in order, those that count: multiples of `every`, and the newest."""
    return [step for step in steps if step % every == 0 or step == steps[-1]]


def load(
    workdir: Path,
    parameters: Tree,
    vocabulary: str,
    *,
    weights: str,
    average_last: int,
    every: int,
) -> tuple[Tree, list[int]]:
    """The parameters to score and translate with, and the steps they come from.

    `weights`: 'latest'; 'best' by validation BLEU; 'average' of the last `average_last` (paper
    6.1), summed in float32. `parameters` says what is expected, as in `Checkpoints.restore`, and
    `every` which steps count, as in `Checkpoints`.
    """
    if weights not in WEIGHTS:
        raise ValueError(f"config.evaluate.weights is one of {WEIGHTS}, found {weights!r}")
    directory = workdir / PLACES[2 if weights == "best" else 0]
    if not directory.is_dir():
        raise ValueError(f"{directory} does not exist: nothing has been saved in {workdir} yet")
    with contextlib.closing(Sealed(directory, read_only=True)) as folder:
        steps = folder.steps()
        if not steps:
            raise ValueError(
                f"{directory} holds no checkpoint yet; "
                f"config.evaluate.weights is {weights!r}, the others are "
                + ", ".join(repr(other) for other in WEIGHTS if other != weights)
            )
        if weights != "best":
            steps = regular(steps, every)[-(average_last if weights == "average" else 1) :]
        if faults := [fault for step in steps for fault in folder.faults(step)]:
            raise DamagedError(
                f"{', '.join(faults)}; nothing was read. Set config.evaluate.weights to "
                f"another of {WEIGHTS}, or train: it goes on from what is whole"
            )
        if weights == "best":
            steps = [_best_step(folder, steps)]
        total = None
        for step in steps:
            _check(folder, step, vocabulary)
            restored = folder.restore(step, parameters)
            if len(steps) == 1:
                return restored, steps
            restored = jax.tree.map(lambda x: np.asarray(x, np.float32), restored)
            total = restored if total is None else jax.tree.map(np.add, total, restored)
    mean = jax.tree.map(lambda x: x / np.float32(len(steps)), total)
    place = lambda x, like: jax.make_array_from_callback(x.shape, like.sharding, x.__getitem__)
    return jax.tree.map(place, mean, parameters), steps


def _best_step(folder: Sealed, steps: Iterable[int]) -> int | None:
    """The step of the highest BLEU: of two, if a save was cut off before it deleted the old one."""
    return max(steps, key=lambda step: folder.about(step)["bleu"], default=None)


def _is_whole(folder: Sealed, step: int) -> bool:
    """Whether no file of a step is damaged; they are warned of."""
    faults = folder.faults(step)
    for fault in faults:
        logging.warning("damaged: %s; step %d is not used", fault, step)
    return not faults


def _check(folder: Sealed, step: int, vocabulary: str) -> None:
    found = folder.about(step)["vocabulary"]
    if found != vocabulary:
        raise ValueError(
            f"{folder.place(step)} was trained with the vocabulary {found}, but this run's is "
            f"{vocabulary}: ids would mean other pieces"
        )
