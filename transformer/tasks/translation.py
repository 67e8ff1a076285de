"""A trained workdir -> its config, vocabulary, model and parameters."""

import functools
from pathlib import Path
from typing import NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
import ml_collections

from transformer import models
from transformer.checkpoints import config_files, store, weights, workdir
from transformer.checkpoints.workdir import read_vocabulary
from transformer.data import tokenizer
from transformer.distributed import layout
from transformer.errors import UserError
from transformer.models.ensemble import Ensemble
from transformer.storage import paths

Tree = dict


class Run(NamedTuple):
    """What a workdir has learnt; `steps` are those whose parameters were taken."""

    model: nn.Module
    vocabulary: tokenizer.Vocabulary
    parameters: Tree
    steps: list[int]


def build_model(config: ml_collections.ConfigDict, vocabulary: tokenizer.Vocabulary) -> nn.Module:
    """The model that a config describes, over a vocabulary."""
    return models.build(
        config.architecture,
        config.model.to_dict(),
        source_vocab_size=len(vocabulary.source),
        target_vocab_size=len(vocabulary.target),
    )


def initial_parameters(model: nn.Module, rng: jax.Array) -> Tree:
    """Random parameters: a function of the model and the key alone."""
    ids = jnp.ones((1, 2), jnp.int32)
    return model.init(rng, ids, ids, ids, ids, ids, ids, train=False)["params"]


def abstract_parameters(model: nn.Module) -> Tree:
    """Shapes and types of a model's parameters, without any being made."""
    return jax.eval_shape(functools.partial(initial_parameters, model), jax.random.key(0))


def load(workdir: Path, config: ml_collections.ConfigDict) -> Run:
    """A workdir's model by `config.evaluate.weights`, in one with those of `evaluate.ensemble`."""
    members = [_load_one(workdir, config, config)]
    for other, own, _ in ensemble(config):
        members.append(_load_one(other, own, config))
    if len(members) == 1:
        return members[0]
    model = Ensemble(tuple(member.model for member in members))
    parameters = {f"members_{i}": member.parameters for i, member in enumerate(members)}
    steps = [step for member in members for step in member.steps]
    return Run(model, members[0].vocabulary, parameters, steps)


def ensemble(
    config: ml_collections.ConfigDict,
) -> list[tuple[Path, ml_collections.ConfigDict, nn.Module]]:
    """The workdirs that `evaluate.ensemble` names, each with its config and its model.

    UserError if one has not been trained, or has another vocabulary than the config names (a run
    that has not been prepared names none). No parameters are read.
    """
    members = []
    for name in filter(None, map(str.strip, config.evaluate.ensemble.split(","))):
        other = paths.path(name)
        if not (other / "config.json").is_file():
            raise UserError(
                f"config.evaluate.ensemble: {other} holds no config.json: expected folders of "
                "trained runs, separated by commas"
            )
        own = config_files.with_defaults(workdir.read_config(other), config, other / "config.json")
        vocabulary = workdir.read_vocabulary(other, own)
        if config.vocabulary.fingerprint not in ("", vocabulary.fingerprint):
            files = ",".join(map(str, workdir.vocabulary_files(other, own)))
            raise UserError(
                f"config.evaluate.ensemble: {other} has another vocabulary than this run; train "
                f"with --config.vocabulary.model={files}"
            )
        which = config.evaluate.weights
        saved = other / weights.place(which)
        if not store.steps(saved):
            raise UserError(
                f"config.evaluate.ensemble: {saved} holds no complete checkpoint, "
                f"config.evaluate.weights={which!r} takes one from there"
            )
        members.append((other, own, build_model(own, vocabulary)))
    return members


def _load_one(
    workdir: Path, own: ml_collections.ConfigDict, asked: ml_collections.ConfigDict
) -> Run:
    vocabulary = read_vocabulary(workdir, own)
    own.model.dtype = asked.model.dtype
    model = build_model(own, vocabulary)
    parameters, steps = weights.load(
        workdir,
        layout.to_restore(abstract_parameters(model)),
        vocabulary.fingerprint,
        weights=asked.evaluate.weights,
        average_last=asked.evaluate.average_last,
        every=own.train.save_every,
    )
    return Run(model, vocabulary, layout.own(parameters), steps)
