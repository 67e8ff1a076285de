"""Results of a sweep's runs, read from their workdirs, and checks that a run can continue.

p-values of rows against the first row are by --mode=compare, in a separate process.
"""

import json
import logging
import os
import subprocess
import sys
from collections.abc import Sequence
from typing import NamedTuple

from transformer.checkpoints import store
from transformer.errors import UserError
from transformer.runtime.progress import progress
from transformer.tools.pages import run as pages_run
from transformer.tools.pages.settings import APART
from transformer.tools.sweep import children
from transformer.tools.sweep.sweep_file import Run
from transformer.workdir import log
from transformer.workdir.saved_config import check_same_run, read_config


class Outcome(NamedTuple):
    """The numbers of a run; `failure` says why it has no result, "" if it has one."""

    run: Run
    failure: str
    parameters: int = 0
    steps: int = 0
    seconds: float = 0.0  # of training, without validations
    result: dict = {}  # noqa: RUF012 (never written to)

    @property
    def scores(self) -> dict[str, float]:
        """Returns the scores of the result by their names."""
        return {name: x for name, x in self.result.items() if isinstance(x, float)}


def result(run: Run) -> dict:
    """Returns the result at the end of a finished run's metrics.jsonl, {} for an unfinished run.

    Training writes the line last, and removes it when it resumes. Its split is not
    `evaluate.split` if the data has no such split.
    """
    lines = [line for line in log.read(run.workdir) if line["kind"] not in log.KINDS]
    return lines[-1] if lines else {}


def check_unchanged(run: Run) -> None:
    """Raises UserError if a run with a result or checkpoint has another config.

    Keys of places, and of the way of computing, may differ.
    """
    if (run.workdir / "config.json").exists() and (
        result(run) or store.complete_steps(run.workdir / store.LATEST)
    ):
        config = run.config.copy_and_resolve_references()
        check_same_run(config, read_config(run.workdir), run.workdir, APART)


def read(run: Run, failure: str) -> Outcome:
    """Returns the outcome of a run; `failure` says why it has no result, "" if it has one."""
    if failure:
        return Outcome(run, failure)
    logs = pages_run.read(run.config, run.workdir)
    steps, seconds = pages_run.trained_for(logs)
    return Outcome(run, "", pages_run.num_parameters(logs), steps, seconds, result(run))


class PValue(NamedTuple):
    """The p-value of a row's run against that of the first row with the same seed."""

    value: float
    difference: float  # of these two runs
    of: str  # the score
    seed: int
    test: str  # the method in words


def against_first(rows: Sequence[Sequence[Outcome]], best_by: str) -> list[PValue | None]:
    """Returns each row's p-value; None for the first row, and for rows without one.

    The compared runs have the first seed with a result in both rows.
    """
    first, *others = [{x.run.seed: x for x in row if x.result} for row in rows]
    values = [None]
    for row in progress(others, "compare", total=len(others), unit="row"):
        seeds = [seed for seed in first if seed in row]
        try:
            value = _compare(first[seeds[0]], row[seeds[0]], best_by) if seeds else None
        except UserError as error:
            logging.warning("no p-value of %s: %s", row[seeds[0]].run.name, error)
            value = None
        values.append(value)
    return values


def _compare(first: Outcome, second: Outcome, best_by: str) -> PValue | None:
    """Returns the p-value of `best_by`, or of the first score that has one; None without one.

    UserError if the runs cannot be compared.
    """
    folders = [str(x.run.workdir) for x in (first, second)]
    keys = {"set": first.result["set"], "page": "", "sentences": 0}
    arguments = [f"--config.compare.{key}={value}" for key, value in keys.items()]
    compared = subprocess.run(
        [sys.executable, str(children.LAUNCH), "--mode=compare", *folders, *arguments],
        env={**os.environ, "JAX_PLATFORMS": "cpu"},  # it needs no accelerator
        capture_output=True,
        text=True,
        check=False,
    )
    if compared.returncode:
        raise UserError(compared.stderr.strip().split("\n")[-1].removeprefix("launch.py: "))
    values = json.loads(compared.stdout)
    if not values["tests"]:
        return None
    of = best_by if best_by in values["tests"] else next(iter(values["tests"]))
    scores = [run["scores"][of] for run in values["runs"]]
    difference = scores[1]["value"] - scores[0]["value"]
    return PValue(scores[1]["p"], difference, of, second.run.seed, values["tests"][of])
