"""The confidence of a translation: P(it is good), from the probabilities of its pieces.

The pieces' probabilities are those of forced decoding, given the source and the pieces before. A
word has the product of its pieces', P(word | source, words before), because the words then multiply
to P(translation | source). The last word, </s>, says that nothing follows.
"""

import itertools
import logging
import math
import zlib
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from ml_collections import ConfigDict

from transformer.data import tokenizer
from transformer.decoding.methods import Decode
from transformer.decoding.translator import Hypothesis, Request
from transformer.distributed import layout
from transformer.errors import UserError
from transformer.runtime import paths
from transformer.tasks.saved_model import SavedModel

NAME = "confidence.json"
END = "</s>"
SETTINGS = ("method", "beam_width", "length_penalty", "length_alpha", "rules", "tag")
# The confidence never falls if a feature rises, because no weight is negative. 'like lengths' is
# -|log(T / S)|. '-pieces a character' is of the source, because words of another domain are cut
# finely. 'distinct pairs' is the share of distinct pairs of neighbouring pieces, because a model is
# sure of its repetitions.
FEATURES = ("mean log P", "like lengths", "-pieces a character", "distinct pairs")


class Calibration(NamedTuple):
    """Weights that give confidence, and how well it predicted other lines of the validation text.

    Lines are good if their `measure` is at least `quality`. A bin is (mean confidence, good lines,
    lines). A row of `thresholds` is (threshold, share of the lines below it, share of these that
    are not good: the precision, share of those not good that are below it: the recall).
    """

    measure: str  # chrF, or the name of a file
    quality: float
    lines: int  # that it was measured on, as many as it learnt from, or one fewer
    good: int
    weights: dict[str, float]  # of FEATURES
    bias: float
    error: float  # expected calibration error, of the bins
    error_by_chance: float  # that of lines which are good with just these probabilities
    auc: float  # area under ROC
    auc_of_score: float  # that of the mean log P alone
    bins: list[list[float]]
    thresholds: list[list[float]]
    params: int = 0  # a hash
    of: str = ""  # in words, the params
    settings: str = ""  # of the search
    summary: str = ""  # the numbers in words

    def in_words(self) -> str:
        """Returns the few numbers in two sentences."""
        return (
            f"By the {self.of}, {self.good:,} of {self.lines:,} lines are good ({self.measure} at "
            f"least {self.quality:g}). Calibration error {self.error:.3f} (by chance "
            f"{self.error_by_chance:.3f}); area under ROC {self.auc:.3f}, of the mean log P alone "
            f"{self.auc_of_score:.3f}."
        )


def read(workdir: Path) -> Calibration | None:
    """Returns a workdir's calibration, None without one; UserError if the file is damaged."""
    file = workdir / NAME
    if not file.exists():
        return None
    values, fields = paths.read_json_object(file), Calibration.__annotations__
    if values.keys() == fields.keys() and all(_fits(values[x], fields[x]) for x in fields):
        return Calibration(**values)
    raise UserError(f"damaged: {file} is not of --mode=calibrate: calibrate again")


def _fits(value: object, kind: object) -> bool:
    """Returns whether an untrusted value is of a field's type; numbers have to be finite."""
    if kind in (int, str):
        return type(value) is kind
    if kind is float:
        return type(value) in (int, float) and math.isfinite(value)
    if kind == dict[str, float]:
        named = isinstance(value, dict) and [*value] == [*FEATURES]
        return named and _fits([*value.values()], list[float])
    return isinstance(value, list) and all(_fits(x, kind.__args__[0]) for x in value)


def estimator(config: ConfigDict, workdir: Path, run: SavedModel, decode: Decode) -> Callable:
    """Returns a function of requests and their hypotheses, which fills in how sure they are.

    A translation whose source was split has no confidence, and is flagged. UserError for a workdir
    that is not calibrated, or was so with other params; a warning for other `decode`.
    """
    learnt = read(workdir)
    command = f"python launch.py --mode=calibrate --workdir={workdir}"
    if not learnt:
        raise UserError(f"{workdir} is not calibrated: {command}")
    if learnt.params != fingerprint(run.params):
        raise UserError(
            f"{workdir / NAME} is of other params, the {learnt.of}: calibrate again, with the same "
            f"evaluate.weights, evaluate.ensemble and decode.language_model: {command}"
        )
    if learnt.settings != (now := settings(decode)):
        logging.warning("%s was learnt with %s, now %s", workdir / NAME, learnt.settings, now)
    weights = np.array([*learnt.weights.values(), learnt.bias])
    least = config.translate.flag_below

    def confident(request: Request, hypothesis: Hypothesis, forced: Forced | None) -> Hypothesis:
        if not request.source.strip():
            return hypothesis._replace(confidence=1.0, flagged=False)
        if not forced:
            return hypothesis._replace(flagged=True)
        value = round(float(logistic(np.array([*forced.features, 1.0]) @ weights)), 4)
        words = word_probs(run.vocabulary.target, hypothesis.text, forced.log_probs_T)
        return hypothesis._replace(confidence=value, words=words, flagged=value < least)

    def estimate(
        requests: Sequence[Request], answers: Iterable[list[Hypothesis]]
    ) -> list[list[Hypothesis]]:
        answers = list(answers)
        pairs = [(x, y) for x, best in zip(requests, answers, strict=True) for y in best]
        forced = forced_decoding(run, [(x.source, y.text) for x, y in pairs], decode)
        filled = (confident(*pair, each) for pair, each in zip(pairs, forced, strict=True))
        return [[next(filled) for _ in best] for best in answers]

    return estimate


class Forced(NamedTuple):
    """A translation by forced decoding."""

    log_probs_T: np.ndarray  # of its pieces and its end
    features: tuple[float, ...]  # FEATURES


def forced_decoding(
    run: SavedModel, pairs: Sequence[tuple[str, str]], options: Decode
) -> list[Forced | None]:
    """Returns each (source, translation) by forced decoding.

    None if a side is longer than `options` allow.
    """
    from transformer.families.scoring import score

    texts = [tokenizer.tagged(options.tag, source) for source, _ in pairs]
    # Normalised before its characters are counted: a decomposed 한 would count as three.
    texts = tokenizer.normalised(texts, run.vocabulary.source.normalisation)
    sources = run.vocabulary.source.encode(texts)
    targets = run.vocabulary.target.encode([target for _, target in pairs])
    ids = zip(sources, targets, strict=True)
    short = {i: both for i, both in enumerate(ids) if score.fits(*both, options)}
    with layout.launching(run.params):
        log_probs = score.token_log_probs(run, [*short.values()], options)
    answers = [None] * len(pairs)
    for i, log_probs_T in zip(short, log_probs, strict=True):
        S, T = len(sources[i]), len(targets[i])
        distinct = len({*itertools.pairwise(targets[i])}) / max(1, T - 1)
        # In the order of FEATURES.
        values = log_probs_T.mean(), -abs(np.log(T / S)), -S / max(1, len(texts[i])), distinct
        answers[i] = Forced(log_probs_T, tuple(map(float, values)))
    return answers


def settings(decode: Decode) -> str:
    """Returns the keys of config.decode on which a translation depends most."""
    return " ".join(f"{key}={getattr(decode, key)}" for key in SETTINGS)


def word_probs(
    vocabulary: tokenizer.Pieces, text: str, log_probs_T: np.ndarray
) -> tuple[tuple[str, float], ...]:
    """Returns (word, P) of the words of a text and of END, to four digits."""
    from transformer.families.scoring import align

    names = "".join(surface for _, surface in vocabulary.surfaces(text)).split()
    numbers = np.array([*align.words(vocabulary, text), len(names)])
    sums = np.bincount(numbers, log_probs_T, len(names) + 1)
    digits = (float(f"{x:.4g}") for x in np.exp(sums))
    return tuple(zip([*names, END], digits, strict=True))


def logistic(x: np.ndarray) -> np.ndarray:
    """Returns 1 / (1 + exp(-x)), without an overflow."""
    return np.exp(-np.logaddexp(0, -x))


def fingerprint(params: Any) -> int:
    """Returns a number that other params are unlikely to have (CRC-32)."""
    value = 0
    for leaf in jax.tree.leaves(params):
        value = zlib.crc32(np.ascontiguousarray(leaf), value)
    return value
