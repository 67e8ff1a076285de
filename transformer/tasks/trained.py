"""A trained workdir -> its model and params, or several workdirs' as an ensemble."""

from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import flax.linen as nn
import ml_collections

from transformer.checkpoints import config_files, store, weights, workdir
from transformer.distributed import layout
from transformer.errors import UserError
from transformer.models.ensemble import Ensemble
from transformer.storage import paths
from transformer.tasks.task import abstract_params, load_task

Tree = Any


class Trained(NamedTuple):
    """What workdirs have learnt; `steps` are those whose params were taken."""

    model: nn.Module
    params: Tree  # replicated on this process's devices
    steps: list[int]


def load(config: ml_collections.ConfigDict, folder: Path) -> Trained:
    """A workdir's model and params by `config.evaluate.weights`, in one with those of the workdirs
    that `config.evaluate.ensemble` names. Collective."""
    members = [_load_one(folder, config, config)]
    for other, theirs, _ in ensemble(config):
        members.append(_load_one(other, theirs, config))
    if len(members) == 1:
        return members[0]
    model = Ensemble(tuple(member.model for member in members))
    params = {f"members_{i}": member.params for i, member in enumerate(members)}
    return Trained(model, params, [step for member in members for step in member.steps])


def ensemble(
    config: ml_collections.ConfigDict,
) -> list[tuple[Path, ml_collections.ConfigDict, nn.Module]]:
    """The workdirs that `config.evaluate.ensemble` names, each with its config and its model.

    UserError if one has not been trained, or for something else than this run, such as another
    vocabulary (a run that has not been prepared has none yet). No params are read.
    """
    members, task = [], load_task(config.task)
    for name in filter(None, map(str.strip, config.evaluate.ensemble.split(","))):
        other = paths.path(name)
        if not (other / "config.json").is_file():
            raise UserError(
                f"config.evaluate.ensemble: {other} holds no config.json: expected folders of "
                "trained runs, separated by commas"
            )
        made = workdir.read_config(other)
        theirs = config_files.with_defaults(made, config, other / "config.json")
        sizes = task.sizes(theirs, other)
        _check_identity(config, theirs, other, task)
        which = config.evaluate.weights
        saved = other / weights.place(which)
        if not store.steps(saved):
            raise UserError(
                f"config.evaluate.ensemble: {saved} holds no complete checkpoint, "
                f"config.evaluate.weights={which!r} takes one from there"
            )
        members.append((other, theirs, task.model(theirs, sizes)))
    return members


def _check_identity(
    config: ml_collections.ConfigDict,
    theirs: ml_collections.ConfigDict,
    other: Path,
    task: ModuleType,
) -> None:
    expected = task.identity(config)
    for name, value in task.identity(theirs).items():
        if expected[name] in ("", value):
            continue
        hint = ""
        if name == "vocabulary":
            files = ",".join(map(str, workdir.vocabulary_files(other, theirs)))
            hint = f"; train with --config.vocabulary.model={files}"
        raise UserError(f"config.evaluate.ensemble: {other} has another {name} than this run{hint}")


def _load_one(
    folder: Path, made: ml_collections.ConfigDict, asked: ml_collections.ConfigDict
) -> Trained:
    """One workdir's, whose config is `made`, in the dtype and with the weights that are asked."""
    task = load_task(made.task)
    if "dtype" in made.model and "dtype" in asked.model:
        made.model.dtype = asked.model.dtype
    model = task.model(made, task.sizes(made, folder))
    params, steps = weights.load(
        folder,
        layout.to_restore(abstract_params(model, task.example(made, 1))),
        task.identity(made),
        weights=asked.evaluate.weights,
        average_last=asked.evaluate.average_last,
        every=made.train.save_every,
    )
    return Trained(model, layout.local_replicas(params), steps)
