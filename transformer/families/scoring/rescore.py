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

    Each hypothesis's score is increased by config.rescore.weight times its score by the workdir's
    model. Equal hypotheses keep their order. For several models, rescore once with each.
    """
    read = lines.columns(lines.read(sys.stdin.buffer), ("source",), needed=1, form="json")
    answers, again = itertools.tee(map(checked, itertools.count(1), read))
    asked = ((n, x["source"], y["text"]) for n, x in enumerate(again, 1) for y in x["hypotheses"])
    run = translation.load(config, workdir)
    Translator(run.model, run.vocabulary, **config.decode)  # checks config.decode
    further = scores(run, asked, config)
    for answer in progress.progress(answers, "rescore", total=lines.count(sys.stdin.buffer)):
        for hypothesis in answer["hypotheses"]:
            hypothesis["score"] += config.rescore.weight * next(further)
        answer["hypotheses"] = sorted(answer["hypotheses"], key=lambda x: -x["score"])
        best = answer["hypotheses"][0]
        for name in ("missing", "confidence", "words", "flagged"):  # of the best before
            answer.pop(name, None)
        answer |= {name: x for name, x in best.items() if name != "text"}
        answer["translation"] = best["text"]
        lines.write(sys.stdout.buffer, lines.to_json(answer))


def checked(number: int, values: dict) -> dict:
    """Returns the values of a line; UserError if they have no scored hypotheses."""
    hypotheses = values.get("hypotheses")
    is_scored = lambda x: (
        isinstance(x, dict)
        and isinstance(x.get("text"), str)
        and isinstance(x.get("score", ""), int | float | None)
    )
    if not (isinstance(hypotheses, list) and hypotheses and all(map(is_scored, hypotheses))):
        raise UserError(
            f'line {number}: expected "hypotheses" of --mode=translate with translate.format=json '
            f"and decode.num_hypotheses above 1, found {hypotheses!r:.80}"
        )
    for hypothesis in hypotheses:
        if hypothesis["score"] is None:
            hypothesis["score"] = -np.inf  # of an over-long hypothesis, null in JSON
    return values


def scores(
    run: SavedModel, asked: Iterator[tuple[int, str, str]], config: ConfigDict
) -> Iterator[float]:
    """Returns the score of each (line's number, source, hypothesis), by config.rescore.by."""
    if config.rescore.by == "coverage":
        align.cross_shape(run, config.architecture)  # UserError without cross-attention
        return (coverage(run, *x, config.decode) for x in asked)
    names = ("target", "source") if config.rescore.by == "source" else ("source", "target")
    numbered = ((n, dict(zip(names, pair, strict=True))) for n, *pair in asked)
    return (result.score for _, result in score.forced(run, numbered, config.decode))


def coverage(run: SavedModel, number: int, source: str, target: str, options: ConfigDict) -> float:
    """Returns sum_s log min(1, sum_t p_ts) (Wu et al. 2016, equation 14), at most 0.

    p_ts is how much the prediction of target piece t attends to source piece s, the mean over
    layers and heads. The sum is low if a part of the source is not translated, and leaves out the
    tag. A pair that is too long gets -inf, and a warning. `options` is config.decode.
    """
    tagged = tokenizer.tagged(options.tag, source)
    if score.over_long(number, *attention_weights.ids(run.vocabulary, tagged, target), options):
        return -np.inf
    attention_TS = attention_weights.pair_weights(run, tagged, target)["cross"].mean(axis=(0, 1))
    covered_S = attention_TS.sum(axis=0)[int(tagged != source) :]
    return float(np.log(np.clip(covered_S, 1e-6, 1.0)).sum())
