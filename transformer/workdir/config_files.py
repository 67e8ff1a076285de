"""Finds and loads config files; a mistake in a file is a UserError of one line."""

import contextlib
import importlib.util
import inspect
import sys
import threading
import traceback
import types
from collections.abc import Iterator
from importlib.machinery import ModuleSpec
from pathlib import Path

from ml_collections import ConfigDict

from transformer.errors import UserError, did_you_mean

PACKAGED = Path(__file__).resolve().parents[1] / "packaged"  # of an installed package
# The folder of launch.py and configs/.
ROOT = PACKAGED if PACKAGED.is_dir() else PACKAGED.parents[1]
CONFIGS = ROOT / "configs"  # its TASK.py has all keys of a task
LOADING = threading.RLock()  # again by a config that loads another


def load_config(file: str) -> ConfigDict:
    """Returns get_config() of a config `FILE`, get_config(VARIANT) of `FILE:VARIANT`.

    FILE is a path, the name of a file in configs/, or a module of a package (`find`).
    """
    return load(file)[0]


def default_config(task: str = "translation") -> ConfigDict:
    """Returns a task's config, with all keys and defaults."""
    return load_config(str(CONFIGS / f"{task}.py"))


def load(file: str) -> tuple[ConfigDict, dict]:
    """Returns a config file's config, as `load_config` does, and its table KEYS or {}."""
    name, _, variant = file.partition(":")
    if not (spec := find(name)):
        known = [file.stem for file in CONFIGS.glob("[!_]*.py")]
        raise UserError(
            f"--config={name} must be an existing Python file, or the name of one in configs/ (a "
            f"trained run's is read by --workdir=DIR){did_you_mean(Path(name).stem, known)}"
        )
    # config_flags would bury the config's own message under tracebacks.
    path = Path(spec.origin)
    module = importlib.util.module_from_spec(spec)
    try:
        with LOADING, _configs_importable():
            spec.loader.exec_module(module)
            if variant and not inspect.signature(module.get_config).parameters:
                raise ValueError(f"{path} has no variants, found {variant!r}")
            config = module.get_config(*filter(None, [variant]))
        if not isinstance(config, ConfigDict):
            raise ValueError(f"get_config() must return a ConfigDict, found {config!r:.40}")
    except Exception as error:  # of any kind, because a config is the user's code
        raise UserError(f"--config={file}: {_explained(error, path)}") from error
    return config, getattr(module, "KEYS", {})


def find(name: str) -> ModuleSpec | None:
    """Finds a FILE.py, here or beside launch.py, a NAME in configs/, or a MODULE of a package."""
    for path in (Path(name).expanduser(), ROOT / name, CONFIGS / f"{name}.py"):
        if path.is_file() and path.suffix == ".py":
            return importlib.util.spec_from_file_location(path.stem, path)
    with contextlib.suppress(ImportError, ValueError):
        spec = importlib.util.find_spec(name) if "." in name else None
        return spec if spec and spec.has_location else None
    return None


@contextlib.contextmanager
def _configs_importable() -> Iterator[None]:
    """Within it, `from configs import ...` imports from the folder beside launch.py.

    Outside it, a package of the user may have that name. One thread at a time, because
    `sys.modules` is of the whole process.
    """
    pop = lambda: {x: sys.modules.pop(x) for x in [*sys.modules] if f"{x}.".startswith("configs.")}
    others = pop()
    sys.modules["configs"] = types.ModuleType("configs")
    sys.modules["configs"].__path__ = [str(ROOT / "configs")]
    try:
        yield
    finally:
        pop()
        sys.modules.update(others)


def _explained(error: Exception, path: Path) -> str:
    """Returns an error in a config file as one line: 'line 3, `code`: NameError: ...'."""
    if type(error) is ValueError:  # ours, or a config's own, because it cannot import UserError
        return str(error)
    # The innermost frame in the config itself, because a library may have raised the error.
    lines = traceback.extract_tb(error.__traceback__)
    lines = [x for x in lines if Path(x.filename).resolve() == path.resolve()]
    places = [f"line {x.lineno}, `{x.line}`: " for x in lines]
    return f"{places[-1] if places else ''}{type(error).__name__}: {error}"
