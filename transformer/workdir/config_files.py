"""Config files: loads them, checks keys and types, and fills in the defaults of older workdirs.

Every mistake is a UserError of one line that names the key, the value and what would be right.
"""

import difflib
import functools
import importlib.util
import inspect
import logging
import os
import traceback
from pathlib import Path

from ml_collections import ConfigDict

from transformer.errors import UserError
from transformer.registry import MODES, load
from transformer.runtime import json_files, paths

HERE = Path(__file__).resolve().parents[2]  # the folder of launch.py
CONFIGS = HERE / "configs"  # TASK.py there has all keys of a task
RUN = "run"  # in an exported folder: config.json and vocabulary/ of its run

FLOAT32_MAX = float.fromhex("0x1.fffffep+127")

KINDS = {
    int: "an integer",
    float: "a number",
    bool: "True or False",
    str: "a string",
    tuple: "a tuple",
    ConfigDict: "a group of keys",
}

# Keys that belong to a machine, not to a model. They are never taken from a workdir's config.json,
# which may be from an untrusted source: JAX executes the native code in a compilation cache.
MACHINE = (
    *("compilation_cache", "data.data_dir", "parallel.", "evaluate.ensemble", "train.init_from"),
    "vocabulary.model",
)
# What modes read and write in a workdir, with the files in evaluation/: none may be a link that
# leads outside. checkpoints/, best/ and vocabulary/ may be links, such as to a larger disk.
NO_LINKS = (
    *("config.json", "lock", "metrics.jsonl", "starts.jsonl", "evaluations.jsonl", "trackers.json"),
    *("evaluation", "tensorboard", "profile"),
)
# Prefixes of the keys that the params depend on. Exceptions are in NOT_PARAMETERS.
PARAMETERS = ("task", "architecture", "model.", "vocabulary.")
# {key: prefix of the keys that exist or not depending on its value}.
CHOICES = {
    "architecture": "model.",
    "optimizer.name": "optimizer.arguments.",
    "optimizer.schedule.name": "optimizer.schedule.",
}
NOT_PARAMETERS = (
    *("model.dtype", "model.remat", "model.dropout_rate", "model.attention_dropout_rate"),
    "model.activation_dropout_rate",
)


def load_config(file: str) -> ConfigDict:
    """Returns get_config() of `FILE.py`, or get_config(VARIANT) of `FILE.py:VARIANT`.

    A relative FILE is looked up in the current folder, then beside launch.py.
    """
    name, _, variant = file.partition(":")
    path = Path(name).expanduser()
    if not path.exists() and (HERE / path).exists():
        path = HERE / path
    if not path.exists():
        known = [file.stem for file in CONFIGS.glob("[!_]*.py")]  # else 'configs/' makes all alike
        nearest = difflib.get_close_matches(path.stem, known, 1)
        hint = (
            f"did you mean configs/{nearest[0]}.py?"
            if nearest
            else "expected such as configs/quickstart.py"
        )
        raise UserError(f"--config={name} does not exist; {hint}")
    if not path.is_file() or path.suffix != ".py":
        kind = "a folder" if path.is_dir() else "another file"
        raise UserError(
            f"--config={name} is {kind}, expected a Python file, such as configs/quickstart.py "
            "(for the config.json of a trained run give its --workdir)"
        )
    # Not by config_flags, which would bury the config's own message under tracebacks.
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:  # the user's code can raise anything
        raise UserError(f"--config={file}: {_where(error, path)}") from error
    get_config = getattr(module, "get_config", None)
    if not callable(get_config):
        raise UserError(
            f"--config={file}: {path} has no function get_config() that returns the config "
            "(see configs/quickstart.py)"
        )
    if variant and not inspect.signature(get_config).parameters:
        raise UserError(f"--config={file}: {path} has no variants, found {variant!r}")
    try:
        config = get_config(*filter(None, [variant]))
    except ValueError as error:  # the config rejects VARIANT; it cannot import UserError
        raise UserError(f"--config={file}: {_one_line(error)}") from error
    except Exception as error:
        raise UserError(f"--config={file}: {_where(error, path)}") from error
    if not isinstance(config, ConfigDict):
        raise UserError(
            f"--config={file}: get_config() returns a {type(config).__name__}, expected an "
            "ml_collections.ConfigDict"
        )
    return config


def _where(error: Exception, path: Path) -> str:
    """Returns an error in a config file as one line: 'line 3, `code`: NameError: ...'."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}, line {error.lineno}: {type(error).__name__}: {error.msg}"
    lines = traceback.extract_tb(error.__traceback__)
    # The innermost frame in the config itself: a library that it calls may have raised the error.
    frame = next((line for line in reversed(lines) if Path(line.filename) == path.resolve()), None)
    place = f"line {frame.lineno}, `{frame.line}`: " if frame else ""
    return f"{place}{type(error).__name__}: {_one_line(error)}"


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())


def check_links(workdir: Path) -> None:
    """Raises UserError for a link that leads out of a workdir.

    A workdir may be from somebody else: no mode shows the target of such a link, or writes to it.
    """
    if paths.in_bucket(workdir):
        return
    root, named = os.path.realpath(workdir), (workdir / name for name in NO_LINKS)
    for place in (*named, *(workdir / "evaluation").glob("*")):
        if not Path(os.path.realpath(place)).is_relative_to(root):
            raise UserError(f"{place} is a link that leads out of {workdir}: remove it")


def read_config(workdir: Path) -> ConfigDict:
    """Returns the resolved config that a workdir was trained with; UserError if it has none."""
    check_links(workdir)
    path = workdir / "config.json"
    if not path.is_file():
        kind = "holds no config.json" if workdir.is_dir() else "does not exist"
        kind = "is a file, expected a folder" if workdir.is_file() else kind
        raise UserError(
            f"{workdir} {kind}: expected the folder of a trained run, with its config.json "
            "(python launch.py --config=configs/quickstart.py creates runs/quickstart)"
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


def exported_run(folder: Path) -> Path | None:
    """Returns the folder in an exported one that holds the run's config.json; None without one.

    A format that has a config.json itself keeps the run's, and the vocabulary, in the folder `run`.
    """
    for run in (folder / RUN, folder):
        file = run / "config.json"
        if file.is_file() and {"task", "model"} <= json_files.read_object(file).keys():
            return run
    return None


def default_config(task: str = "translation") -> ConfigDict:
    """Returns the config with every key of a task and its default value."""
    return load_config(str(CONFIGS / f"{task}.py"))


def check_finite(config: ConfigDict) -> None:
    """Raises UserError for a number that is non-finite as float32."""
    for key, value in flatten(config).items():
        if isinstance(value, float) and not abs(value) <= FLOAT32_MAX:
            raise UserError(f"config.{key} is a finite number in float32, found {value}")


def check_types(config: ConfigDict, defaults: ConfigDict, what: str, prefix: str = "") -> None:
    """Raises UserError for a value whose type is not that of the default.

    An int is accepted for a float, and anything for a key without a default. `what` names the
    config's source in the message.
    """
    for key, default in defaults.items():
        value = config.get(key, default)
        if isinstance(default, ConfigDict) and isinstance(value, ConfigDict):
            check_types(value, default, what, f"{prefix}{key}.")
        elif type(value) is not type(default) and (type(value), type(default)) != (int, float):
            value = value.to_dict() if isinstance(value, ConfigDict) else value
            example = "" if isinstance(default, ConfigDict) else f", such as {default!r}"
            raise UserError(
                f"{what}: config.{prefix}{key} is {KINDS[type(default)]}{example}, found {value!r}"
            )


def is_of_parameters(key: str) -> bool:
    """Returns whether a run's params depend on a key."""
    return key.startswith(PARAMETERS) and key not in NOT_PARAMETERS


def needed_keys(config: ConfigDict, defaults: ConfigDict) -> dict[str, object]:
    """Returns the keys that a config must have, with their defaults.

    These are all, except those of the default architecture, optimizer or schedule if the config
    has another one: with optimizer.name = 'sgd', optimizer.arguments.b1 is not needed.
    """
    values, needed = flatten(config), flatten(defaults)
    choices = CHOICES.keys() & needed.keys()
    changed = [key for key in choices if values.get(key, needed[key]) != needed[key]]
    unneeded = tuple(CHOICES[key] for key in changed)
    return {key: x for key, x in needed.items() if key in CHOICES or not key.startswith(unneeded)}


def check_keys(config: ConfigDict, defaults: ConfigDict, what: str) -> None:
    """Raises UserError for a config that lacks a key; `what` names its source in the message."""
    keys = flatten(config)
    lacking = [key for key in needed_keys(config, defaults) if key not in keys]
    if lacking:
        raise UserError(
            f"{what} lacks config.{lacking[0]} ({len(lacking)} keys in all), which "
            f"{config.task}.get_config() of configs/{config.task}.py has"
        )


def with_defaults(saved_config: ConfigDict, defaults: ConfigDict, file: Path) -> ConfigDict:
    """Returns the config of a trained workdir, whose config.json (`file`) contains `saved_config`.

    Keys of MACHINE take their default. The other keys may be those of another version of this code.
    A key that config.json lacks takes its default; UserError if the params depend on the key. A key
    that is unknown today is dropped, except under model, vocabulary, optimizer.arguments and
    optimizer.schedule, whose keys vary. Missing and unknown keys are logged.
    """
    check_types(saved_config, defaults, str(file))
    never_taken = (*MACHINE, "versions.")
    flat = flatten(saved_config)
    saved = {key: value for key, value in flat.items() if not key.startswith(never_taken)}
    today = needed_keys(saved_config, defaults)
    always_kept = (*PARAMETERS, *CHOICES.values())
    # Keys of one mode, such as those in plan, are in no config.json.
    groups = [group for mode in MODES.values() if mode.keys for group in load(mode.keys)()]
    never_saved = (*MACHINE, *(f"{group}." for group in groups))
    lacking = sorted(key for key in today.keys() - saved.keys() if not key.startswith(never_saved))
    unknown = sorted(key for key in saved.keys() - today.keys() if not key.startswith(always_kept))
    for key in lacking:
        if is_of_parameters(key):
            raise UserError(
                f"{file} has no {key}, on which the params depend: add the value that the run was "
                f"trained with (today's default is {today[key]!r})"
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


def flatten(config: ConfigDict, prefix: str = "") -> dict[str, object]:
    """Returns a config as {'model.d_model': 512, ...}."""
    flat = {}
    for key, value in config.items():
        if isinstance(value, ConfigDict):
            flat |= flatten(value, f"{prefix}{key}.")
        else:
            flat[prefix + key] = value
    return flat


def _groups(config: ConfigDict) -> dict[str, dict]:
    """Returns the groups of a config without their keys; a group may be empty in a config, too."""
    return {key: _groups(x) for key, x in config.items() if isinstance(x, ConfigDict)}
