"""Kinds of results: how outputs are scored again, with intervals, and line by line.

The kind of a result is told by a score that it has, such as 'bleu'. A result of no kind is compared
by its scores alone.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import sacrebleu

from transformer.tools.compare import significance
from transformer.tools.compare.significance import Measure
from transformer.tools.pages.evaluated import Evaluated
from transformer.tools.pages.sentences import MARKED


class Kind(NamedTuple):
    """What can be compared of results, as functions."""

    roles: tuple[str, ...]  # of the columns that it needs; the last is what a run has made
    measure: Callable[[Sequence[Evaluated], int], dict[str, Measure]]  # (runs, resamples)
    line_scores: Callable[[Evaluated], Sequence[float]]  # a score of each item
    shown: Callable[[float], str]  # an item's score as text
    about: str  # what the items are ordered by
    has_lengths: bool = False  # whether scores by the input's length say something


def kind_of(run: Evaluated) -> Kind | None:
    """Returns the kind of a result; None if it has no outputs to score, or is of no kind."""
    for score, kind in KINDS.items():
        if score in run.result and run.sides.keys() >= set(kind.roles):
            return kind
    return None


def _chrf(run: Evaluated) -> list[float]:
    """Returns the chrF of each sentence."""
    chrf = sacrebleu.CHRF()
    pairs = zip(run.sides["output"], run.sides["reference"], strict=True)
    return [chrf.sentence_score(output, [reference]).score for output, reference in pairs]


def _right(run: Evaluated) -> list[float]:
    """Returns 1 for each item that is predicted right, else 0."""
    pairs = zip(run.sides["output"], run.sides["reference"], strict=True)
    return [float(prediction == label) for prediction, label in pairs]


def _bits(run: Evaluated) -> list[float]:
    """Returns the bits per character of each line."""
    return (significance.bits(run) / significance.characters(run)).tolist()


KINDS = {  # by the score that tells a kind
    "bleu": Kind(
        ("input", "reference", "output"),
        significance.translations,
        _chrf,
        "chrF {:.1f}".format,
        f"By the difference between the sentence's best and worst chrF. {MARKED}",
        has_lengths=True,
    ),
    "macro_f1": Kind(
        ("input", "reference", "output"),
        significance.classifications,
        _right,
        lambda score: "right" if score else "wrong",
        "The first lines that some of the runs have right and some wrong.",
    ),
    "bits_per_character": Kind(
        ("input", "measure"),
        significance.texts,
        _bits,
        "{:.2f} bits".format,
        "Lines by the difference of their bits per character; fewer are better.",
    ),
}
