"""Config files, a workdir's config.json and --config.KEY=VALUE -> a config.

What cannot be one is a UserError of one line.
"""

import collections
import difflib
import functools
import importlib.util
import inspect
import logging
import sys
import traceback
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from absl import flags
from ml_collections import ConfigDict, config_flags

from transformer.errors import UserError

HERE = Path(__file__).resolve().parents[2]  # of launch.py
CONFIGS = HERE / "configs"  # each task's keys are in TASK.py

KINDS = {
    int: "a whole number",
    float: "a number",
    bool: "True or False",
    str: "a text",
    tuple: "a tuple",
    ConfigDict: "a group of keys",
}

# What belongs to a machine, not to a model. It is never taken from the config.json of a workdir,
# which a stranger may have written: JAX runs the native code that it finds in a compilation cache.
MACHINE = (
    *("compilation_cache", "data.data_dir", "parallel.", "evaluate.ensemble", "train.init_from"),
    "vocabulary.model",
)
# What the parameters depend on, and what of it they do not.
PARAMETERS = ("task", "architecture", "model.", "vocabulary.")
# A key, and the group of keys whose names depend on its value.
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
    """Runs `FILE.py` or `FILE.py:VARIANT` and returns its config.

    A relative FILE that the current folder does not have is looked for beside launch.py.
    """
    name, _, variant = file.partition(":")
    path = Path(name).expanduser()
    if not path.exists() and (HERE / path).exists():
        path = HERE / path
    if not path.exists():
        names = sorted(str(p.relative_to(HERE)) for p in HERE.glob("configs/[!_]*.py"))
        raise UserError(
            f"--config={name} does not exist{near(name, names)}; there are {', '.join(names)}"
        )
    if not path.is_file() or path.suffix != ".py":
        kind = "a folder" if path.is_dir() else "another file"
        raise UserError(
            f"--config={name} is {kind}, expected a Python file, such as configs/quickstart.py "
            "(the config.json of a trained run comes with its --workdir)"
        )
    # Not by config_flags: it would bury what the config says of a wrong variant under tracebacks.
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:  # whatever the user's code raises
        raise UserError(f"--config={file}: {_where(error, path)}") from error
    get_config = getattr(module, "get_config", None)
    if not callable(get_config):
        raise UserError(
            f"--config={file}: {path} has no function get_config(), which returns the config "
            "(configs/quickstart.py is an example)"
        )
    if variant and not inspect.signature(get_config).parameters:
        raise UserError(f"--config={file}: {path} has no variants, found {variant!r}")
    try:
        config = get_config(*filter(None, [variant]))
    except ValueError as error:  # configs know nothing of ours
        raise UserError(f"--config={file}: {_one_line(error)}") from error
    except Exception as error:  # likewise
        raise UserError(f"--config={file}: {_where(error, path)}") from error
    if not isinstance(config, ConfigDict):
        raise UserError(
            f"--config={file}: get_config() returns a {type(config).__name__}, expected an "
            "ml_collections.ConfigDict"
        )
    return config


def _where(error: Exception, path: Path) -> str:
    """What is wrong with a config file, and in which of its lines."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}, line {error.lineno}: {type(error).__name__}: {error.msg}"
    lines = traceback.extract_tb(error.__traceback__)
    at = next((line for line in reversed(lines) if Path(line.filename) == path.resolve()), None)
    place = f"line {at.lineno}, `{at.line}`: " if at else ""
    return f"{place}{type(error).__name__}: {_one_line(error)}"


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())


def default_config(task: str = "translation") -> ConfigDict:
    """The config that has all keys of a task; its values are the defaults."""
    return load_config(str(CONFIGS / f"{task}.py"))


def check_finite(config: ConfigDict) -> None:
    """UserError for numbers that are not finite as float32."""
    for key, value in flatten(config).items():
        if isinstance(value, float) and not abs(value) <= float(np.finfo(np.float32).max):
            raise UserError(f"config.{key} is a finite number, as float32 has it, found {value}")


def check_types(config: ConfigDict, defaults: ConfigDict, what: str, prefix: str = "") -> None:
    """Refuses values of another type than the default's. Keys without a default may hold anything,
    and a whole number is a number, too."""
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
    """Returns whether a run's parameters depend on a key."""
    return key.startswith(PARAMETERS) and key not in NOT_PARAMETERS


def needed_keys(config: ConfigDict, defaults: ConfigDict) -> dict[str, object]:
    """The keys that a config has to have, with their defaults: all, but for those that belong to
    another architecture, optimizer or schedule than the config's."""
    values, needed = flatten(config), flatten(defaults)
    choices = CHOICES.keys() & needed.keys()
    others = tuple(CHOICES[x] for x in choices if values.get(x, needed[x]) != needed[x])
    return {key: x for key, x in needed.items() if key in CHOICES or not key.startswith(others)}


def check_keys(config: ConfigDict, defaults: ConfigDict, what: str) -> None:
    """Refuses a config that lacks a key."""
    keys = flatten(config)
    lacking = [key for key in needed_keys(config, defaults) if key not in keys]
    if lacking:
        raise UserError(
            f"{what} lacks config.{lacking[0]} ({len(lacking)} keys in all): begin with those of "
            f"configs/{config.task}.py, as in config = {config.task}.get_config()"
        )


def with_defaults(made: ConfigDict, defaults: ConfigDict, file: Path) -> ConfigDict:
    """Returns the config of a trained workdir, whose config.json (`file`) is `made`.

    Machine-local keys take their default. So does a key that config.json lacks because another
    version of this code wrote it, if the parameters do not depend on it; a key that this code does
    not know is left out. Both are logged. UserError where the parameters do depend on it.
    """
    check_types(made, defaults, str(file))
    local = (*MACHINE, "versions.")
    old = {key: value for key, value in flatten(made).items() if not key.startswith(local)}
    today = needed_keys(made, defaults)
    kept = (*PARAMETERS, *CHOICES.values())
    lacking = sorted(key for key in today.keys() - old.keys() if not key.startswith(MACHINE))
    unknown = sorted(key for key in old.keys() - today.keys() if not key.startswith(kept))
    for key in lacking:
        if is_of_parameters(key):
            raise UserError(
                f"{file} has no {key}, on which the parameters depend: add it there, with the "
                f"value that the run was trained with (today's default is {today[key]!r})"
            )
    said = [f"it lacks {', '.join(lacking)}, which take their defaults"] if lacking else []
    said += [f"it has {', '.join(unknown)}, which nothing reads"] if unknown else []
    if said:
        logging.info("%s is of another version of this code: %s", file, "; ".join(said))
    nested = {}
    for key, value in (today | old).items():
        *groups, name = key.split(".")
        if key not in unknown:
            functools.reduce(lambda group, x: group.setdefault(x, {}), groups, nested)[name] = value
    return ConfigDict(nested)


def override(config: ConfigDict, arguments: list[str]) -> ConfigDict:
    """Sets the keys that --config.KEY=VALUE arguments name."""
    types = flatten(config)
    for argument in arguments:
        name, has_value, _ = argument.partition("=")
        key = name.removeprefix("--no").removeprefix("--").removeprefix("config.")
        if key not in types:
            group = [f"config.{k}" for k in types if k.startswith(f"{key}.")]
            hint = f"; there are {', '.join(group)}" if group else near_key(key, types)
            raise UserError(f"{argument}: there is no key config.{key}{hint}")
        # --config.KEY and --noconfig.KEY are how absl spells True and False.
        complete = isinstance(types[key], bool) if not has_value else name.startswith("--config")
        if not complete:
            raise UserError(f"{argument}: expected --config.{key}=VALUE, such as {types[key]!r}")
    values = flags.FlagValues()
    config_flags.DEFINE_config_dict("config", config, flag_values=values, sys_argv=arguments)
    try:
        values([sys.argv[0], *arguments])
    except flags.IllegalFlagValueError as error:
        named = [a for a in arguments if a.partition("=")[0] in str(error)]
        said = [a for a in named if repr(a.partition("=")[2]) in str(error)]
        wrong = (said or named)[-1]  # a flag may be given twice
        key = wrong.partition("=")[0].removeprefix("--config.")
        value = types[key]
        raise UserError(
            f"{wrong}: config.{key} is {KINDS[type(value)]}, such as {value!r}"
        ) from error
    return values.config


def flatten(config: ConfigDict, prefix: str = "") -> dict[str, object]:
    """{'model.d_model': 512, ...}."""
    flat = {}
    for key, value in config.items():
        if isinstance(value, ConfigDict):
            flat |= flatten(value, f"{prefix}{key}.")
        else:
            flat[prefix + key] = value
    return flat


def near(found: str, right: Iterable[str]) -> str:
    """A hint at the right name that is most like the one found, if one is."""
    nearest = difflib.get_close_matches(found, list(right), 1)
    return f"; did you mean {nearest[0]}?" if nearest else ""


def near_key(found: str, keys: Iterable[str], flag_names: Iterable[str] = ()) -> str:
    """A hint at the keys, or flags, that `found` is most like: decode.beam_width for beam_widht."""
    spelt = collections.defaultdict(list, {name: [f"--{name}"] for name in flag_names})
    prefix = "--config." if flag_names else "config."
    for key in keys:
        for spelling in {key, f"config.{key}", key.rpartition(".")[2]}:
            spelt[spelling].append(prefix + key)
    nearest = difflib.get_close_matches(found, spelt, 1)
    return f"; did you mean {' or '.join(spelt[nearest[0]])}?" if nearest else ""
