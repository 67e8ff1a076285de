"""--mode=rescore: ranks the translations of each line anew, by one more model."""

import itertools
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from ml_collections import ConfigDict

from transformer.data import tokenizer
from transformer.decoding.translator import Translator
from transformer.errors import UserError
from transformer.families.scoring import align, score
from transformer.modes import lines
from transformer.runtime import progress
from transformer.tasks import attention_weights, translation
from transformer.tasks.saved_model import SavedModel


def rescore(config: ConfigDict, workdir: Path) -> None:
    """Reads what --mode=translate wrote as JSON, and writes it with new scores, best first.

    config.rescore.weight times a score by the workdir's model is added to each. Equal hypotheses
    keep their order. Several models are calls in a row.
    """
    options = config.rescore
    read = lines.columns(lines.read(sys.stdin.buffer), ("source",), needed=1, form="json")
    answers, asked, again = itertools.tee(map(checked, itertools.count(1), read), 3)
    total = lines.count(sys.stdin.buffer)
    run = translation.load(config, workdir)
    Translator(run.model, run.vocabulary, **config.decode)  # checks config.decode
    pairs = ((x["source"], y["text"]) for x in asked for y in x["hypotheses"])
    numbers = (n for n, x in enumerate(again, start=1) for _ in x["hypotheses"])
    further = scores(run, pairs, config, numbers)
    for answer in progress.progress(answers, "rescore", total=total):
        for hypothesis in answer["hypotheses"]:
            hypothesis["score"] += options.weight * next(further)
        best, *_ = answer["hypotheses"] = sorted(answer["hypotheses"], key=lambda x: -x["score"])
        for name in ("missing", "confidence", "words", "flagged"):  # of the best before
            answer.pop(name, None)
        answer |= {name: x for name, x in best.items() if name != "text"}
        answer["translation"] = best["text"]
        lines.write(sys.stdout.buffer, lines.to_json(answer))


def checked(number: int, values: dict) -> dict:
    """Returns the values of a line; UserError if they have no scored hypotheses."""
    found = values.get("hypotheses")
    for x in found if isinstance(found, list) else ():
        if isinstance(x, dict) and x.get("score", 0) is None:
            x["score"] = -np.inf  # of an over-long hypothesis, null in JSON
    is_right = lambda x: (
        isinstance(x, dict)
        and isinstance(x.get("text"), str)
        and isinstance(x.get("score"), int | float)
    )
    if not (isinstance(found, list) and found and all(map(is_right, found))):
        raise UserError(
            f'line {number}: expected "hypotheses" of --mode=translate with translate.format=json '
            f"and decode.num_hypotheses above 1, found {found!r:.80}"
        )
    return values


def scores(
    run: SavedModel, pairs: Iterator[tuple[str, str]], config: ConfigDict, numbers: Iterator[int]
) -> Iterator[float]:
    """Returns the score of each pair of source and hypothesis, by config.rescore.by."""
    if config.rescore.by == "coverage":
        align.cross_shape(run, config.architecture)  # UserError without cross-attention
        return (coverage(run, *pair, config.decode.tag) for pair in pairs)
    names = ("target", "source") if config.rescore.by == "source" else ("source", "target")
    named = (dict(zip(names, pair, strict=True)) for pair in pairs)
    return (result.score for _, result in score.forced(run, named, config.decode, numbers))


def coverage(run: SavedModel, source: str, target: str, tag: str) -> float:
    """Returns sum_s log min(1, sum_t p_ts) (Wu et al. 2016, equation 14), at most 0.

    p_ts is how much the prediction of target piece t attends to source piece s, the mean over
    layers and heads. It is low if a part of the source is not translated; a tag never is.
    """
    tagged = tokenizer.tagged(tag, source)
    attention_TS = attention_weights.pair_weights(run, tagged, target)["cross"].mean(axis=(0, 1))
    covered_S = attention_TS.sum(axis=0)[int(tagged != source) :]
    return float(np.log(np.clip(covered_S, 1e-6, 1.0)).sum())
