"""Reads the file of a sweep: rows of configs and seeds -> runs, each a command line of launch.py.

config = "configs/multi30k.py"      # for rows without their own
seeds = [0, 1, 2]                   # train.seed, likewise; by default [0]

[overrides]                         # keys of the config, in all rows
train.num_steps = 1000

[rows.base]                         # the first row: the baseline

[rows.rotary]
model.positions = "rotary"          # any key of the config except train.seed
seeds = [0]
"""

import re
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ml_collections import ConfigDict

from transformer.errors import UserError, did_you_mean
from transformer.modes import command_line, prepare
from transformer.tasks.task import load_task
from transformer.workdir.config_files import ROOT

ROW = {"config": str, "seeds": list}  # besides keys of the config
FILE = {**ROW, "overrides": dict, "rows": dict}
KINDS = {str: "a string", list: "an array", dict: "a table"}


class Run(NamedTuple):
    """A row's run with one seed."""

    row: str
    seed: int
    workdir: Path
    arguments: list[str]  # of launch.py
    config: ConfigDict

    @property
    def name(self) -> str:
        """Returns the name of the workdir, such as rotary-seed0."""
        return self.workdir.name

    @property
    def log(self) -> Path:
        """Returns the file of the process's output, beside the workdir."""
        return self.workdir.with_name(f"{self.name}.log")


class Row(NamedTuple):
    """A row of the table: runs that differ only in their seed."""

    name: str
    config: str  # as in --config
    overrides: dict[str, Any]  # keys that this row sets
    runs: list[Run]


def read(file: Path, workdir: Path, arguments: Sequence[str] = ()) -> list[Row]:
    """Returns the rows of a file; `arguments`, --config.KEY=VALUE, hold for all of them.

    A relative FILE is looked up in the current folder, then beside launch.py. UserError if
    launch.py would refuse a row before it prepares its data.
    """
    place = file if file.exists() or not (ROOT / file).exists() else ROOT / file
    try:
        values = tomllib.loads(place.read_text("utf-8"))
    except OSError as error:
        raise UserError(f"--mode=sweep {file}: {error.strerror}") from error
    except ValueError as error:  # bad TOML, or not UTF-8
        raise UserError(f"{file} is not TOML: {error}") from error
    _check_kinds(values, FILE, f"{file}: ")
    if unknown := [key for key in values if key not in FILE]:
        hint = did_you_mean(unknown[0], FILE)
        raise UserError(f"{file}: there is no key {unknown[0]}, only {', '.join(FILE)}{hint}")
    if not values.get("rows"):
        raise UserError(f"{file} has no rows, expected one such as [rows.base]")
    rows = []
    for name, row in values["rows"].items():
        try:
            rows.append(_row(name, row, values, workdir, arguments))
        except UserError as error:
            raise UserError(f"{file}: row {name}: {error}") from error
    scored = {load_task(row.runs[0].config.task).SCORE["best_by"]: row.name for row in rows}
    if len(scored) > 1:
        which = ", ".join(f"{name} by {score}" for score, name in scored.items())
        raise UserError(f"{file}: rows must have the same score, found {which}")
    return rows


def _row(name: str, row: object, values: dict, workdir: Path, arguments: Sequence[str]) -> Row:
    """Returns a row after the checks of its config."""
    if not isinstance(row, dict):
        raise UserError(f"must be a table, such as [rows.{name}], found {row!r}")
    if not re.fullmatch(r"\w[\w.-]*", name):  # the beginning of a folder's name
        raise UserError("its name must be of letters, digits, '_', '-' and '.'")
    _check_kinds(row, ROW)
    config = row.get("config", values.get("config", ""))
    seeds = row.get("seeds", values.get("seeds", [0]))
    if not config:
        raise UserError('neither it nor the file has a config, such as config = "configs/FILE.py"')
    is_seed = lambda x: type(x) is int and x >= 0
    if not (seeds and all(map(is_seed, seeds)) and len({*seeds}) == len(seeds)):
        raise UserError(f"seeds must be different integers, at least 0, found {seeds}")
    row_keys = dict(_flat({key: x for key, x in row.items() if key not in ROW}))
    everything = dict(_flat(values.get("overrides", {}))) | row_keys
    overrides = [*(_argument(key, x) for key, x in everything.items()), *arguments]
    if given := [x for x in overrides if command_line.key_of(x) == "train.seed"]:
        raise UserError(f"{given[0]}: seeds are set by `seeds`, of the row or the file")
    runs = []
    for seed in seeds:
        place = workdir / f"{name}-seed{seed}"
        command = [f"--config={config}", f"--workdir={place}", *overrides]
        command.append(f"--config.train.seed={seed}")
        runs.append(Run(name, seed, place, command, command_line.parse(command)[2]))
    prepare.check(runs[0].config)
    return Row(name, config, row_keys, runs)


def _check_kinds(values: dict, kinds: dict[str, type], what: str = "") -> None:
    """Raises UserError for a value that is not of its kind."""
    for key, kind in kinds.items():
        if key in values and not isinstance(values[key], kind):
            raise UserError(f"{what}{key} must be {KINDS[kind]}, found {values[key]!r}")


def _flat(values: dict, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yields ('model.d_model', 512) of {'model': {'d_model': 512}}, or {'model.d_model': 512}."""
    for key, value in values.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


def _argument(key: str, value: object) -> str:
    """Returns --config.KEY=VALUE for a command line."""
    value = tuple(value) if isinstance(value, list) else value
    if not isinstance(value, str | int | float | tuple):  # TOML also has dates
        raise UserError(f"{key} must be a string, a number, true, false or an array, found {value}")
    return f"--config.{key}={value}"
