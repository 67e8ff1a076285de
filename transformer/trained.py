"""A trained workdir -> its config, vocabulary, model and parameters."""

import functools
import json
from pathlib import Path
from typing import NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
import ml_collections

from transformer import checkpoint, checksums, models, parallel, storage, tokenizer
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
        raise ValueError(
            f"{workdir} holds no config.json: give --workdir a folder that training has made "
            "(python launch.py --config=configs/quickstart.py makes runs/quickstart)"
        )

    def tuples(value: object) -> object:
        if isinstance(value, dict):
            return {name: tuples(v) for name, v in value.items()}
        return tuple(map(tuples, value)) if isinstance(value, list) else value

    try:
        values = json.loads(path.read_bytes())
    except ValueError as error:
        raise ValueError(f"damaged: {path} is no JSON ({error})") from error
    return ml_collections.ConfigDict(tuples(values))


def read_vocabulary(workdir: Path, config: ml_collections.ConfigDict) -> tokenizer.Vocabulary:
    """A run's vocabulary; refused if it is damaged, or not the one that config.json names."""
    files = _vocabulary_files(workdir, config)
    for file in files:
        if not file.is_file():
            raise ValueError(f"{file} is missing: nothing can be read without it")
    names = {file.name for file in files}
    if faults := checksums.damaged(files[0].parent, wanted=names.__contains__, alone=True):
        raise ValueError(f"damaged: {', '.join(faults)}: nothing can be read without it")
    pieces = [tokenizer.load(file.read_bytes(), str(file)) for file in files]
    vocabulary = tokenizer.Vocabulary(pieces[0], pieces[-1])
    if vocabulary.fingerprint != config.vocabulary.fingerprint:
        raise ValueError(
            f"{files[0].parent} holds the vocabulary {vocabulary.fingerprint}, but this run was "
            f"trained with {config.vocabulary.fingerprint}: ids would mean other pieces"
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
    for name in filter(None, map(str.strip, config.evaluate.ensemble.split(","))):
        other = storage.path(name)
        own = read_config(other)
        if read_vocabulary(other, own).fingerprint != config.vocabulary.fingerprint:
            files = ",".join(map(str, _vocabulary_files(workdir, config)))
            raise ValueError(
                f"config.evaluate.ensemble: {other} has another vocabulary than {workdir}; train "
                f"with --config.vocabulary.model={files}"
            )
        members.append(_load_one(other, own, config))
    if len(members) == 1:
        return members[0]
    model = Ensemble(tuple(member.model for member in members))
    parameters = {f"members_{i}": member.parameters for i, member in enumerate(members)}
    steps = [step for member in members for step in member.steps]
    return Run(model, members[0].vocabulary, parameters, steps)


def _load_one(
    workdir: Path, own: ml_collections.ConfigDict, asked: ml_collections.ConfigDict
) -> Run:
    vocabulary = read_vocabulary(workdir, own)
    own.model.dtype = asked.model.dtype
    model = build_model(own, vocabulary)
    parameters, steps = checkpoint.load(
        workdir,
        parallel.to_restore(abstract_parameters(model)),
        vocabulary.fingerprint,
        weights=asked.evaluate.weights,
        average_last=asked.evaluate.average_last,
        every=own.train.save_every,
    )
    return Run(model, vocabulary, parallel.own(parameters), steps)
