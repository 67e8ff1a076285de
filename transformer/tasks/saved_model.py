"""Loads the model and params of a trained workdir, or an ensemble of several."""

import logging
from pathlib import Path
from typing import NamedTuple

import flax.linen as nn
from ml_collections import ConfigDict

from transformer import registry
from transformer.checkpoints import store, weights
from transformer.data.tokenizer import Vocabulary
from transformer.distributed import layout
from transformer.errors import UserError
from transformer.models import fields
from transformer.models.ensemble import Ensemble
from transformer.runtime import paths
from transformer.tasks.task import abstract_params, load_task
from transformer.workdir import saved_config


class SavedModel(NamedTuple):
    """A trained model (or ensemble), its params, and the steps of their checkpoints."""

    model: nn.Module
    params: dict  # replicated on this process's devices
    steps: list[int]  # of all checkpoints, including the other members' of an ensemble
    step: int  # the newest of this workdir
    vocabulary: Vocabulary | None = None  # of a translation model


def load(config: ConfigDict, workdir: Path) -> SavedModel:
    """Loads a workdir's model and the params that `config.evaluate.weights` selects. Collective.

    With `config.evaluate.ensemble`, the model is an `Ensemble` of the models of this workdir and of
    the listed workdirs. Keys of config.decode in registry.FUSION change it further.
    """
    members = [_load_one(config, workdir, config)]
    members += [_load_one(its_config, place, config) for place, its_config, _ in ensemble(config)]
    run = members[0]
    if len(members) > 1:
        # Flax names the modules of a tuple by field and index: members_0, members_1, ...
        model = Ensemble(tuple(member.model for member in members))
        params = {f"members_{i}": member.params for i, member in enumerate(members)}
        steps = [step for member in members for step in member.steps]
        run = SavedModel(model, params, steps, run.step)
    for key, code in registry.FUSION.items():
        if config.get("decode", {}).get(key):
            run = registry.load(code)(config, workdir, run)
    return run


def check_fusion(config: ConfigDict) -> None:
    """Raises UserError if a key of `registry.FUSION` names no trained run. Reads no params."""
    for place in filter(None, map(config.decode.get, registry.FUSION)):
        saved_config.read_config(paths.path(place))


def ensemble(config: ConfigDict) -> list[tuple[Path, ConfigDict, nn.Module]]:
    """Returns (workdir, config, model) of each workdir in `config.evaluate.ensemble`.

    UserError if a workdir has no complete checkpoint, or another identity than a prepared run, such
    as another vocabulary. Reads no params.
    """
    members = []
    task_module = load_task(config.task)
    for name in filter(None, map(str.strip, config.evaluate.ensemble.split(","))):
        workdir = paths.path(name)
        member_config = saved_config.read_with_defaults(workdir)
        if member_config.task != config.task:
            raise UserError(
                f"config.evaluate.ensemble: {workdir} was trained on the task "
                f"{member_config.task!r}, this run on {config.task!r}"
            )
        sizes = task_module.sizes(member_config, workdir)
        expected = task_module.identity(config)
        for kind, value in task_module.identity(member_config).items():
            if expected[kind] not in ("", value):  # "" if this run is not prepared yet
                hint = f": train with --config.vocabulary.model={workdir / 'vocabulary'}"
                raise UserError(
                    f"config.evaluate.ensemble: {workdir} has another {kind} than this run"
                    f"{hint if kind == 'vocabulary' else ''}"
                )
        saved = workdir / weights.FOLDERS[config.evaluate.weights]
        if not store.complete_steps(saved):
            raise UserError(
                f"config.evaluate.ensemble: {saved} holds no complete checkpoint, which "
                f"config.evaluate.weights={config.evaluate.weights!r} needs"
            )
        members.append((workdir, member_config, task_module.model(member_config, sizes)))
    return members


def check_all_positions(config: ConfigDict, model: nn.Module, length: int, what: str) -> None:
    """Raises UserError if `length` exceeds the positions of `model` or of an ensemble member.

    `what` describes the length in the message.
    """
    for scored in (model, *(member for _, _, member in ensemble(config))):
        fields.check_positions(scored, length, what)


def _load_one(config: ConfigDict, workdir: Path, options: ConfigDict) -> SavedModel:
    """Loads a workdir trained with `config`, by the dtype and weights of `options`."""
    task_module = load_task(config.task)
    # Params are saved in float32, so evaluation may choose another dtype.
    if "dtype" in config.model and "dtype" in options.model:
        config.model.dtype = options.model.dtype
    model = task_module.model(config, task_module.sizes(config, workdir))
    shapes = abstract_params(model, task_module.example(config, 1))
    params, steps = weights.load(
        workdir,
        layout.to_restore(shapes, layout.make_layout("pmap")),
        task_module.identity(config),
        weights=options.evaluate.weights,
        average_last=options.evaluate.average_last,
    )
    noun, numbers = "steps" if len(steps) > 1 else "step", ", ".join(map(str, steps))
    logging.info("%s: %s weights, of %s %s", workdir, options.evaluate.weights, noun, numbers)
    return SavedModel(model, layout.local_replicas(params), steps, max(steps))
