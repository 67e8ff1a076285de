"""Kinds of results: how outputs are scored again, with intervals, and line by line.

A score that a result has, such as 'bleu', tells its kind. A result without a kind is compared by
its scores alone.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import sacrebleu

from transformer.tools.compare import significance
from transformer.tools.compare.significance import Measure
from transformer.tools.pages.evaluated import Evaluated
from transformer.tools.pages.sentences import MARKED


class Kind(NamedTuple):
    """Functions that score the outputs of a kind of result."""

    roles: tuple[str, ...]  # of the columns that are needed; the last is the run's output
    measure: Callable[[Sequence[Evaluated], int], dict[str, Measure]]  # (runs, resamples)
    line_scores: Callable[[Evaluated], Sequence[float]]  # a score of each item
    shown: Callable[[float], str]  # an item's score as text
    about: str  # says how the items that differ most are ordered
    has_lengths: bool = False  # whether scores by the length of the input are shown


def kind_of(run: Evaluated) -> Kind | None:
    """Returns the kind of a result; None for a result without outputs, or of no kind here."""
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
    """Returns 1.0 for each item with the right prediction, 0.0 for the others."""
    pairs = zip(run.sides["output"], run.sides["reference"], strict=True)
    return [float(prediction == label) for prediction, label in pairs]


def _bits(run: Evaluated) -> list[float]:
    """Returns the bits per character of each line."""
    return (significance.bits(run) / significance.characters(run)).tolist()


# {score that tells a kind: the kind}
KINDS = {
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
