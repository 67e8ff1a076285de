"""--mode=evaluate: a trained workdir -> its scores on a test set."""

import logging
from pathlib import Path
from typing import Any

import ml_collections

from transformer.checkpoints.workdir import versions
from transformer.distributed import processes
from transformer.modes import prepare
from transformer.monitoring import results
from transformer.tasks import trained
from transformer.tasks.task import load_task


def evaluate(config: ml_collections.ConfigDict, workdir: Path) -> None:
    """Scores `evaluate.split`; the result on standard output, then in files.

    evaluations.jsonl gets a line a result; evaluation/SET.NAME are the inputs and outputs of a test
    set's newest (source, hypothesis, reference), and evaluation/SET.json is that result.
    """
    prepare.check(config)
    score_split(config, workdir)


def score_split(
    config: ml_collections.ConfigDict, workdir: Path, *, once: bool = False
) -> dict[str, Any]:
    """Scores `evaluate.split` by the saved params: the result, after it was printed and kept.

    `once`: a result that evaluations.jsonl has already is not added again. Collective.
    """
    if processes.is_first():
        results.warn_if_unwritable(workdir)
    run = trained.load(config, workdir)
    evaluator = load_task(config.task).evaluator(config, workdir, run.model, "final")
    scores = evaluator.scores(run.params)
    samples = scores.pop("samples", "")
    name = results.name_of(evaluator.split, evaluator.files)
    result = {
        "set": results.free_name(workdir, name, evaluator.dataset),
        "split": evaluator.split,
        "step": run.steps[-1],
        "weights": config.evaluate.weights,
        **scores,
        **evaluator.settings,
        "files": evaluator.files,
        "checksum": results.checksum(evaluator.dataset),
        "steps": run.steps,
        "ensemble": config.evaluate.ensemble,
        "versions": versions(),
    }
    if processes.is_first():
        if samples:
            logging.info("%s:\n\n%s", evaluator.split, samples)
        steps = ", ".join(map(str, run.steps))
        rows = evaluator.rows(scores) | {"weights": f"{config.evaluate.weights}, of step {steps}"}
        try:
            results.show(result, rows)
        finally:  # whoever reads standard output may be gone
            results.keep(workdir, result, evaluator.outputs, once=once)
    return result
