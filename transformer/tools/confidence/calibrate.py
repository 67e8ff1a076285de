"""--mode=calibrate: learns from the validation text how sure a translation is."""

import logging
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from ml_collections import ConfigDict
from sacrebleu.metrics import CHRF

from transformer.data import tokenizer
from transformer.decoding.translator import Translator
from transformer.errors import UserError
from transformer.modes import lines
from transformer.runtime import paths
from transformer.tasks import splits, translation
from transformer.tools.confidence import confidence, reliability
from transformer.tools.confidence.confidence import Calibration
from transformer.tools.pages import page
from transformer.tools.pages.page import Table

# The fewest good lines, and the fewest that are not, in a half of the lines, on average.
FEWEST = 10


def calibrate(config: ConfigDict, workdir: Path) -> None:
    """Writes WORKDIR/confidence.json, and prints how well it predicts.

    It is learnt from a random half of the lines of the validation text, and measured on the rest.
    """
    options = config.calibrate
    run = translation.load(config, workdir)
    splits.log_origin(config, "validation")
    corpus = splits.pairs(config, "validation")
    sources, references = corpus.read()
    # Before translating, so that a wrong file is an early error.
    given = judged(options.scores, len(sources)) if options.scores else None
    translator = Translator(run.model, run.vocabulary, **translation.decode_of(config, corpus))
    texts = translation.translate(translator, run.params, sources, "translate validation")
    qualities_N = np.array(chrf(texts, references, run.vocabulary) if given is None else given)
    forced = confidence.forced_decoding(run, [*zip(sources, texts, strict=True)], translator.decode)
    used = [i for i, x in enumerate(forced) if x is not None and sources[i].strip()]
    features_NF = np.array([forced[i].features for i in used])
    learnt = learn(features_NF, qualities_N[used], options)._replace(
        params=confidence.fingerprint(run.params),
        settings=confidence.settings(translator.decode),
        of=f"{config.evaluate.weights} params of step {run.step}",
    )
    learnt = learnt._replace(summary=learnt.in_words())
    paths.write_json(workdir / confidence.NAME, learnt._asdict())
    page.show(f"{shown(learnt)}\n\n{learnt.summary}", learnt._asdict())
    logging.info(
        "saved in %s; next, with the same keys of evaluate and decode: python launch.py "
        "--mode=translate --workdir=%s --config.translate.confidence "
        "--config.translate.format=json < source.txt",
        *(workdir / confidence.NAME, workdir),
    )


def learn(features_NF: np.ndarray, qualities_N: np.ndarray, options: ConfigDict) -> Calibration:
    """Returns what half of the lines teach, and how it predicts the rest; without params.

    UserError for few lines, or if nearly all, or nearly none, are good.
    """
    good_N = qualities_N >= options.quality
    if len(good_N) < 4 * FEWEST:
        raise UserError(
            f"{len(good_N)} lines of the validation text are too few: at least {4 * FEWEST}"
        )
    if not 2 * FEWEST <= good_N.sum() <= len(good_N) - 2 * FEWEST:
        raise UserError(
            f"config.calibrate.quality={options.quality:g} must divide the lines: "
            f"{good_N.sum():,} of {len(good_N):,} are as good; the median is "
            f"{np.median(qualities_N):.4g}"
        )
    order = np.random.default_rng(0).permutation(len(good_N))
    fit, rest = np.array_split(order, 2)
    weights, bias = reliability.fitted(features_NF[fit], good_N[fit])
    predicted_N = confidence.logistic(features_NF[rest] @ np.array(weights) + bias)
    bins = reliability.bins(predicted_N, good_N[rest])
    return Calibration(
        measure=Path(options.scores).name or "chrF",
        quality=options.quality,
        lines=len(rest),
        good=int(good_N[rest].sum()),
        weights=dict(zip(confidence.FEATURES, weights, strict=True)),
        bias=bias,
        error=reliability.error(bins),
        error_by_chance=reliability.error_by_chance(predicted_N),
        auc=reliability.auc(predicted_N, good_N[rest]),
        auc_of_score=reliability.auc(features_NF[rest, 0], good_N[rest]),  # 0: mean log P
        bins=bins,
        thresholds=reliability.flagged(predicted_N, good_N[rest]),
    )


def chrf(
    texts: Sequence[str], references: Sequence[str], vocabulary: tokenizer.Vocabulary
) -> list[float]:
    """Returns chrF of each translation."""
    metric = CHRF()
    normalised = tokenizer.normalised(references, vocabulary.target.normalisation)
    return [metric.sentence_score(x, [y]).score for x, y in zip(texts, normalised, strict=True)]


def judged(name: str, count: int) -> list[float]:
    """Returns the number in each line of a file; UserError for a file without `count` of them."""
    try:
        with open(paths.path(name), "rb") as file:
            values = [*map(float, lines.read(file))]
    except (OSError, ValueError) as error:
        raise UserError(f"config.calibrate.scores={name!r}: {error}") from error
    if len(values) != count or not np.isfinite(values).all():
        raise UserError(
            f"config.calibrate.scores={name!r} must have a number for each of the {count:,} lines "
            f"of the validation text, found {np.isfinite(values).sum():,} in {len(values):,} lines"
        )
    return values


def shown(learnt: Calibration) -> str:
    """Returns tables of the bins and of the thresholds for a terminal."""
    rows = [[f"{mean:.2f}", f"{good / n:.2f}", str(n)] for mean, good, n in learnt.bins]
    flags = [[f"{at:g}", *(f"{share:.2f}" for share in x)] for at, *x in learnt.thresholds]
    bins = Table(["confidence", "good", "lines"], rows)
    thresholds = Table(["flagged below", "share", "precision", "recall"], flags)
    return f"{page.text(bins)}\n\n{page.text(thresholds)}"
