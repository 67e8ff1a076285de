"""Params of another run to start a new one from (`train.init_from`), such as pre-trained ones."""

import contextlib
import logging
from pathlib import Path
from typing import Any

import jax

from transformer.checkpoints import store
from transformer.checkpoints.param_paths import flatten, is_below, prefixes
from transformer.checkpoints.store import BEST, PARAMS, CheckpointStore
from transformer.checkpoints.weights import best_step
from transformer.distributed.layout import Layout, from_saved, to_restore
from transformer.errors import UserError, quantity
from transformer.runtime import paths

Tree = Any


def check(init_from: str) -> None:
    """Raises UserError if `config.train.init_from` is not a run with a best checkpoint."""
    folder = paths.path(init_from)
    if not store.steps(folder / BEST):
        raise UserError(
            f"config.train.init_from={folder}: {folder / BEST} holds no complete checkpoint; "
            "expected the workdir of a run that has been validated"
        )


def load(
    init_from: str, init_skip: str, identity: dict[str, str], layout: Layout, params: Tree
) -> dict[str, jax.Array]:
    """Returns {path: array} of the best params of another run, as training holds them. Collective.

    `params` are the new run's jax.ShapeDtypeStructs. Both runs must have the same parameters, by
    path and shape, except those below a prefix in `init_skip` ('head' is one of 'head/bias', not of
    'header'), which are left out. Both runs must have the same identity, such as the vocabulary,
    except for the names in `init_skip`. UserError names what differs.
    """
    folder, skip = paths.path(init_from), prefixes(init_skip)
    with contextlib.closing(CheckpointStore(folder / BEST)) as saved:
        step = best_step(saved, saved.steps())
        if faults := saved.faults(step):
            raise UserError(f"damaged: {', '.join(faults)}")
        shapes = saved.shapes(step, PARAMS)
        _check_identity(folder, saved.about(step, "identity"), identity, skip)
        _check_params(folder, shapes, params, skip, identity)
        restored = from_saved(saved.restore(step, PARAMS, to_restore(shapes, layout)), layout)
    # All of the other run's params are read and laid out; those to start anew are dropped here.
    kept = {path: x for path, x in flatten(restored).items() if not is_below(path, skip)}
    count = quantity(sum(x.size for x in kept.values()), "parameter")
    anew = ", ".join(skip) or "nothing"
    logging.info("starting from %s, step %d: %s; anew: %s", folder, step, count, anew)
    return kept


def _check_params(
    folder: Path, saved: Tree, params: Tree, skip: list[str], identity: dict[str, str]
) -> None:
    """Raises UserError unless two models have the same parameters, except those below `skip`.

    UserError, too, for an entry of `skip` that is neither a prefix of a parameter's path nor the
    name of an identity.
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
    """Raises UserError if another run's ids or classes mean something else."""
    for name in sorted(saved.keys() & identity.keys() - {*skip}):
        if saved[name] != identity[name]:
            own = folder / name  # the folder of its vocabulary; labels have none
            hint = f"train with --config.vocabulary.model={own}, or " if own.is_dir() else ""
            raise UserError(
                f"config.train.init_from={folder} has another {name} than this run: {hint}list in "
                f"config.train.init_skip {name!r} and the parameters that depend on it"
            )
