"""--mode=evaluate: scores a trained workdir on a split."""

import logging
from pathlib import Path

from ml_collections import ConfigDict

from transformer.distributed import processes
from transformer.modes import prepare
from transformer.tasks import saved_model, splits
from transformer.tasks.task import load_task
from transformer.workdir import results
from transformer.workdir.saved_config import versions


def evaluate(config: ConfigDict, workdir: Path) -> None:
    """Scores `config.evaluate.split` and writes the result to standard output and to the workdir.

    evaluations.jsonl gets a line per result. evaluation/SET.source, SET.hypothesis, SET.reference
    and SET.json have the inputs, outputs and scores of a test set's newest result.
    """
    prepare.check(config)
    score_split(config, workdir)


def score_split(
    config: ConfigDict, workdir: Path, *, once: bool = False, quiet: bool = False
) -> dict[str, object]:
    """Scores `config.evaluate.split` with the saved params; prints, saves and returns the result.

    With `once`, evaluations.jsonl does not get a result that it has. `quiet` prints nothing.
    Collective.
    """
    run = saved_model.load(config, workdir)
    if (split := splits.final_split(config)) != config.evaluate.split:
        logging.info("no test set, the final score is that of validation: see evaluate.split")
    evaluator = load_task(config.task).evaluator(config, workdir, run.model, split)
    scores, outputs = evaluator.score(run.params)
    further = evaluator.further(outputs)
    # Samples are for the log, and not part of a result.
    samples = scores.pop("samples", "")
    name = results.name_of(evaluator.split, evaluator.files)
    result = {
        "set": results.free_name(workdir, name, evaluator.dataset),
        "split": evaluator.split,
        "step": run.step,
        "weights": config.evaluate.weights,
        **scores,
        **evaluator.settings,
        **further,
        "columns": evaluator.columns,
        "files": evaluator.files,
        "checksum": results.checksum(evaluator.dataset),
        "steps": run.steps,
        "ensemble": config.evaluate.ensemble,
        "versions": versions(),
    }
    # All processes have the scores; process 0 prints and saves them.
    if processes.is_first():
        if samples:
            logging.info("%s:\n\n%s", evaluator.split, samples)
        rows = evaluator.rows(scores)
        rows |= {x: f"{further[x]:.2f}".removesuffix(".00") for x in further}  # counts are whole
        rows["weights"] = f"{config.evaluate.weights}, of step {', '.join(map(str, run.steps))}"
        try:
            if not quiet:
                results.show(result, rows)
        finally:  # save even if the reader of standard output is gone
            results.keep(workdir, result, outputs, once=once)
    return result
