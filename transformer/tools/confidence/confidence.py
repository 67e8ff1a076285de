"""The confidence of a translation: P(it is good), from the probabilities of its pieces.

The pieces' probabilities are those of forced decoding, given the source and the pieces before. A
word has the product of its pieces', P(word | source, words before), because the words then multiply
to P(translation | source). The last word, </s>, says that nothing follows.
"""

import zlib
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
from ml_collections import ConfigDict

from transformer.data import tokenizer
from transformer.decoding.translator import Hypothesis, Request
from transformer.distributed import layout
from transformer.errors import UserError
from transformer.tasks.saved_model import SavedModel
from transformer.tools.confidence import calibration

END = "</s>"
# The confidence never falls if the log P of a piece rises: their weights are not negative.
FEATURES = ("mean log P", "lowest log P")


def estimator(config: ConfigDict, workdir: Path, run: SavedModel) -> Callable:
    """Returns a function of requests and their hypotheses, which fills in how sure they are.

    A translation whose source was split has no confidence, and is flagged. UserError for a workdir
    that is not calibrated, or was so with other params.
    """
    learnt, command = calibration.read(workdir), f"--mode=calibrate --workdir={workdir}"
    if not learnt:
        raise UserError(f"{workdir} is not calibrated: python launch.py {command}")
    if learnt.params != fingerprint(run.params):
        raise UserError(
            f"{workdir / calibration.NAME} is of the {learnt.of}, found "
            f"those of step {run.step}: calibrate again: python launch.py {command}"
        )
    weights, least = np.array([*learnt.weights, learnt.bias]), config.translate.flag_below

    def confident(request: Request, hypothesis: Hypothesis, log_probs_T: Any) -> Hypothesis:
        if not request.source.strip():
            return hypothesis._replace(confidence=1.0)
        if log_probs_T is None:
            return hypothesis._replace(flagged=True)
        value = round(float(logistic(np.array([*features(log_probs_T), 1.0]) @ weights)), 4)
        words = word_probs(run.vocabulary.target, hypothesis.text, log_probs_T)
        return hypothesis._replace(confidence=value, words=words, flagged=value < least)

    def estimate(
        requests: Sequence[Request], answers: Iterable[list[Hypothesis]]
    ) -> list[list[Hypothesis]]:
        answers = list(answers)
        pairs = [(x, y) for x, best in zip(requests, answers, strict=True) for y in best]
        forced = log_probs(run, [(x.source, y.text) for x, y in pairs], config.decode)
        filled = (confident(*pair, each) for pair, each in zip(pairs, forced, strict=True))
        return [[next(filled) for _ in best] for best in answers]

    return estimate


def log_probs(
    run: SavedModel, pairs: Sequence[tuple[str, str]], options: ConfigDict
) -> list[np.ndarray | None]:
    """Returns log P of each piece and of the end [T] of each translation, (source, target).

    None if a side is longer than `options`, config.decode, allow.
    """
    from transformer.families.scoring import score

    sources, targets = zip(*pairs, strict=True) if pairs else ((), ())
    sources = [tokenizer.tagged(options.tag, source) for source in sources]
    ids = zip(
        *(x.encode(y) for x, y in zip(run.vocabulary, (sources, targets), strict=True)), strict=True
    )
    longest = options.max_length, options.max_length + options.extra_length
    short = {
        i: both for i, both in enumerate(ids) if all(map(lambda x, n: len(x) <= n, both, longest))
    }
    with layout.launching(run.params):
        found = score.token_log_probs(run, [*short.values()], options)
    found = dict(zip(short, found, strict=True))
    return [found.get(i) for i in range(len(pairs))]


def features(log_probs_T: np.ndarray) -> tuple[float, ...]:
    """Returns what FEATURES names, of a translation."""
    return float(log_probs_T.mean()), float(log_probs_T.min())


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
