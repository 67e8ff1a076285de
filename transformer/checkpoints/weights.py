"""Loads the params to evaluate with: the latest, the best, or an average of checkpoints."""

import contextlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import jax
import numpy as np

from transformer.checkpoints import store
from transformer.checkpoints.store import CheckpointStore, signed
from transformer.errors import UserError

Tree = Any

FOLDERS = {"average": store.AVERAGED, "best": store.BEST, "latest": store.LATEST}
WEIGHTS = tuple(FOLDERS)


def folder_name(weights: str) -> str:
    """Returns the subfolder to load from."""
    return FOLDERS[weights]


def load(
    workdir: Path, params: Tree, identity: dict[str, str], *, weights: str, average_last: int
) -> tuple[Tree, list[int]]:
    """Returns the params to evaluate with, and the steps they are from. Collective.

    `weights` is 'latest', 'best' (of the best validation), or 'average' (the float32 mean of the
    last `average_last` checkpoints; paper, section 6.1). `params` is a tree of jax.ShapeDtypeStruct
    with shapes and shardings.

    UserError if there is no complete checkpoint, or a file of one that is needed is damaged.
    """
    directory = workdir / folder_name(weights)
    with contextlib.closing(CheckpointStore(directory)) as saved:
        steps = saved.steps()
        if not steps:
            raise UserError(
                f"{directory} holds no complete checkpoint yet, which "
                f"config.evaluate.weights={weights!r} needs: set it to another of {WEIGHTS}"
            )
        chosen = _chosen(saved, steps, weights, average_last)
        return _mean(saved, chosen, params, identity), chosen


def best_step(saved: CheckpointStore, steps: Iterable[int]) -> int | None:
    """Returns the step with the best score, None if there are no steps."""
    rank = lambda step: signed(saved.about(step, "score"), saved.about(step, "best_is"))
    return max(steps, key=rank, default=None)


def _chosen(saved: CheckpointStore, steps: list[int], weights: str, average_last: int) -> list[int]:
    """Returns the steps that `weights` selects; UserError if one of them is damaged."""
    # best/ has two steps if a run was killed before it deleted the older one.
    chosen = {"average": steps[-average_last:], "best": steps, "latest": steps[-1:]}[weights]
    if damaged := [x for step in chosen for x in saved.faults(step, without=store.OPT_STATE)]:
        raise UserError(
            f"damaged: {', '.join(damaged)}; nothing was loaded: set config.evaluate.weights to "
            f"another of {WEIGHTS}"
        )
    return [best_step(saved, chosen)] if weights == "best" else chosen


def _mean(saved: CheckpointStore, steps: list[int], params: Tree, identity: dict) -> Tree:
    """Returns the params of one step, or the mean over several, with the shardings of `params`."""
    total = None
    for step in steps:
        saved.check_identity(step, identity)
        restored = saved.restore(step, store.PARAMS, params)
        if len(steps) == 1:
            return restored
        # Added up in float32 on the host, one checkpoint at a time: two copies in memory, not N.
        restored = jax.tree.map(lambda x: np.asarray(x, np.float32), restored)
        total = restored if total is None else jax.tree.map(np.add, total, restored)
    mean = jax.tree.map(lambda x: x / np.float32(len(steps)), total)
    # The mean is on the host: each process puts the slices that its devices hold.
    put = lambda x, like: jax.make_array_from_callback(x.shape, like.sharding, x.__getitem__)
    return jax.tree.map(put, mean, params)
