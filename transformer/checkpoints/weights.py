"""Loads the params to evaluate with: the latest, the best, or an average of checkpoints."""

import contextlib
import logging
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import jax
import numpy as np

from transformer.checkpoints.store import BEST, ITEMS, LATEST, OPT_STATE, PARAMS, CheckpointStore
from transformer.errors import UserError, check_values
from transformer.workdir.early_stopping import signed

Tree = Any

WEIGHTS = ("average", "best", "latest")


class DamagedError(UserError):
    """A checkpoint has a checksum mismatch or missing files, which the message names."""


def check(weights: str) -> None:
    """Raises UserError for a value of `config.evaluate.weights` that is not one of WEIGHTS."""
    check_values("evaluate", {"weights": weights}, {"weights": WEIGHTS})


def folder_name(weights: str) -> str:
    """Returns the subfolder to load from: 'best' for weights 'best', otherwise 'checkpoints'."""
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
    """Returns the params to evaluate with, and the steps they are from. Collective.

    `weights` is 'latest', 'best' (of the best validation), or 'average' (the float32 mean of the
    last `average_last` checkpoints; paper, section 6.1). For 'average' and 'latest', only steps
    that are multiples of `every`, and the newest, count. `params` is a tree of jax.ShapeDtypeStruct
    with shapes and shardings.

    UserError if there is no complete checkpoint, DamagedError for a checksum mismatch.
    """
    check(weights)
    directory = workdir / folder_name(weights)
    if not directory.is_dir():
        raise UserError(f"{directory} does not exist: nothing has been saved in {workdir} yet")
    with contextlib.closing(CheckpointStore(directory, ITEMS, read_only=True)) as store:
        # A run that trains in this workdir may delete a step between listing and reading it. Then
        # the next turn lists the newer steps; each turn has at least one step fewer of the old.
        while True:
            steps = store.steps()
            if not steps:
                raise UserError(
                    f"{directory} holds no complete checkpoint yet, which "
                    f"config.evaluate.weights={weights!r} needs: set it to another of {WEIGHTS}"
                )
            try:
                chosen = _chosen(store, steps, weights, average_last, every)
                return _mean(store, chosen, params, identity), chosen
            except Exception as error:
                # Of several processes only DamagedError is sure to be raised in all: after another
                # error, a retry of one process alone would wait for the others forever.
                together = isinstance(error, DamagedError) or jax.process_count() == 1
                if not together or set(steps) <= set(store.steps()):
                    raise


def best_step(store: CheckpointStore, steps: Iterable[int]) -> int | None:
    """Returns the step with the best score, None if there are no steps."""
    rank = lambda step: signed(store.about(step, "score"), store.about(step, "best_is"))
    return max(steps, key=rank, default=None)


def _chosen(
    store: CheckpointStore, steps: list[int], weights: str, average_last: int, every: int
) -> list[int]:
    """Returns the steps that `weights` selects; DamagedError if one of them is damaged.

    If best/ has several steps, the undamaged one with the best score is selected.
    """
    if weights == "best":  # two, if a run was killed before it deleted the older one
        chosen = steps
    else:
        counted = [step for step in steps if step % every == 0 or step == steps[-1]]
        chosen = counted[-(average_last if weights == "average" else 1) :]
    faults = {step: store.faults(step, without=OPT_STATE) for step in chosen}
    undamaged = [step for step in chosen if not faults[step]]
    damaged_files = ", ".join(fault for step in chosen for fault in faults[step])
    if not undamaged or (damaged_files and weights != "best"):
        raise DamagedError(
            f"damaged: {damaged_files}; nothing was loaded: set config.evaluate.weights to another "
            f"of {WEIGHTS}"
        )
    if damaged_files:
        logging.warning("damaged: %s; using another best", damaged_files)
    return [best_step(store, undamaged)] if weights == "best" else chosen


def _mean(store: CheckpointStore, steps: list[int], params: Tree, identity: dict) -> Tree:
    """Returns the params of one step, or the mean over several, with the shardings of `params`."""
    total = None
    for step in steps:
        store.check_identity(step, identity)
        restored = store.restore(step, PARAMS, params)
        if len(steps) == 1:
            return restored
        # Added up in float32 on the host, one checkpoint at a time: two copies in memory, not N.
        restored = jax.tree.map(lambda x: np.asarray(x, np.float32), restored)
        total = restored if total is None else jax.tree.map(np.add, total, restored)
    mean = jax.tree.map(lambda x: x / np.float32(len(steps)), total)
    # The mean is on the host: each process puts the slices that its devices hold.
    put = lambda x, like: jax.make_array_from_callback(x.shape, like.sharding, x.__getitem__)
    return jax.tree.map(put, mean, params)
