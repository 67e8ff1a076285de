"""Reads the logs and results of a finished or unfinished run from its workdir."""

import math
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np
from ml_collections import ConfigDict

from transformer.checkpoints import store
from transformer.errors import UserError
from transformer.runtime import paths
from transformer.tasks.task import abstract_params, load_task
from transformer.workdir import log, results, saved_config


class Evaluation(NamedTuple):
    """The newest result on a test set, and the lines of its files in evaluation/."""

    stem: Path  # WORKDIR/evaluation/SET, the prefix of the set's files
    result: dict
    outputs: dict[str, list[str]]  # {"source": lines, "hypothesis": lines, ...}

    def columns(self, *roles: str) -> list[list[str]] | None:
        """Returns the files with these roles in the result, as parallel lists of lines.

        Roles are 'input', 'reference', 'output' and 'measure'. None if a role has no column in the
        result, or a column no file; UserError if the lists differ in length, because a file was
        replaced or cut.
        """
        names = [self.result.get("columns", {}).get(role) for role in roles]
        if not self.outputs.keys() >= set(names):
            return None
        columns = [self.outputs[name] for name in names]
        if len(set(map(len, columns))) > 1:
            counts = ", ".join(f"{name} {len(self.outputs[name])}" for name in names)
            raise UserError(
                f"damaged: the files {self.stem}.* have different numbers of lines ({counts}): "
                "evaluate the run again"
            )
        return columns


class Run(NamedTuple):
    """The content of a workdir as values; empty where a file is missing."""

    workdir: Path
    config: ConfigDict
    versions: dict[str, str]  # of packages, when training was started
    lines: list[dict]  # of metrics.jsonl: kind, step and numbers
    starts: list[dict]  # of starts.jsonl, since the last from step 0: step, time, devices, data
    evaluations: list[Evaluation]  # one per test set, the newest last
    best_step: int | None  # of the checkpoint in best/

    def logged(self, kind: str) -> list[dict]:
        """Returns the lines of metrics.jsonl of one kind: 'train' or 'validation'."""
        return [line for line in self.lines if line["kind"] == kind]

    def resumes(self) -> list[int]:
        """Returns the steps, above 0, from which training was resumed."""
        return sorted({line["step"] for line in self.starts if line["step"]})

    def command(self, mode: str) -> str:
        """Returns the command line of another mode on this workdir, for a message."""
        return f"python launch.py --mode={mode} --workdir={self.workdir}"


def read(config: ConfigDict, folder: Path) -> Run:
    """Reads a workdir; `config` is its config, with defaults for missing keys."""
    starts = read_log(folder, log.STARTS)
    # Starts before the last one from step 0 belong to lost steps or another run: of the starts from
    # 0 500 0 200, the last two are kept.
    anew = [i for i, start in enumerate(starts) if start["step"] == 0]
    return Run(
        workdir=folder,
        config=config,
        versions=dict(saved_config.read_config(folder).get("versions", {})),
        lines=read_log(folder, log.METRICS),
        starts=starts[max(anew, default=0) :],
        evaluations=_evaluations(folder, [x["set"] for x in read_log(folder, log.RESULTS)]),
        best_step=max(store.complete_steps(folder / "best"), default=None),
    )


def read_log(folder: Path, name: str) -> list[dict]:
    """Returns the lines of a log in an untrusted workdir, without damaged ones."""
    return [line for line in log.read(folder, name) if _is_line(line, name)]


def _is_line(values: object, name: str) -> bool:
    """Returns whether an untrusted value is a line of the log `name`, by its keys and their types.

    Optional keys are checked if present.
    """
    needed, optional = FORMS[name]
    types = needed | optional
    return (
        isinstance(values, dict)
        and values.keys() >= needed.keys()
        and all(_has_type(value, types[key]) for key, value in values.items() if key in types)
    )


def _has_type(value: object, kind: type | list[type]) -> bool:
    """Returns whether a value is of a type in FORMS."""
    if isinstance(kind, list):
        return isinstance(value, list) and all(_has_type(x, kind[0]) for x in value)
    if kind is float:
        # Seconds: refuses negative ones, NaN, and more than 31 years.
        return type(value) in (int, float) and 0 <= value < 1e9
    return type(value) is kind  # not isinstance: True is not an int here


# {log: required keys, and optional ones}; `float` means seconds, [int] a list. Other keys of
# metrics.jsonl, the scores of any task, are numbers or texts, checked where they are read.
FORMS = {
    log.METRICS: (
        {"step": int, "kind": str},
        {"skipped": int, "samples": str, "step_seconds": float},
    ),
    log.STARTS: (
        {
            **dict.fromkeys(("step", "parameters", "processes", "devices"), int),
            **dict.fromkeys(("time", "device", "strategy", "data"), str),
        },
        {},
    ),
    log.RESULTS: (
        {"step": int, "set": str},
        {
            **dict.fromkeys(("sentences", "texts", "images", "tokens"), int),
            **dict.fromkeys(("split", "signature", "checksum", "weights", "ensemble"), str),
            "steps": [int],
            "files": [str],
            **dict.fromkeys(("columns", "decode", "versions"), dict),
        },
    ),
}


def _evaluations(folder: Path, order: list[str]) -> list[Evaluation]:
    """Reads evaluation/; sets are in the order of their last places in `order`.

    Sets that are not in `order` come first.
    """
    evaluations = []
    for file in sorted((folder / results.FOLDER).glob("*.json")):
        result = paths.read_json_object(file)
        if not _is_line(result, log.RESULTS):
            raise UserError(f"damaged: {file} is not a result: evaluate the run again")
        stem = file.with_suffix("")
        files = stem.parent.glob(f"{stem.name}.*")
        sides = {x.name.removeprefix(f"{stem.name}."): x for x in files}
        # A dot in the key: a file of another set, such as news.old.source for news.
        outputs = {x: _lines(sides[x]) for x in sides if x != "json" and "." not in x}
        evaluations.append(Evaluation(stem, result, outputs))
    # The last places in a, b, a are {a: 2, b: 1}, so b comes first.
    place = {name: i for i, name in enumerate(order)}
    return sorted(evaluations, key=lambda x: place.get(x.result["set"], -1))


def _lines(file: Path) -> list[str]:
    """Returns a file's lines; an incomplete last line, without a newline, is left out."""
    # Not splitlines, because it also splits at characters within sentences.
    return file.read_bytes().decode(errors="replace").split("\n")[:-1]


def trained_for(run: Run) -> tuple[int, float]:
    """Returns the number of steps that a run has logged, and their seconds without validations.

    The seconds are NaN for a run without a line of training, shorter than `train.log_every`.
    """
    lines = run.logged("train")
    # The last steps may only be in a validation line.
    last = max((line["step"] for line in [*lines, *run.logged("validation")]), default=0)
    # step_seconds is the mean since the previous line: lines of steps 100 and 250 stand for 100 and
    # 150 steps, the last line also for those up to `last`.
    ends = [0, *(line["step"] for line in lines[:-1]), last]
    times = [line.get("step_seconds", 0.0) for line in lines]
    return last, float(np.diff(ends) @ times) if lines else math.nan


def num_parameters(run: Run) -> int:
    """Returns the number of parameters as recorded by training, else as counted in the model."""
    if run.starts:
        return run.starts[-1]["parameters"]
    task = load_task(run.config.task)
    model = task.model(run.config, task.sizes(run.config, run.workdir))
    # The model is traced for the shapes of its params; no array is allocated.
    shapes = jax.tree.leaves(abstract_params(model, task.example(run.config, 1)))
    return sum(x.size for x in shapes)
