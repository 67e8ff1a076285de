"""What a run of a sweep has left in its workdir, and whether it can be used again."""

from typing import NamedTuple

from transformer.checkpoints import store
from transformer.tools.pages import run as pages_run
from transformer.tools.pages.settings import APART
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
    """Returns the result that ends a finished run's metrics.jsonl, {} for an unfinished run.

    Training writes the line last, and cuts it when it resumes. Its split may be another than
    `evaluate.split`, where the data has no such split.
    """
    lines = [line for line in log.read(run.workdir) if line["kind"] not in log.KINDS]
    return lines[-1] if lines else {}


def check_unchanged(run: Run) -> None:
    """Raises UserError if a run that has been begun, and can go on, had another config.

    Keys of places, and of the way of computing, may differ.
    """
    if (run.workdir / "config.json").exists() and (
        result(run) or store.steps(run.workdir / store.LATEST)
    ):
        config = run.config.copy_and_resolve_references()
        check_same_run(config, read_config(run.workdir), run.workdir, APART)


def read(run: Run, failure: str) -> Outcome:
    """Returns what a run has left; `failure` says why it has no result, "" if it has one."""
    if failure:
        return Outcome(run, failure)
    logs = pages_run.read(run.config, run.workdir)
    return Outcome(
        run, "", pages_run.num_parameters(logs), *pages_run.trained_for(logs), result(run)
    )
