"""p-values of rows against the first row, by --mode=compare in a process of its own."""

import json
import logging
import math
import os
import subprocess
import sys
from collections.abc import Sequence
from typing import NamedTuple

from transformer.errors import UserError
from transformer.runtime.progress import progress
from transformer.tools.sweep import children
from transformer.tools.sweep.outcomes import Outcome


class PValue(NamedTuple):
    """The p-value of a row's run against that of the first row with the same seed."""

    value: float
    difference: float  # of these two runs
    of: str  # the score
    seed: int
    test: str  # the method in words


def against_first(rows: Sequence[Sequence[Outcome]], best_by: str) -> list[PValue | None]:
    """Returns each row's p-value; None for the first row, and where there is none.

    Compared are the runs of the first seed that the row shares with the first row, among those
    that have a result.
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
        env={**os.environ, "JAX_PLATFORMS": "cpu"},  # it computes nothing on a device
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
    for outcome, score in zip((first, second), scores, strict=True):
        if not math.isclose(
            score["value"], outcome.scores.get(of, score["value"]), rel_tol=1e-3, abs_tol=1e-3
        ):
            raise UserError(f"{outcome.run.workdir} has been evaluated again, with another result")
    difference = scores[1]["value"] - scores[0]["value"]
    return PValue(scores[1]["p"], difference, of, second.run.seed, values["tests"][of])
