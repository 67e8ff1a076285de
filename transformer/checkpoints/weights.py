"""A workdir's checkpoints -> the parameters to score and translate with."""

import contextlib
import logging
from pathlib import Path
from typing import Any

import jax
import numpy as np

from transformer.checkpoints.manager import (
    BEST,
    ITEMS,
    LATEST,
    OPT_STATE,
    PARAMS,
    best_step,
    check_identity,
)
from transformer.checkpoints.store import CheckpointStore, DamagedError
from transformer.errors import UserError

Tree = Any

WEIGHTS = ("average", "best", "latest")


def place(weights: str) -> str:
    """Returns where in a workdir such weights are."""
    return BEST if weights == "best" else LATEST


def load(
    workdir: Path,
    params: Tree,
    identity: dict[str, str],
    *,
    weights: str,
    average_last: int,
    every: int,
) -> tuple[Tree, list[int]]:
    """Returns the parameters to score and translate with, and the steps they come from.

    `weights`: 'latest'; 'best' by validation; 'average' of the last `average_last` (paper
    6.1), summed in float32. `params` says what is expected, as in `Checkpoints.restore`, and
    `every` which steps count, as in `Checkpoints`.
    """
    if weights not in WEIGHTS:
        raise UserError(f"config.evaluate.weights is one of {WEIGHTS}, found {weights!r}")
    directory = workdir / place(weights)
    if not directory.is_dir():
        raise UserError(f"{directory} does not exist: nothing has been saved in {workdir} yet")
    with contextlib.closing(CheckpointStore(directory, ITEMS, read_only=True)) as folder:
        while True:
            steps = folder.steps()
            if not steps:
                raise UserError(
                    f"{directory} holds no complete checkpoint yet; "
                    f"config.evaluate.weights is {weights!r}, the others are "
                    + ", ".join(repr(other) for other in WEIGHTS if other != weights)
                )
            try:
                chosen = _chosen(folder, steps, weights, average_last, every)
                return _mean(folder, chosen, params, identity), chosen
            except Exception as error:
                # A run that trains here may have deleted a step since it was listed. Of several
                # processes, all fail together by DamagedError only.
                together = isinstance(error, DamagedError) or jax.process_count() == 1
                if not together or set(steps) <= set(folder.steps()):
                    raise


def _chosen(
    folder: CheckpointStore, steps: list[int], weights: str, average_last: int, every: int
) -> list[int]:
    """Those of the complete steps that `weights` means, undamaged."""
    if weights == "best":  # of two, if a run was killed before it deleted the old one
        chosen = steps
    else:
        chosen = regular(steps, every)[-(average_last if weights == "average" else 1) :]
    faults = {step: folder.faults(step, without=OPT_STATE) for step in chosen}
    whole = [step for step in chosen if not faults[step]]
    named = ", ".join(fault for step in chosen for fault in faults[step])
    if not whole or (named and weights != "best"):
        raise DamagedError(
            f"{named}; nothing was read: set config.evaluate.weights to another of {WEIGHTS}"
        )
    if named:
        logging.warning("damaged: %s; another best is used", named)
    return [best_step(folder, whole)] if weights == "best" else chosen


def _mean(folder: CheckpointStore, steps: list[int], params: Tree, identity: dict) -> Tree:
    """The parameters of a step, or the mean of several."""
    total = None
    for step in steps:
        check_identity(folder, step, identity)
        restored = folder.restore(step, PARAMS, params)
        if len(steps) == 1:
            return restored
        restored = jax.tree.map(lambda x: np.asarray(x, np.float32), restored)
        total = restored if total is None else jax.tree.map(np.add, total, restored)
    mean = jax.tree.map(lambda x: x / np.float32(len(steps)), total)
    put = lambda x, like: jax.make_array_from_callback(x.shape, like.sharding, x.__getitem__)
    return jax.tree.map(put, mean, params)


def regular(steps: list[int], every: int) -> list[int]:
    """Of the steps saved, in order, those that count: multiples of `every`, and the newest."""
    return [step for step in steps if step % every == 0 or step == steps[-1]]
