"""Scores of several runs on the same items, with 95 % intervals and p-values against the first.

A p-value is the probability of a difference at least as large if the two runs were equally good and
only the choice of the test items made the difference. It is small where the difference holds for
most choices of items. With many comparisons, some p-values are small by chance.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import sacrebleu
from scipy import stats

from transformer.tools.pages import measures
from transformer.tools.pages.measures import Interval


class Score(NamedTuple):
    """A run's score with its 95 % interval, and the p-value against the first run.

    The first run's p-value is 1: it does not differ from itself.
    """

    interval: Interval
    p: float


class Measure(NamedTuple):
    """One score of all runs, in their order, and how interval and p-value were computed."""

    scores: list[Score]
    how: str


def translations(
    hypotheses: Sequence[Sequence[str]],
    references: Sequence[str],
    *,
    tokenize: str,
    resamples: int,
) -> dict[str, Measure]:
    """Returns 'bleu' and 'chrf' of each run, by sacreBLEU's paired bootstrap (Koehn 2004).

    `hypotheses` has the lines of each run. sacreBLEU counts the resamples whose difference, less
    the mean difference, is larger than that of the runs. If two runs have equal hypotheses, all
    differences are zero, none is larger, and p would be the smallest possible: here it is 1.
    """
    metrics = {"bleu": sacrebleu.BLEU(tokenize=tokenize), "chrf": sacrebleu.CHRF()}
    measured = {}
    for name, metric in metrics.items():
        values, resampled = zip(
            *(measures.of_resamples(metric, x, references, resamples) for x in hypotheses),
            strict=True,
        )
        scores = []
        for lines, value, of_run in zip(hypotheses, values, resampled, strict=True):
            differences = np.abs(of_run - resampled[0])
            larger = differences - differences.mean() > abs(value - values[0])
            p = 1.0 if lines == hypotheses[0] else (1 + int(larger.sum())) / (1 + resamples)
            scores.append(Score(Interval(value, *measures.percentiles(of_run)), p))
        metric.n_bootstrap, metric.seed = resamples, measures.SEED  # for the signature
        measured[name] = Measure(scores, f"sacreBLEU's paired bootstrap, {metric.get_signature()}")
    return measured


def classifications(
    predictions: Sequence[Sequence[str]], labels: Sequence[str], *, resamples: int
) -> dict[str, Measure]:
    """Returns 'accuracy' and 'macro_f1' of each run's predictions, a label an item.

    Accuracy has the interval of Wilson and the p-value of McNemar's exact test, macro F1 those of a
    paired bootstrap.
    """
    from transformer.families.labels import classifiers

    names = sorted({*labels, *(label for run in predictions for label in run)})
    # Classes as indices, by which a confusion matrix [label, prediction] is counted.
    number = {name: i for i, name in enumerate(names)}
    truth = np.array([number[label] for label in labels])
    guesses = [np.array([number[label] for label in run]) for run in predictions]

    def macro_f1(guess: np.ndarray, items: np.ndarray) -> float:

        counts = classifiers.confusion(truth[items], guess[items], len(names))
        return float(np.nanmean(classifiers.precision_recall_f1(counts)[2]))

    correct = [guess == truth for guess in guesses]
    accuracy = [
        Score(measures.wilson(int(run.sum()), len(run)), mcnemar(correct[0], run))
        for run in correct
    ]
    scores = [lambda items, guess=guess: macro_f1(guess, items) for guess in guesses]
    return {
        "accuracy": Measure(accuracy, "p by McNemar's exact test, interval by Wilson's formula"),
        "macro_f1": _bootstrap(scores, len(truth), resamples),
    }


def mcnemar(correct: np.ndarray, other: np.ndarray) -> float:
    """Returns the p-value of McNemar's exact test, two-sided, of two runs' correct items (bools).

    Of the items that only one of the two runs has right, the number that the first has right is
    binomial with probability 1/2 if both are equally good. 1 without such items.
    """
    only, only_other = int((correct & ~other).sum()), int((other & ~correct).sum())
    if only + only_other == 0:
        return 1.0
    return float(stats.binomtest(only, only + only_other, 0.5).pvalue)


def texts(
    nats: Sequence[np.ndarray], characters: np.ndarray, *, resamples: int
) -> dict[str, Measure]:
    """Returns 'bits_per_character' of each run, by a paired bootstrap over the lines.

    `nats` has each run's cross entropy of each line, `characters` the length of each line. Scores
    are per character, because the tokens of different vocabularies are not the same.
    """
    scores = [
        lambda items, run=run: run[items].sum() / characters[items].sum() / np.log(2)
        for run in nats
    ]
    return {"bits_per_character": _bootstrap(scores, len(characters), resamples)}


def _bootstrap(
    scores: Sequence[Callable[[np.ndarray], float]], count: int, resamples: int
) -> Measure:
    """Returns the runs' scores with intervals and p-values, by a paired bootstrap.

    Each of `scores` is one run's function of items, an array of indices. All runs are scored on the
    same resamples, each as large as the test set of `count` items. The interval is that of the
    resamples' percentiles. The p-value is the share of resamples whose difference from the first
    run is further from the true difference than that is from zero (Efron and Tibshirani 1993,
    section 16.4).
    """
    samples = measures.draws(count, resamples)
    resampled = np.array([[score(items) for items in samples] for score in scores])  # [runs, R]
    values = [float(score(np.arange(count))) for score in scores]
    measured = []
    for value, of_run in zip(values, resampled, strict=True):
        interval = Interval(value, *measures.percentiles(of_run))
        difference = value - values[0]
        # Centred: under the null hypothesis the difference is 0, so the true one is subtracted.
        further = np.abs(of_run - resampled[0] - difference) >= abs(difference)
        p = (1 + int(further.sum())) / (1 + resamples)
        measured.append(Score(interval, p))
    return Measure(measured, f"paired bootstrap, {resamples} resamples, seed {measures.SEED}")
