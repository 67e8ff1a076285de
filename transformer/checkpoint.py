"""State <-> disk, or bucket: Orbax, asynchronous and atomic.

    WORKDIR/checkpoints/parameters/STEP   the newest `keep`, what is averaged
    WORKDIR/checkpoints/optimizer/STEP    of the newest two, what training resumes from
    WORKDIR/best/STEP                     parameters of the highest validation BLEU

Every parameter checkpoint names the vocabulary it was trained with. Each is sealed by checksums of
its files (checksums.py), which are looked at before it is read.
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
import orbax.checkpoint as ocp

from transformer import checksums, processes, storage

Tree = Any

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
        self._parameters = _manager(self._workdir / "checkpoints" / "parameters")
        self._optimizer = _manager(self._workdir / "checkpoints" / "optimizer", OPTIMIZER_STATES)
        self._best = _manager(self._workdir / "best")

    def save(self, step: int, parameters: Tree, optimizer_state: Tree) -> bool:
        """Begins to save the state after `step` updates; the arrays may be donated after that.

        False if there is no room for it on the disk, or there was none for the one before; both are
        logged, and what was saved earlier stays. Waits for the save before, so none pile up.
        """
        before = self.finish()
        self._delete_old()
        state = (parameters, optimizer_state)
        needed = sum(x.nbytes for x in jax.tree.leaves(state))
        free = storage.free_bytes(self._parameters.directory)
        free = min(processes.exchange([free], jax.process_count()))
        if free < needed:
            logging.error(
                "step %d is not saved: it takes %.1f MB, %s has %.1f MB left",
                *(step, needed / 1e6, self._workdir, free / 1e6),
            )
            return False
        about = {"step": step, "vocabulary": self._vocabulary}
        self._parameters.save(step, args=_arguments(parameters, about))
        self._optimizer.save(step, args=ocp.args.StandardSave(optimizer_state))
        self._saving = step, self._thread.submit(self._seal, step)
        return before

    def _seal(self, step: int) -> None:
        """Waits until a step is written, and writes its checksums."""
        with contextlib.ExitStack() as both:  # also if one of them fails
            for manager in (self._optimizer, self._parameters):
                both.callback(manager.wait_until_finished)
        for manager in (self._parameters, self._optimizer):
            _seal(manager, step)

    def finish(self) -> bool:
        """Waits for what is being saved; False if the disk did not take it, which is logged."""
        if not self._saving:
            return True
        (step, saving), self._saving = self._saving, None
        return self._took(f"step {step}", saving.exception())

    def _took(self, what: str, error: BaseException | None) -> bool:
        """Whether the disk took something, for every process; says so if it did not."""
        own = error and (str(error) or repr(error)).partition("\n")[0]
        reason = next(filter(None, processes.exchange([own], jax.process_count())), None)
        if reason is None:
            return True
        free = storage.free_bytes(self._best.directory)
        logging.error(
            "%s was not saved: %s; %s has %.1f MB left", what, reason, self._workdir, free / 1e6
        )
        self._open()  # a manager that has failed once fails again, and keeps what is half there
        return False

    def save_best(self, step: int, parameters: Tree, bleu: float) -> bool:
        """Keeps the parameters if their BLEU is the highest so far, and says whether it does."""
        whole = [step for step in self._best.all_steps() if not _faults(self._best, step)]
        kept = _best_step(self._best, whole)
        if math.isnan(bleu) or (kept is not None and _about(self._best, kept)["bleu"] >= bleu):
            return False
        saving = self._thread.submit(self._write_best, step, parameters, bleu)
        if not self._took(f"the best of step {step}", saving.exception()):
            return False
        for old in set(self._best.all_steps()) - {step}:  # only now: one best is always whole
            self._best.delete(old)
        return True

    def _write_best(self, step: int, parameters: Tree, bleu: float) -> None:
        about = {"step": step, "vocabulary": self._vocabulary, "bleu": bleu}
        if step in self._best.all_steps():
            self._best.delete(step)  # it was damaged
        self._best.save(step, args=_arguments(parameters, about), force=True)
        self._best.wait_until_finished()
        _seal(self._best, step)

    def restore(self, parameters: Tree, optimizer_state: Tree) -> tuple[int, Tree, Tree] | None:
        """The newest whole state (step, parameters, optimizer state), or None if there is none.

        The arguments are trees of jax.ShapeDtypeStruct that say what is expected and where it goes:
        the devices may be others than those that saved it. A step with a damaged file is passed
        over, with a warning that names it. What a run saved after that state, in a save that was
        cut off between its halves or as its best, is deleted: it will come again.
        """
        saved = self._parameters.all_steps()
        both = set(saved) & set(self._optimizer.all_steps())
        if len(saved) > 1 and not both:
            raise ValueError(
                f"{self._parameters.directory} has the steps {sorted(saved)}, but "
                f"{self._optimizer.directory} has none of them: such a run can be evaluated, "
                "not resumed; give another --workdir"
            )
        newest_first = sorted(both, reverse=True)
        step = next((step for step in newest_first if self._is_whole(step)), -1)
        if both and step < 0:
            raise ValueError(
                f"none of the checkpoints in {self._parameters.directory.parent} is whole (their "
                "damaged files are named above); nothing was deleted"
            )
        for manager in (self._parameters, self._optimizer, self._best):
            for later in manager.all_steps():
                if later > step:
                    logging.info(
                        "deleting %s, later than step %d", manager.directory / str(later), step
                    )
                    manager.delete(later)
        if not both:
            return None
        _check(self._parameters, step, self._vocabulary)
        optimizer_state = self._optimizer.restore(
            step, args=ocp.args.StandardRestore(optimizer_state)
        )
        return step, _restore(self._parameters, step, parameters), optimizer_state

    def _is_whole(self, step: int) -> bool:
        """Whether no file of a step is damaged; they are named."""
        return not (_faults(self._parameters, step) or _faults(self._optimizer, step))

    def _delete_old(self) -> None:
        """Makes room for one more: leaves keep - 1 regular ones, and the newest."""
        steps = sorted(self._parameters.all_steps())
        counted = [step for step in steps if step % self._every == 0]
        stays = {*steps[-1:], *counted[max(0, len(counted) - self._keep + 1) :]}
        for step in set(steps) - stays:
            self._parameters.delete(step)

    def newest(self) -> int | None:
        """The step that was saved last, as far as it is known by now."""
        both = set(self._parameters.all_steps()) & set(self._optimizer.all_steps())
        return max(both, default=None)

    def close(self) -> bool:
        """Waits for what is being saved, as `finish` does."""
        done = self.finish()
        for manager in (self._parameters, self._optimizer, self._best):
            manager.close()
        return done


def verify(workdir: Path) -> dict[str, list[str]]:
    """The damaged files of each of a workdir's checkpoints, by the checkpoint's place in it."""
    found = {}
    for place in ("checkpoints/parameters", "checkpoints/optimizer", "best"):
        if (workdir / place).is_dir():
            with _manager(workdir / place, read_only=True) as manager:
                for step in sorted(manager.all_steps()):
                    found[f"{place}/{step}"] = _faults(manager, step)
    return found


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
    directory = workdir / ("best" if weights == "best" else "checkpoints/parameters")
    if not directory.is_dir():
        raise ValueError(f"{directory} does not exist: nothing has been saved in {workdir} yet")
    with _manager(directory, read_only=True) as manager:
        steps = sorted(manager.all_steps())
        if not steps:
            raise ValueError(
                f"{directory} holds no checkpoint yet; "
                f"config.evaluate.weights is {weights!r}, the others are "
                + ", ".join(repr(other) for other in WEIGHTS if other != weights)
            )
        if weights == "best":
            steps = [_best_step(manager, steps)]
        steps = regular(steps, every)[-(average_last if weights == "average" else 1) :]
        if faults := [fault for step in steps for fault in _faults(manager, step)]:
            raise ValueError(f"damaged: {', '.join(faults)}; nothing was read")
        total = None
        for step in steps:
            _check(manager, step, vocabulary)
            restored = _restore(manager, step, parameters)
            if len(steps) == 1:
                return restored, steps
            restored = jax.tree.map(lambda x: np.asarray(x, np.float32), restored)
            total = restored if total is None else jax.tree.map(np.add, total, restored)
    mean = jax.tree.map(lambda x: x / np.float32(len(steps)), total)
    place = lambda x, like: jax.make_array_from_callback(x.shape, like.sharding, x.__getitem__)
    return jax.tree.map(place, mean, parameters), steps


def _manager(
    directory: Path, keep: int | None = None, read_only: bool = False
) -> ocp.CheckpointManager:
    options = ocp.CheckpointManagerOptions(
        max_to_keep=keep,
        create=not read_only,
        read_only=read_only,
        cleanup_tmp_directories=not read_only,
        # Several managers save the same step: processes wait for each other by this name, too.
        multiprocessing_options=ocp.options.MultiprocessingOptions(
            barrier_sync_key_prefix=directory.name
        ),
    )
    # epath's absolute() makes a local path of gs://.
    place = directory if storage.in_bucket(directory) else directory.absolute()
    return ocp.CheckpointManager(place, options=options)


def _arguments(parameters: Tree, about: dict) -> ocp.args.Composite:
    return ocp.args.Composite(
        parameters=ocp.args.StandardSave(parameters), about=ocp.args.JsonSave(about)
    )


def _about(manager: ocp.CheckpointManager, step: int) -> dict:
    return manager.restore(step, args=ocp.args.Composite(about=ocp.args.JsonRestore()))["about"]


def _best_step(manager: ocp.CheckpointManager, steps: Iterable[int]) -> int | None:
    """The step of the highest BLEU: of two, if a save was cut off before it deleted the old one."""
    return max(steps, key=lambda step: _about(manager, step)["bleu"], default=None)


def _folder(manager: ocp.CheckpointManager, step: int) -> Path:
    return storage.path(str(manager.directory)) / str(step)


def _seal(manager: ocp.CheckpointManager, step: int) -> None:
    """Writes the checksums of a step's files beside them."""
    directory = _folder(manager, step)
    if processes.is_first():
        storage.write_file(directory / checksums.NAME, checksums.seal(directory))


def _faults(manager: ocp.CheckpointManager, step: int) -> list[str]:
    """The damaged files of a step, which are warned of. One that is not sealed is taken as it is:
    it was cut off between its last file and its checksums, or has lost these."""
    directory = _folder(manager, step)
    faults = checksums.damaged(directory)
    if faults is None:
        logging.warning("%s has no %s: it is taken as it is", directory, checksums.NAME)
    for fault in faults or ():
        logging.warning("damaged: %s; step %d is not used", fault, step)
    return faults or []


def _check(manager: ocp.CheckpointManager, step: int, vocabulary: str) -> None:
    found = _about(manager, step)["vocabulary"]
    if found != vocabulary:
        raise ValueError(
            f"{manager.directory / str(step)} was trained with the vocabulary {found}, "
            f"but this run's is {vocabulary}: ids would mean other pieces"
        )


def _restore(manager: ocp.CheckpointManager, step: int, parameters: Tree) -> Tree:
    arguments = ocp.args.Composite(parameters=ocp.args.StandardRestore(parameters))
    return manager.restore(step, args=arguments)["parameters"]
