"""Kinds of results: how outputs are scored again, with intervals, and line by line.

The kind of a result is told by a score that it has, such as 'bleu'. A result of no kind is compared
by its scores alone.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import sacrebleu

from transformer.tools.compare import significance
from transformer.tools.compare.significance import Measure
from transformer.tools.pages.evaluated import Evaluated, tokenizer


class Kind(NamedTuple):
    """What can be compared of results, as functions."""

    measure: Callable[[Sequence[Evaluated], int], dict[str, Measure]]  # (runs, resamples)
    line_scores: Callable[[Evaluated], Sequence[float]]  # a score of each item
    shown: Callable[[float], str]  # an item's score as text
    about: str  # what the items are ordered by
    has_lengths: bool = False  # whether scores by the input's length say something
    is_text: bool = False  # whether outputs are texts, whose words can be those of the reference


def kind_of(run: Evaluated) -> Kind | None:
    """Returns the kind of a result; None if it has no outputs, or is of no kind."""
    if not run.sides:
        return None
    return next((kind for score, kind in KINDS.items() if score in run.result), None)


def _translations(runs: Sequence[Evaluated], resamples: int) -> dict[str, Measure]:
    """Returns BLEU and chrF of the runs' translations."""
    hypotheses, first = [run.side("output") for run in runs], runs[0]
    options = {"tokenize": tokenizer(first.result), "resamples": resamples}
    return significance.translations(hypotheses, first.side("reference"), **options)


def _chrf(run: Evaluated) -> list[float]:
    """Returns the chrF of each sentence."""
    chrf = sacrebleu.CHRF()
    pairs = zip(run.side("output"), run.side("reference"), strict=True)
    return [chrf.sentence_score(output, [reference]).score for output, reference in pairs]


def _classes(runs: Sequence[Evaluated], resamples: int) -> dict[str, Measure]:
    """Returns accuracy and macro F1 of the runs' predictions."""
    predictions = [run.side("output") for run in runs]
    return significance.classifications(predictions, runs[0].side("reference"), resamples=resamples)


def _right(run: Evaluated) -> list[float]:
    """Returns 1 for each item that is predicted right, else 0."""
    pairs = zip(run.side("output"), run.side("reference"), strict=True)
    return [float(prediction == label) for prediction, label in pairs]


def _texts(runs: Sequence[Evaluated], resamples: int) -> dict[str, Measure]:
    """Returns the bits per character of the runs' language models."""
    nats = [np.array(run.side("measure"), float) for run in runs]
    return significance.texts(nats, _characters(runs[0]), resamples=resamples)


def _bits(run: Evaluated) -> list[float]:
    """Returns the bits per character of each line."""
    nats = np.array(run.side("measure"), float)
    return (nats / np.log(2) / _characters(run)).tolist()


def _characters(run: Evaluated) -> np.ndarray:
    """Returns each line's number of characters, with its line break."""
    return np.array([len(line) + 1 for line in run.side("input")])


KINDS = {
    "bleu": Kind(
        _translations,
        _chrf,
        "chrF {:.1f}".format,
        "By the difference between the sentence's best and worst chrF.",
        has_lengths=True,
        is_text=True,
    ),
    "macro_f1": Kind(
        _classes,
        _right,
        lambda score: "right" if score else "wrong",
        "The first lines that some of the runs have right and some wrong.",
    ),
    "bits_per_character": Kind(
        _texts,
        _bits,
        "{:.2f} bits".format,
        "Lines by the difference of their bits per character; fewer are better.",
    ),
}
