"""Reads what a workdir holds of its run, finished or not."""

from pathlib import Path
from typing import NamedTuple

from ml_collections import ConfigDict

from transformer.checkpoints import store
from transformer.errors import UserError
from transformer.runtime import json_files
from transformer.tasks.task import abstract_params, load_task
from transformer.workdir import log, results, run_config


class Evaluation(NamedTuple):
    """The newest result on a test set, and the files of that set in evaluation/, line by line."""

    result: dict
    outputs: dict[str, list[str]]  # {"source": lines, "hypothesis": lines, ...}

    def named(self, *roles: str) -> list[list[str]] | None:
        """Returns the `columns` that have these roles in the result; None if a role is missing.

        Roles are 'input', 'reference', 'output' and 'measure'.
        """
        names = self.result.get("columns", {})
        return self.columns(*(names[x] for x in roles)) if names.keys() >= set(roles) else None

    def columns(self, *names: str) -> list[list[str]] | None:
        """Returns the named output files as parallel lists of lines; None if one is missing.

        UserError if the lists differ in length, because a file was replaced or cut.
        """
        if not self.outputs.keys() >= set(names):
            return None
        columns = [self.outputs[name] for name in names]
        if len(set(map(len, columns))) > 1:
            counts = ", ".join(f"{name} {len(self.outputs[name])}" for name in names)
            raise UserError(
                f"damaged: the files of the set {self.result['set']} in evaluation/ have different "
                f"numbers of lines ({counts}): evaluate the run again"
            )
        return columns


class Run(NamedTuple):
    """What a workdir holds, as values; what it lacks is empty."""

    workdir: Path
    config: ConfigDict
    versions: dict[str, str]  # of packages, when training was started
    lines: list[dict]  # of metrics.jsonl: kind, step and numbers
    starts: list[dict]  # of starts.jsonl, since the last from step 0: step, time, devices, data
    results: list[dict]  # of evaluations.jsonl, the newest last
    evaluations: list[Evaluation]  # one a test set, the newest last
    best_step: int | None  # of the checkpoint in best/

    def of_kind(self, kind: str) -> list[dict]:
        """Returns the lines of metrics.jsonl of a kind: 'train' or 'validation'."""
        return [line for line in self.lines if line["kind"] == kind]

    def resumes(self) -> list[int]:
        """Returns the steps, above 0, from which training was resumed."""
        return sorted({line["step"] for line in self.starts if line["step"]})

    def command(self, mode: str) -> str:
        """Returns the command of another mode on this workdir, to be shown."""
        return f"python launch.py --mode={mode} --workdir={self.workdir}"


def read(config: ConfigDict, folder: Path) -> Run:
    """Reads a workdir; `config` is its config, with the defaults of keys that it lacks."""
    evaluated = log.read(folder, results.NAME)
    best = store.steps(folder / "best")
    saved = run_config.read_config(folder)
    return Run(
        workdir=folder,
        config=config,
        versions=dict(saved.get("versions", {})),
        lines=log.read(folder),
        starts=latest_attempt(log.read(folder, log.STARTS)),
        results=evaluated,
        evaluations=evaluations(folder, [result["set"] for result in evaluated]),
        best_step=max(best, default=None),
    )


def latest_attempt(starts: list[dict]) -> list[dict]:
    """Returns the starts since the last one from step 0.

    What was trained before that start was lost, or was another run in the same workdir.
    """
    anew = [number for number, line in enumerate(starts) if line["step"] == 0]
    return starts[max(anew, default=0) :]


def evaluations(folder: Path, order: list[str]) -> list[Evaluation]:
    """Reads evaluation/. The list is in the `order` of names of sets; sets without a name in it
    come first."""
    by_age = []
    for file in sorted((folder / results.FOLDER).glob("*.json")):
        try:
            result = json_files.read_object(file)
            columns = result.get("columns", {})
            if not log.is_line(result, results.NAME) or not isinstance(columns, dict):
                raise UserError(f"damaged: {file} is not a result")
        except UserError as error:
            raise UserError(f"{error}: evaluate the run again") from error
        sides = {
            x.name.removeprefix(f"{file.stem}."): x for x in file.parent.glob(f"{file.stem}.*")
        }
        # A dot: a file of another set, such as news.old.source for news.
        outputs = {x: _lines(sides[x]) for x in sides if x != "json" and "." not in x}
        # The age of a set: 0 for the last name in `order`, the number of names for one not in it.
        name = result["set"]
        by_age.append((order[::-1].index(name) if name in order else len(order), result, outputs))
    by_age.sort(key=lambda x: -x[0])
    return [Evaluation(result, outputs) for _, result, outputs in by_age]


def _lines(file: Path) -> list[str]:
    """Returns a file's lines; a last one without a newline, cut off in writing, is left out."""
    return file.read_bytes().decode(errors="replace").split("\n")[:-1]


def num_parameters(run: Run) -> int:
    """Returns the number of parameters that training has recorded, else that of the model."""
    if run.starts:
        return run.starts[-1]["parameters"]
    task = load_task(run.config.task)
    model = task.model(run.config, task.sizes(run.config, run.workdir))
    import jax

    # The model is traced for the shapes of its params; no array is allocated.
    shapes = jax.tree.leaves(abstract_params(model, task.example(run.config, 1)))
    return sum(x.size for x in shapes)
