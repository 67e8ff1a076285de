"""A trained workdir -> its config, vocabulary, model and parameters."""

import functools
import json
from pathlib import Path
from typing import NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
import ml_collections

from transformer import (
    checksums,
    config_files,
    models,
    parallel,
    storage,
    store,
    tokenizer,
    weights,
)
from transformer.errors import UserError
from transformer.models.ensemble import Ensemble

Tree = dict


class Run(NamedTuple):
    """What a workdir has learnt; `steps` are those whose parameters were taken."""

    model: nn.Module
    vocabulary: tokenizer.Vocabulary
    parameters: Tree
    steps: list[int]


def read_config(workdir: Path) -> ml_collections.ConfigDict:
    """The resolved config that a workdir was trained with."""
    path = workdir / "config.json"
    if not path.is_file():
        kind = "holds no config.json" if workdir.is_dir() else "does not exist"
        kind = "is a file, expected a folder" if workdir.is_file() else kind
        raise UserError(
            f"{workdir} {kind}: give --workdir a folder that training has made, with its "
            "config.json (python launch.py --config=configs/quickstart.py makes runs/quickstart)"
        )

    def tuples(value: object) -> object:
        if isinstance(value, dict):
            return {name: tuples(v) for name, v in value.items()}
        return tuple(map(tuples, value)) if isinstance(value, list) else value

    try:
        values = json.loads(path.read_bytes())
        if isinstance(values, dict):
            return ml_collections.ConfigDict(tuples(values))
    except (ValueError, AttributeError, RecursionError) as error:  # no JSON; a key that is no name
        raise UserError(f"damaged: {path} is no config ({error})") from error
    raise UserError(f"damaged: {path} is no JSON object, but {str(values)[:40]!r}")


def read_vocabulary(workdir: Path, config: ml_collections.ConfigDict) -> tokenizer.Vocabulary:
    """A run's vocabulary; refused if it is damaged, or not the one that config.json names."""
    files = _vocabulary_files(workdir, config)
    for file in files:
        if not file.is_file():
            raise UserError(f"{file} is missing: nothing can be read without it")
    names = {file.name for file in files}
    if faults := checksums.damaged(files[0].parent, wanted=names.__contains__, alone=True):
        raise UserError(f"damaged: {', '.join(faults)}: nothing can be read without it")
    pieces = [tokenizer.load(file.read_bytes(), str(file)) for file in files]
    vocabulary = tokenizer.Vocabulary(pieces[0], pieces[-1])
    expected = config.vocabulary.fingerprint  # "" if config.json is lost: checkpoints name it, too
    if expected and vocabulary.fingerprint != expected:
        raise UserError(
            f"{files[0].parent} holds the vocabulary {vocabulary.fingerprint}, but this run was "
            f"trained with {expected}: ids would mean other pieces"
        )
    return vocabulary


def _vocabulary_files(workdir: Path, config: ml_collections.ConfigDict) -> list[Path]:
    names = ("shared",) if config.vocabulary.shared else ("source", "target")
    return [workdir / "vocabulary" / f"{name}.model" for name in names]


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
        other = storage.path(name)
        if not (other / "config.json").is_file():
            raise UserError(
                f"config.evaluate.ensemble: {other} holds no config.json: expected folders of "
                "trained runs, separated by commas"
            )
        own = config_files.with_defaults(read_config(other), config, other / "config.json")
        vocabulary = read_vocabulary(other, own)
        if config.vocabulary.fingerprint not in ("", vocabulary.fingerprint):
            files = ",".join(map(str, _vocabulary_files(other, own)))
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
        parallel.to_restore(abstract_parameters(model)),
        vocabulary.fingerprint,
        weights=asked.evaluate.weights,
        average_last=asked.evaluate.average_last,
        every=own.train.save_every,
    )
    return Run(model, vocabulary, parallel.own(parameters), steps)
