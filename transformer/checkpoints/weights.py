"""Loads params of checkpoints, to evaluate with or to start another run from."""

import contextlib
import logging
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import flax.traverse_util
import jax
import numpy as np

from transformer.checkpoints import store
from transformer.checkpoints.store import CheckpointStore, signed
from transformer.distributed.layout import Layout, from_saved, place, to_restore
from transformer.errors import UserError, quantity
from transformer.runtime import paths

Tree = Any

# The subfolder of a workdir to load from, by config.evaluate.weights.
FOLDERS = {"average": store.AVERAGED, "best": store.BEST, "latest": store.LATEST}
WEIGHTS = tuple(FOLDERS)


def load(
    workdir: Path, params: Tree, identity: dict[str, str], *, weights: str, average_last: int
) -> tuple[Tree, list[int]]:
    """Returns the params to evaluate with, and the steps they are from. Collective.

    `weights` is 'latest', 'best' (of the best validation), or 'average' (the float32 mean of the
    last `average_last` checkpoints; paper, section 6.1). `params` is a tree of jax.ShapeDtypeStruct
    with shapes and shardings.

    UserError if no checkpoint is complete, or a selected checkpoint is damaged.
    """
    directory = workdir / FOLDERS[weights]
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
    """Returns the step with the best score, or None without steps."""
    rank = lambda step: signed(saved.about(step, "score"), saved.about(step, "best_is"))
    return max(steps, key=rank, default=None)


def _chosen(saved: CheckpointStore, steps: list[int], weights: str, average_last: int) -> list[int]:
    """Returns the steps that `weights` selects; UserError if any is damaged."""
    # best/ has two steps if a run was killed before it deleted the older step.
    chosen = {"average": steps[-average_last:], "best": steps, "latest": steps[-1:]}[weights]
    if damaged := [x for step in chosen for x in saved.faults(step, without=store.OPT_STATE)]:
        raise UserError(
            f"damaged: {', '.join(damaged)}; nothing was loaded: set config.evaluate.weights to "
            f"another of {WEIGHTS}"
        )
    return [best_step(saved, chosen)] if weights == "best" else chosen


def _mean(saved: CheckpointStore, steps: list[int], params: Tree, identity: dict) -> Tree:
    """Returns the params of one step, or the mean over several, sharded as `params`."""
    total = None
    for step in steps:
        saved.check_identity(step, identity)
        restored = saved.restore(step, store.PARAMS, params)
        if len(steps) == 1:
            return restored
        # Add up in float32 on the host, one checkpoint at a time, with two copies in memory.
        restored = jax.tree.map(lambda x: np.asarray(x, np.float32), restored)
        total = restored if total is None else jax.tree.map(np.add, total, restored)
    mean = jax.tree.map(lambda x: x / np.float32(len(steps)), total)
    return place(mean, jax.tree.map(lambda x: x.sharding, params))


# Params of another run to start from (`train.init_from`), such as pre-trained params.


def load_init_from(
    init_from: str, init_skip: str, identity: dict[str, str], layout: Layout, params: Tree
) -> dict[str, jax.Array]:
    """Returns {path: array} of another run's best params, laid out for training. Collective.

    `params` are the new run's jax.ShapeDtypeStructs. Both runs must have the same parameters, by
    path and shape, except below the prefixes in `init_skip`, which are left out ('head' is a prefix
    of 'head/bias', not of 'header'). Both runs must have the same identity, such as the vocabulary,
    except for the names in `init_skip`. UserError names the first difference.
    """
    folder, skip = paths.path(init_from), prefixes(init_skip)
    with contextlib.closing(CheckpointStore(folder / store.BEST)) as saved:
        step = best_step(saved, saved.steps())
        if faults := saved.faults(step):
            raise UserError(f"damaged: {', '.join(faults)}")
        shapes = saved.shapes(step, store.PARAMS)
        _check_identity(folder, saved.about(step, "identity"), identity, skip)
        _check_params(folder, shapes, params, skip, identity)
        restored = from_saved(saved.restore(step, store.PARAMS, to_restore(shapes, layout)), layout)
    # Drop the params that start anew.
    kept = {path: x for path, x in flatten(restored).items() if not is_below(path, skip)}
    count = quantity(sum(x.size for x in kept.values()), "parameter")
    anew = ", ".join(skip) or "nothing"
    logging.info("starting from %s, step %d: %s; anew: %s", folder, step, count, anew)
    return kept


def _check_params(
    folder: Path, saved: Tree, params: Tree, skip: list[str], identity: dict[str, str]
) -> None:
    """Raises UserError unless two models have the same parameters, except below `skip`.

    An entry of `skip` must be a prefix of a parameter's path or the name of an identity.
    """
    flat = flatten(saved), flatten(params)
    shared = ({path: x for path, x in tree.items() if not is_below(path, skip)} for tree in flat)
    if difference := store.different_shape(*shared):
        raise UserError(
            f"config.train.init_from={folder}: the parameter {difference}; with a prefix of its "
            "path in config.train.init_skip it starts anew"
        )
    names = flat[0].keys() | flat[1].keys()
    for prefix in skip:
        if prefix not in identity and not any(is_below(name, [prefix]) for name in names):
            raise UserError(
                f"config.train.init_skip: {prefix!r} must be a prefix of a parameter's path, such "
                f"as {min(names)!r}"
            )


def _check_identity(
    folder: Path, saved: dict[str, str], identity: dict[str, str], skip: list[str]
) -> None:
    """Raises UserError if another run's ids or classes have another meaning."""
    for name in sorted(saved.keys() & identity.keys() - {*skip}):
        if saved[name] != identity[name]:
            own = folder / name  # the folder of its vocabulary; labels have none
            hint = f"train with --config.vocabulary.model={own}, or " if own.is_dir() else ""
            raise UserError(
                f"config.train.init_from={folder} has another {name} than this run: {hint}list in "
                f"config.train.init_skip {name!r} and the parameters that depend on it"
            )


# Params by path, {'head/bias': array, ...}, and prefixes of paths in a config.


def flatten(params: Tree) -> dict[str, Any]:
    """Returns a tree of params as {'head/bias': array, ...}."""
    return flax.traverse_util.flatten_dict(params, sep="/")


def unflatten(flat: dict[str, Any]) -> Tree:
    """Returns the tree of params from {'head/bias': array, ...}; inverse of `flatten`."""
    return flax.traverse_util.unflatten_dict(flat, sep="/")


def prefixes(names: str) -> list[str]:
    """Splits a list of prefixes such as 'head, encoder/layers_0'."""
    return [name.strip() for name in names.split(",") if name.strip()]


def is_below(path: str, prefixes: list[str]) -> bool:
    """Returns whether a path is a prefix or below one, as 'head/bias' is below 'head'."""
    # With a slash after both, 'header' is not below 'head'.
    return any(f"{path}/".startswith(f"{prefix}/") for prefix in prefixes)
