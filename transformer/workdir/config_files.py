"""Config files: loads them, and checks their keys and types.

Every mistake is a UserError of one line that names the key, the value and what would be right.
"""

import contextlib
import difflib
import importlib.util
import inspect
import sys
import traceback
import types
from collections.abc import Iterator
from importlib.machinery import ModuleSpec
from pathlib import Path

from ml_collections import ConfigDict

from transformer.errors import UserError
from transformer.registry import TASKS

PACKAGED = Path(__file__).resolve().parents[1] / "packaged"  # of an installed package
# The folder of launch.py.
HERE = PACKAGED if PACKAGED.is_dir() else PACKAGED.parents[1]
CONFIGS = HERE / "configs"  # TASK.py there has all keys of a task

FLOAT32_MAX = float.fromhex("0x1.fffffep+127")

KINDS = {
    int: "an integer",
    float: "a number",
    bool: "True or False",
    str: "a string",
    tuple: "a tuple",
    ConfigDict: "a group of keys",
}

# {key: prefix of the keys that its value decides on}: 'sgd' has other arguments than 'adam'.
CHOICES = {
    "architecture": "model.",
    "optimizer.name": "optimizer.arguments.",
    "optimizer.schedule.name": "optimizer.schedule.",
}


def load_config(file: str) -> ConfigDict:
    """Returns get_config() of a config `FILE`, get_config(VARIANT) of `FILE:VARIANT`.

    FILE is a path, the name of one in configs/, or a module of a package (`find`).
    """
    name, _, variant = file.partition(":")
    if not (spec := find(name)):
        # Compares stems: with 'configs/' and '.py' around them, any two names would be alike.
        known = [file.stem for file in CONFIGS.glob("[!_]*.py")]
        nearest = difflib.get_close_matches(Path(name).stem, known, 1) or ["parallel_text"]
        raise UserError(
            f"--config={name} must be an existing Python file, such as configs/{nearest[0]}.py, or "
            f"a name there, such as {nearest[0]} (that of a trained run is read by its --workdir)"
        )
    # Not by config_flags, which would bury the config's own message under tracebacks.
    path = Path(spec.origin)
    module = importlib.util.module_from_spec(spec)
    try:
        with _configs_importable():
            spec.loader.exec_module(module)
            if not callable(getattr(module, "get_config", None)):
                raise ValueError(f"{path} has no function get_config() that returns the config")
            if variant and not inspect.signature(module.get_config).parameters:
                raise ValueError(f"{path} has no variants, found {variant!r}")
            config = module.get_config(*filter(None, [variant]))
        if not isinstance(config, ConfigDict):
            kind = type(config).__name__
            raise ValueError(f"get_config() must return an ml_collections.ConfigDict, not a {kind}")
    except Exception as error:  # the user's code can raise anything
        raise UserError(f"--config={file}: {_explained(error, path)}") from error
    return config


def find(name: str) -> ModuleSpec | None:
    """Finds a FILE.py, here or beside launch.py; a NAME of configs/; a MODULE of a package."""
    for path in (Path(name).expanduser(), HERE / name, CONFIGS / f"{name}.py"):
        if path.is_file() and path.suffix == ".py":
            return importlib.util.spec_from_file_location(path.stem, path)
    with contextlib.suppress(ImportError, ValueError):
        spec = importlib.util.find_spec(name) if "." in name else None
        return spec if spec and spec.has_location else None
    return None


@contextlib.contextmanager
def _configs_importable() -> Iterator[None]:
    """Within it, `from configs import ...` is of the folder beside launch.py.

    An installed package has that folder within itself, and leaves the name to the user's own.
    """
    pop = lambda: {x: sys.modules.pop(x) for x in [*sys.modules] if f"{x}.".startswith("configs.")}
    folder, others = str(HERE / "configs"), {}
    if folder not in getattr(sys.modules.get("configs"), "__path__", ()):
        others = pop()
        sys.modules["configs"] = types.ModuleType("configs")
        sys.modules["configs"].__path__ = [folder]
    try:
        yield
    finally:
        if HERE == PACKAGED:
            pop()
            sys.modules.update(others)


def _explained(error: Exception, path: Path) -> str:
    """Returns an error in a config file as one line: 'line 3, `code`: NameError: ...'."""
    message = " ".join(str(error).split())
    if type(error) is ValueError:  # ours, or the config's of a variant: it cannot import UserError
        return message
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}, line {error.lineno}: {type(error).__name__}: {error.msg}"
    lines = traceback.extract_tb(error.__traceback__)
    # The innermost frame in the config itself: a library that it calls may have raised the error.
    frame = next((line for line in reversed(lines) if Path(line.filename) == path.resolve()), None)
    place = f"line {frame.lineno}, `{frame.line}`: " if frame else ""
    return f"{place}{type(error).__name__}: {message}"


def default_config(task: str = "translation") -> ConfigDict:
    """Returns the config with every key of a task and its default value."""
    return load_config(str(CONFIGS / f"{task}.py"))


def defaults_of(config: ConfigDict, what: str) -> ConfigDict:
    """Returns the `default_config` of a config's task; UserError if it names none.

    `what` names the config's source in the message.
    """
    if (task := config.get("task", "translation")) not in TASKS:
        raise UserError(
            f"{what}: config.task must be one of {', '.join(TASKS)}, found {task!r} (start your "
            "config from one of those in configs/, as in config = translation.get_config())"
        )
    return default_config(task)


def check_finite(config: ConfigDict) -> None:
    """Raises UserError for a number that is non-finite as float32."""
    for key, value in flatten(config).items():
        # Not `>`, which is False for NaN.
        if isinstance(value, float) and not abs(value) <= FLOAT32_MAX:
            raise UserError(f"config.{key} must be a finite number in float32, found {value}")


def check_types(config: ConfigDict, defaults: ConfigDict, what: str, prefix: str = "") -> None:
    """Raises UserError for a value whose type is not that of the default.

    An int is accepted for a float, and anything for a key without a default. `what` names the
    config's source in the message.
    """
    for key, default in defaults.items():
        value = config.get(key, default)
        if isinstance(default, ConfigDict) and isinstance(value, ConfigDict):
            check_types(value, default, what, f"{prefix}{key}.")
        # By type(), because isinstance takes True for an integer.
        elif type(value) is not type(default) and (type(value), type(default)) != (int, float):
            value = value.to_dict() if isinstance(value, ConfigDict) else value
            right = kind_of(default)
            raise UserError(f"{what}: config.{prefix}{key} must be {right}, found {value!r}")


def kind_of(default: object) -> str:
    """Says what a value of a key with this default must be: 'an integer, such as 3'."""
    kind = KINDS[type(default)]
    return kind if isinstance(default, ConfigDict) else f"{kind}, such as {default!r}"


def needed_keys(config: ConfigDict, defaults: ConfigDict) -> dict[str, object]:
    """Returns the keys that a config must have, with their defaults.

    All keys of the defaults are needed, except those of the default architecture, optimizer or
    schedule where the config names another: 'sgd' as optimizer.name needs no
    optimizer.arguments.b1.
    """
    values, needed = flatten(config), flatten(defaults)
    changed = [x for x in CHOICES if x in needed and values.get(x, needed[x]) != needed[x]]
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


def flatten(config: ConfigDict, prefix: str = "") -> dict[str, object]:
    """Returns a config as {'model.d_model': 512, ...}."""
    flat = {}
    for key, value in config.items():
        if isinstance(value, ConfigDict):
            flat |= flatten(value, f"{prefix}{key}.")
        else:
            flat[prefix + key] = value
    return flat
