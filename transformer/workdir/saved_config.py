"""Writes and reads a workdir's config.json, and checks the changes of a resumed run.

A workdir may be from another user, or from another version of this code.
"""

import importlib.metadata
import json
import logging
import os
from pathlib import Path

from ml_collections import ConfigDict

from transformer.errors import UserError
from transformer.runtime import paths
from transformer.workdir import key_tables
from transformer.workdir.key_tables import flatten

PACKAGES = ("jax", "flax", "optax", "orbax-checkpoint", "sentencepiece", "tensorflow-datasets")
# Keys that belong to a machine, not to a model. They are never taken from a workdir's config.json.
# It may be untrusted, and JAX executes the native code in a compilation cache.
MACHINE = (
    "compilation_cache",
    "data.data_dir",
    "parallel.",
    "evaluate.ensemble",
    "train.init_from",
    "vocabulary.model",
    *("decode.terms", "decode.forbidden", "decode.language_model"),
)
# Prefixes of keys that depend on the architecture, optimizer or schedule.
VARYING = ("model.", "optimizer.arguments.", "optimizer.schedule.")
# The only entries that may be links out of a workdir, such as to a larger disk.
MAY_BE_LINKS = ("checkpoints", "params", "best", "vocabulary")
# The params depend on keys with a prefix in PARAMETERS and no suffix in NOT_PARAMETERS.
PARAMETERS = ("task", "architecture", "model.", "vocabulary.")
NOT_PARAMETERS = ("dtype", "remat", "dropout_rate")
# Keys, or prefixes of keys, that may change when a run is resumed: number of steps, logging,
# saving, layout, evaluation, and the learning rate schedule, to lower the rate. A task's FREE has
# further keys.
FREE = (
    "train.",  # all but train.seed
    "optimizer.schedule.",
    "parallel.",
    "evaluate.",
    "compilation_cache",
    "kernels",
    # The fingerprint of the texts may not change.
    *("data.data_dir", "data.directory", "data.train", "data.validation", "data.test"),
    *("loss.blocks", "model.dtype", "model.remat", "vocabulary.model"),
)


def write_config(config: ConfigDict, workdir: Path) -> None:
    """Writes config.json from process 0: the resolved config and the versions of packages.

    The coordinator and the process ids are left out, because they change with each start.
    """
    from transformer.distributed import processes  # imports JAX

    if not processes.is_first():
        return
    config = ConfigDict(config)
    config.parallel.update(coordinator="", num_processes=0, process_id=0)
    paths.write_json(workdir / "config.json", {**config.to_dict(), "versions": versions()})


def versions() -> dict[str, str]:
    """Returns the versions of packages that results may depend on."""
    return {name: importlib.metadata.version(name) for name in PACKAGES}


def check_workdir(workdir: Path) -> None:
    """Raises UserError for a workdir that is a file, or has a link that leads out of it.

    A workdir may be from another user, so no mode may read or write the target of such a link.
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
        raise UserError(f"{path} does not exist: expected the folder of a trained run")

    def tuples(value: object) -> object:  # JSON has lists, configs have tuples
        if isinstance(value, dict):
            return {name: tuples(v) for name, v in value.items()}
        return tuple(map(tuples, value)) if isinstance(value, list) else value

    values = paths.read_json_object(path)
    try:
        return ConfigDict(tuples(values))
    except (ValueError, AttributeError, RecursionError) as error:  # an invalid key
        raise UserError(f"damaged: {path} is not a config ({error})") from error


def is_exported(folder: Path) -> bool:
    """Returns whether a folder has a run's config.json, and not another program's."""
    file = folder / "config.json"
    return file.is_file() and {"task", "model"} <= paths.read_json_object(file).keys()


def affects_params(key: str) -> bool:
    """Returns whether a run's params depend on a key."""
    return key.startswith(PARAMETERS) and not key.endswith(NOT_PARAMETERS)


def read_with_defaults(workdir: Path) -> ConfigDict:
    """Returns the config that a workdir was trained with, with the keys of this version.

    Keys of MACHINE take their defaults. A key that config.json lacks takes its default; UserError
    if the params depend on it. An unknown key is dropped, unless it has a prefix in VARYING.
    Missing and unknown keys are logged.
    """
    saved_config = read_config(workdir)
    file = workdir / "config.json"
    never_taken = (*MACHINE, "versions.")
    saved = {key: x for key, x in flatten(saved_config).items() if not key.startswith(never_taken)}
    try:
        defaults, table = key_tables.task_table(saved_config)
        today = flatten(defaults)
        for key in saved.keys() & {key.rpartition(".")[0] for key in today}:
            raise UserError(f"config.{key} must be a group of keys, found {saved[key]!r}")
        lacking = sorted(key for key in today.keys() - saved.keys() if not key.startswith(MACHINE))
        for key in filter(affects_params, lacking):
            raise UserError(
                f"it has no {key}, on which the params depend: add the value that the run was "
                f"trained with (today's default is {json.dumps(today[key])})"
            )
        unknown = sorted(key for key in saved.keys() - today.keys() if not key.startswith(VARYING))
        known = {key: x for key, x in saved.items() if key not in unknown}
        key_tables.check_values(known, table)
        config = defaults.copy_and_resolve_references()
        config.update_from_flattened_dict(known)
    except (UserError, KeyError, TypeError) as error:  # an invalid value
        raise UserError(f"{file}: {error}") from error
    if lacking:
        logging.info("%s lacks %s, which take their defaults", file, ", ".join(lacking))
    if unknown:
        logging.info("%s has %s, which nothing reads", file, ", ".join(unknown))
    return config


def check_same_run(
    config: ConfigDict, saved_config: ConfigDict, workdir: Path, free: tuple[str, ...]
) -> None:
    """Raises UserError if a resumed run's config differs from the saved config.

    Keys with a prefix in `free` may differ; a change of the learning rate schedule is logged. An
    empty fingerprint or language is not compared. Other keys that `saved_config` lacks are logged.
    """
    from transformer.models import boxes  # imports JAX

    # Compare parts of boxes with all their fields, defaults included.
    written = lambda x: {f"model.{k}": v for k, v in boxes.written_out(x.get("model", {})).items()}
    saved, current = (flatten(x) | written(x) for x in (saved_config, config))
    fixed = [key for key in current if key == "train.seed" or not key.startswith(free)]
    dropped = [x for x in saved if x.startswith("optimizer.arguments.") and x not in current]
    # Keys on which other keys depend come first.
    for key in ["task", "architecture", "optimizer.name", *fixed, *dropped]:
        is_empty = key.endswith(("fingerprint", "_language")) and not current[key]
        # An optimizer has the arguments it is given: one that the saved run lacks is a change.
        is_argument = key.startswith("optimizer.arguments.") and "optimizer.name" in saved
        if (key in saved or is_argument) and current.get(key) != saved.get(key) and not is_empty:
            old = repr(saved[key]) if key in saved else "(no value)"
            now = f"it is {current[key]!r}" if key in current else "it has no value"
            raise UserError(
                f"{workdir} was trained with config.{key}={old}, now {now}: use the old value, or "
                "give another --workdir"
            )
    schedules = [dict(x.get("optimizer", {}).get("schedule", {})) for x in (saved_config, config)]
    if schedules[0] != schedules[1]:
        logging.warning("the learning rate's schedule was %s, now it is %s", *schedules)
    if new := [f"{key}={current[key]!r}" for key in fixed if key not in saved]:
        logging.warning("config.json has no %s: resuming with these values", ", ".join(sorted(new)))
