"""State <-> disk, or bucket: Orbax, asynchronous and atomic.

    WORKDIR/checkpoints/parameters/STEP   the newest `keep`, what is averaged
    WORKDIR/checkpoints/optimizer/STEP    of the newest two, what training resumes from
    WORKDIR/best/STEP                     parameters of the highest validation BLEU

Every parameter checkpoint names the vocabulary it was trained with.
"""

import logging
from pathlib import Path
from typing import Any

import jax
import numpy as np
import orbax.checkpoint as ocp

from transformer import storage

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
        self._parameters = _manager(workdir / "checkpoints" / "parameters")
        self._optimizer = _manager(workdir / "checkpoints" / "optimizer", OPTIMIZER_STATES)
        self._best = _manager(workdir / "best")

    def save(self, step: int, parameters: Tree, optimizer_state: Tree) -> None:
        """Begins to save the state after `step` updates; the arrays may be donated after that."""
        self._parameters.wait_until_finished()
        self._delete_old()
        about = {"step": step, "vocabulary": self._vocabulary}
        self._parameters.save(step, args=_arguments(parameters, about))
        self._optimizer.save(step, args=ocp.args.StandardSave(optimizer_state))

    def save_best(self, step: int, parameters: Tree, bleu: float) -> bool:
        """Keeps the parameters if their BLEU is the highest so far, and says whether it is."""
        kept = _best_step(self._best)
        if kept is not None and _about(self._best, kept)["bleu"] >= bleu:
            return False
        about = {"step": step, "vocabulary": self._vocabulary, "bleu": bleu}
        self._best.save(step, args=_arguments(parameters, about), force=True)
        self._best.wait_until_finished()
        for old in set(self._best.all_steps()) - {step}:  # only now: one best is always whole
            self._best.delete(old)
        return True

    def restore(self, parameters: Tree, optimizer_state: Tree) -> tuple[int, Tree, Tree] | None:
        """The newest whole state (step, parameters, optimizer state), or None if there is none.

        The arguments are trees of jax.ShapeDtypeStruct that say what is expected and where it goes:
        the devices may be others than those that saved it. What a run saved after that state, in a
        save that was cut off between its halves or as its best, is deleted: it will come again.
        """
        saved = self._parameters.all_steps()
        whole = set(saved) & set(self._optimizer.all_steps())
        if len(saved) > 1 and not whole:
            raise ValueError(
                f"{self._parameters.directory} has the steps {sorted(saved)}, but "
                f"{self._optimizer.directory} has none of them: such a run can be evaluated, "
                "not resumed; give another --workdir"
            )
        step = max(whole, default=-1)
        for manager in (self._parameters, self._optimizer, self._best):
            for later in manager.all_steps():
                if later > step:
                    logging.info(
                        "deleting %s, later than step %d", manager.directory / str(later), step
                    )
                    manager.delete(later)
        if not whole:
            return None
        _check(self._parameters, step, self._vocabulary)
        optimizer_state = self._optimizer.restore(
            step, args=ocp.args.StandardRestore(optimizer_state)
        )
        return step, _restore(self._parameters, step, parameters), optimizer_state

    def _delete_old(self) -> None:
        """Makes room for one more: leaves keep - 1 regular ones, and the newest."""
        steps = sorted(self._parameters.all_steps())
        counted = [step for step in steps if step % self._every == 0]
        stays = {*steps[-1:], *counted[max(0, len(counted) - self._keep + 1) :]}
        for step in set(steps) - stays:
            self._parameters.delete(step)

    def close(self) -> None:
        for manager in (self._parameters, self._optimizer, self._best):
            manager.wait_until_finished()
            manager.close()


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
            steps = [_best_step(manager)]
        steps = regular(steps, every)[-(average_last if weights == "average" else 1) :]
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


def _best_step(manager: ocp.CheckpointManager) -> int | None:
    """The step of the highest BLEU: of two, if a save was cut off before it deleted the old one."""
    return max(manager.all_steps(), key=lambda step: _about(manager, step)["bleu"], default=None)


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
