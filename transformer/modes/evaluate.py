"""A data set -> loss and sacreBLEU, through `translator`: validation and offline scores agree."""

import logging
from pathlib import Path
from typing import Any

import ml_collections

from transformer.checkpoints.workdir import versions
from transformer.decoding.translator import Translator
from transformer.distributed import processes
from transformer.monitoring import results
from transformer.tasks import build, splits, translation
from transformer.tasks.translation_evaluator import Examiner

Tree = dict


def evaluate(config: ml_collections.ConfigDict, workdir: Path) -> None:
    """--mode=evaluate: scores `evaluate.split`; the result on standard output, then in files.

    evaluations.jsonl gets a line a result; evaluation/SET.{source,hypothesis,reference} are the
    sentences of a test set's newest, and evaluation/SET.json is that result.
    """
    build.check(config)
    score_split(config, workdir)


def score_split(
    config: ml_collections.ConfigDict, workdir: Path, *, once: bool = False
) -> dict[str, Any]:
    """Scores `evaluate.split` by the saved parameters: the result, after it was printed and kept.

    `once`: a result that evaluations.jsonl has already is not added again.
    """
    if processes.is_first():
        results.warn_if_unwritable(workdir)
    split = splits.final(config)
    run = translation.load(workdir, config)
    translator = Translator(run.model, run.vocabulary, **config.decode)
    examiner = Examiner(config, split, translator)
    scores, translations = examiner.examine(run.parameters)
    texts = (examiner.sources, examiner.references)
    result = {
        "set": results.free_name(workdir, results.name_of(split, examiner.files), *texts),
        "split": split,
        "step": run.steps[-1],
        "weights": config.evaluate.weights,
        **scores,
        "sentences": len(translations),
        "files": examiner.files,
        "checksum": results.checksum(*texts),
        "steps": run.steps,
        "ensemble": config.evaluate.ensemble,
        "decode": config.decode.to_dict(),
        "versions": versions(),
    }
    if processes.is_first():
        logging.info("%s:\n\n%s", split, examiner.sample(translations, config.evaluate.samples))
        sentences = {"source": texts[0], "hypothesis": translations, "reference": texts[1]}
        try:
            results.show(result)
        finally:  # whoever reads standard output may be gone
            results.keep(workdir, result, sentences, once=once)
    return result
