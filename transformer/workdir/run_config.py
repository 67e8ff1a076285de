"""Reads a workdir's config.json, which may be another user's, or another version's."""

import functools
import json
import logging
import os
from pathlib import Path

from ml_collections import ConfigDict

from transformer.errors import UserError
from transformer.runtime import json_files, paths
from transformer.workdir.config_files import (
    CHOICES,
    check_types,
    defaults_of,
    flatten,
    needed_keys,
)

# Keys that belong to a machine, not to a model. They are never taken from a workdir's config.json,
# which may be from an untrusted source: JAX executes the native code in a compilation cache.
MACHINE = (
    "compilation_cache",
    "data.data_dir",
    "parallel.",
    "evaluate.ensemble",
    "train.init_from",
    "vocabulary.model",
)
# These may be links out of a workdir, such as to a larger disk; nothing else in it may.
MAY_BE_LINKS = ("checkpoints", "params", "best", "vocabulary")
# Prefixes of the keys that the params depend on. Exceptions are in NOT_PARAMETERS.
PARAMETERS = ("task", "architecture", "model.", "vocabulary.")
NOT_PARAMETERS = (
    "model.dtype",
    "model.remat",
    "model.dropout_rate",
    "model.attention_dropout_rate",
    "model.activation_dropout_rate",
)


def check_workdir(workdir: Path) -> None:
    """Raises UserError for a workdir that is a file, or has a link that leads out of it.

    A workdir may be from somebody else: no mode shows the target of such a link, or writes to it.
    """
    if workdir.is_file():
        raise UserError(f"{workdir} is a file, expected the folder of a run")
    if paths.in_bucket(workdir):
        return
    root, allowed = os.path.realpath(workdir), {workdir / name for name in MAY_BE_LINKS}
    patterns = ("*", "evaluation/*", "profile/**/*")
    for place in (place for pattern in patterns for place in workdir.glob(pattern)):
        if place not in allowed and not Path(os.path.realpath(place)).is_relative_to(root):
            raise UserError(f"{place} is a link that leads out of {workdir}: remove it")


def read_config(workdir: Path) -> ConfigDict:
    """Returns the resolved config that a workdir was trained with; UserError if it has none."""
    check_workdir(workdir)
    path = workdir / "config.json"
    if not path.is_file():
        kind = "holds no config.json" if workdir.is_dir() else "does not exist"
        raise UserError(
            f"{workdir} {kind}: expected the folder of a trained run, with its config.json "
            "(python launch.py --config=configs/parallel_text.py creates runs/parallel_text)"
        )

    def tuples(value: object) -> object:  # JSON has lists only, configs have tuples only
        if isinstance(value, dict):
            return {name: tuples(v) for name, v in value.items()}
        return tuple(map(tuples, value)) if isinstance(value, list) else value

    values = json_files.read_object(path)
    try:
        return ConfigDict(tuples(values))
    except (ValueError, AttributeError, RecursionError) as error:  # an invalid key
        raise UserError(f"damaged: {path} is not a config ({error})") from error


def is_exported(folder: Path) -> bool:
    """Returns whether a folder has the config.json of a run, and not another program's."""
    file = folder / "config.json"
    return file.is_file() and {"task", "model"} <= json_files.read_object(file).keys()


def affects_params(key: str) -> bool:
    """Returns whether a run's params depend on a key."""
    return key.startswith(PARAMETERS) and key not in NOT_PARAMETERS


def read_with_defaults(workdir: Path) -> ConfigDict:
    """Returns the config that a workdir was trained with, with the keys of today.

    Keys of MACHINE take their defaults. The other keys may be from another version of this code.
    A key that config.json lacks takes its default; UserError if the params depend on the key. A key
    that is unknown today is dropped, except under model, vocabulary, optimizer.arguments and
    optimizer.schedule, whose keys vary. Missing and unknown keys are logged.
    """
    saved_config, file = read_config(workdir), workdir / "config.json"
    defaults = defaults_of(saved_config, str(file))
    check_types(saved_config, defaults, str(file))
    never_taken, always_kept = (*MACHINE, "versions."), (*PARAMETERS, *CHOICES.values())
    flat, today = flatten(saved_config), needed_keys(saved_config, defaults)
    saved = {key: value for key, value in flat.items() if not key.startswith(never_taken)}
    lacking = sorted(key for key in today.keys() - saved.keys() if not key.startswith(MACHINE))
    unknown = sorted(key for key in saved.keys() - today.keys() if not key.startswith(always_kept))
    for key in filter(affects_params, lacking):
        raise UserError(
            f"{file} has no {key}, on which the params depend: add the value that the run was "
            f"trained with (today's default is {json.dumps(today[key])})"
        )
    notes = [f"it lacks {', '.join(lacking)}, which take their defaults"] if lacking else []
    notes += [f"it has {', '.join(unknown)}, which nothing reads"] if unknown else []
    if notes:
        logging.info("%s is from another version of this code: %s", file, "; ".join(notes))
    nested = _groups(defaults)  # {'model.d_model': 512} -> {'model': {'d_model': 512}}
    for key, value in (today | saved).items():
        # 'model.d_model' sets nested['model']['d_model']; a missing group is created on the way.
        *groups, name = key.split(".")
        if key not in unknown:
            functools.reduce(lambda group, x: group.setdefault(x, {}), groups, nested)[name] = value
    return ConfigDict(nested)


def _groups(config: ConfigDict) -> dict[str, dict]:
    """Returns a config's groups as nested dicts without values; empty groups are kept."""
    return {key: _groups(x) for key, x in config.items() if isinstance(x, ConfigDict)}
