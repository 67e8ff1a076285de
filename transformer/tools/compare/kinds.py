"""Kinds of results: how outputs of several runs are scored again, with intervals and p-values.

The kind follows from a score in the result, such as 'bleu'. A result without a kind is compared by
its scores alone.

A p-value is the probability of a difference from the first run at least as large as the measured
one, if the two runs were equally good and differed only by the sampling of test items. With many
comparisons, some p-values are small by chance.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from sacrebleu.metrics import CHRF
from scipy import stats

from transformer.tools.compare.evaluated import Evaluated
from transformer.tools.pages import measures
from transformer.tools.pages.measures import Interval
from transformer.tools.pages.sentences import MARKED


class Score(NamedTuple):
    """A run's score, its 95 % interval, and its p-value against the first run (whose own is 1)."""

    interval: Interval
    p: float


class Measure(NamedTuple):
    """One score of all runs in order, and the name of the method of intervals and p-values."""

    scores: list[Score]
    how: str


def translations(runs: Sequence[Evaluated], resamples: int) -> dict[str, Measure]:
    """Returns 'bleu' and 'chrf' of each run, by sacreBLEU's paired bootstrap (Koehn 2004).

    sacreBLEU counts the resamples whose difference, less the mean difference, is larger than that
    of the runs. For two runs with equal outputs all differences are zero, none is larger, and
    sacreBLEU's p is the smallest possible; here p is 1.
    """
    outputs = [run.sides["output"] for run in runs]
    references = [runs[0].sides[x] for x in measures.reference_roles(runs[0].result)]
    measured = {}
    for name, metric in measures.metrics(runs[0].result).items():
        # Paired: the seed is fixed, so that all runs are scored on the same resamples.
        scored = [measures.resampled_scores(metric, x, references, resamples) for x in outputs]
        values, resampled = zip(*scored, strict=True)
        metric.n_bootstrap, metric.seed = resamples, measures.SEED  # for the signature
        how = f"sacreBLEU's paired bootstrap, {metric.get_signature()}"
        measured[name] = _measure(values, resampled, _sacrebleu_exceeds, how)
    return measured


def classifications(runs: Sequence[Evaluated], resamples: int) -> dict[str, Measure]:
    """Returns 'accuracy' and 'macro_f1' of each run's predictions.

    Accuracy has Wilson's interval and the p-value of McNemar's exact test; macro F1 has both from a
    paired bootstrap.
    """
    from transformer.families.labels import classifiers

    sides = [runs[0].sides["reference"], *(run.sides["output"] for run in runs)]
    # Class names become indices into a confusion matrix [label, prediction].
    number = {name: i for i, name in enumerate(sorted(set().union(*sides)))}
    truth, *guesses = (np.array([number[name] for name in side]) for side in sides)

    def macro_f1(run: int, items: np.ndarray) -> float:
        # F1 is NaN for a class with neither items nor predictions in this resample.
        counts = classifiers.confusion(truth[items], guesses[run][items], len(number))
        return float(np.nanmean(classifiers.precision_recall_f1(counts)[2]))

    correct = [guess == truth for guess in guesses]
    accuracy = [
        Score(measures.wilson(int(right.sum()), len(right)), mcnemar(correct[0], right))
        for right in correct
    ]
    return {
        "accuracy": Measure(accuracy, "p by McNemar's exact test, interval by Wilson's formula"),
        "macro_f1": _bootstrap(macro_f1, len(guesses), len(truth), resamples),
    }


def mcnemar(first: np.ndarray, second: np.ndarray) -> float:
    """Returns the two-sided p-value of McNemar's exact test; the masks are of correct items.

    Null hypothesis: of the items that exactly one run predicts right, the first run's number is
    binomial with probability 1/2. p is 1 without such items.
    """
    # 12 items that only the first has right, 4 that only the second has: p = 0.077.
    only_first, only_second = int((first & ~second).sum()), int((second & ~first).sum())
    if only_first + only_second == 0:
        return 1.0
    return float(stats.binomtest(only_first, only_first + only_second, 0.5).pvalue)


def texts(runs: Sequence[Evaluated], resamples: int) -> dict[str, Measure]:
    """Returns 'bits_per_character' of each run, by a paired bootstrap over the lines.

    Per character, because two vocabularies split the same text into different numbers of tokens.
    """
    line_bits = [bits(run) for run in runs]
    lengths = characters(runs[0])
    # A resample's score is the sum of bits over the sum of characters, as in an evaluation: not the
    # mean over the lines.
    score = lambda run, items: line_bits[run][items].sum() / lengths[items].sum()
    return {"bits_per_character": _bootstrap(score, len(runs), len(lengths), resamples)}


def bits(run: Evaluated) -> np.ndarray:
    """Returns the cross entropy of each line in bits; the outputs have nats."""
    return np.array(run.sides["measure"], float) / np.log(2)


def characters(run: Evaluated) -> np.ndarray:
    """Returns each line's number of characters, with its line break."""
    return np.array([len(line) + 1 for line in run.sides["input"]])


def _bootstrap(score: Callable, runs: int, count: int, resamples: int) -> Measure:
    """Returns the runs' scores with intervals and p-values, by a paired bootstrap.

    `score(run, items)` takes indices of a run and of items. All runs are scored on the same
    resamples of `count` items, the size of the test set.
    """
    samples = measures.draws(count, resamples)
    values = [float(score(run, np.arange(count))) for run in range(runs)]
    resampled = [np.array([score(run, items) for items in samples]) for run in range(runs)]
    how = f"paired bootstrap, {resamples} resamples, seed {measures.SEED}"
    return _measure(values, resampled, _exceeds, how)


def _exceeds(difference: float, resampled: np.ndarray) -> np.ndarray:
    """Returns which resampled differences are as far from `difference` as it is from 0, or farther.

    Subtracting it centres the resampled differences at 0, the null hypothesis (Efron and Tibshirani
    1993, section 16.4).
    """
    return np.abs(resampled - difference) >= abs(difference)


def _sacrebleu_exceeds(difference: float, resampled: np.ndarray) -> np.ndarray:
    """Returns which resamples sacreBLEU counts: it subtracts the mean of the absolute values."""
    distances = np.abs(resampled)
    return distances - distances.mean() > abs(difference)


def _measure(
    values: Sequence[float],
    resampled: Sequence[np.ndarray],
    exceeds: Callable[[float, np.ndarray], np.ndarray],
    how: str,
) -> Measure:
    """Returns the runs' scores, from the scores of the test set and those of its resamples.

    Intervals are percentiles of the resamples. The p-value is the share of resamples that `exceeds`
    counts; 1 if every resample has the score of the first run.
    """
    scores = []
    for value, scores_R in zip(values, resampled, strict=True):
        differences = scores_R - resampled[0]
        counted = int(exceeds(value - values[0], differences).sum())
        # The test set counts as a resample, so p > 0: with 1000 resamples p is at least 1/1001.
        p = (1 + counted) / (1 + len(scores_R)) if differences.any() else 1.0
        scores.append(Score(Interval(value, *measures.percentiles(scores_R)), p))
    return Measure(scores, how)


class Kind(NamedTuple):
    """Functions that score the outputs of a kind of result."""

    roles: tuple[str, ...]  # of the columns; the last is the run's output
    measure: Callable[[Sequence[Evaluated], int], dict[str, Measure]]  # (runs, resamples)
    line_scores: Callable[[Evaluated], Sequence[float]]  # a score of each item
    shown: Callable[[float], str]  # an item's score as text
    about: str  # the order of the items on the page, in words
    has_lengths: bool = False  # whether the page has scores by input length


def kind_of(run: Evaluated) -> Kind | None:
    """Returns the kind of a result; None without outputs or without a kind in KINDS."""
    for score, kind in KINDS.items():
        if score in run.result and run.sides.keys() >= set(kind.roles):
            return kind
    return None


def _chrf(run: Evaluated) -> list[float]:
    """Returns the chrF of each sentence."""
    chrf = CHRF()
    pairs = zip(run.sides["output"], run.sides["reference"], strict=True)
    return [chrf.sentence_score(output, [reference]).score for output, reference in pairs]


def _right(run: Evaluated) -> list[float]:
    """Returns 1.0 for each item with the right prediction, 0.0 for the others."""
    pairs = zip(run.sides["output"], run.sides["reference"], strict=True)
    return [float(prediction == label) for prediction, label in pairs]


def _bits(run: Evaluated) -> list[float]:
    """Returns the bits per character of each line."""
    return (bits(run) / characters(run)).tolist()


# {score that identifies a kind: the kind}
KINDS = {
    "bleu": Kind(
        ("input", "reference", "output"),
        translations,
        _chrf,
        "chrF {:.1f}".format,
        f"By the difference between the sentence's best and worst chrF. {MARKED}",
        has_lengths=True,
    ),
    "macro_f1": Kind(
        ("input", "reference", "output"),
        classifications,
        _right,
        lambda score: "right" if score else "wrong",
        "The first lines that some of the runs have right and some wrong.",
    ),
    "bits_per_character": Kind(
        ("input", "measure"),
        texts,
        _bits,
        "{:.2f} bits".format,
        "Lines by the difference of their bits per character; fewer are better.",
    ),
}
