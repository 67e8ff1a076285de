"""What is measured: names for people, and 95 % intervals."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from sacrebleu.metrics.base import Metric

RESAMPLES, SEED = 1000, 12345  # of the bootstrap, as sacreBLEU's

# What each measure is: {key of a log line or result: a sentence}. First those of training, too.
TRAINED = {
    "loss": "Cross entropy less its minimum, in nats; lower is better.",
    "perplexity": "Per token, on a logarithmic scale; lower is better.",
    "accuracy": "Share that was predicted right.",
}
SCORES = {
    "bleu": "Of the validation's translations; higher is better.",
    "chrf": "F-score of character n-grams; higher is better.",
    "macro_f1": "Mean F1 of the classes; higher is better.",
    "word_perplexity": "Per word; lower is better.",
    "bits_per_character": "Lower is better.",
    "length_ratio": "Tokens in translations over those in references.",
}
SPELT = {"bleu": "BLEU", "chrf": "chrF", "macro_f1": "macro F1"}
IN_WORDS = (  # in this order, then the others
    *("bleu", "chrf", "perplexity", "word_perplexity", "bits_per_character"),
    *("accuracy", "macro_f1", "loss"),
)
LEFT_OUT = {"step", "skipped", "nats_per_token"}  # the perplexity's logarithm
TWO_DECIMALS = ("bleu", "chrf", "perplexity", "word_perplexity")


class Interval(NamedTuple):
    """A score with the ends of its 95 % interval."""

    value: float
    low: float
    high: float


def spelt(name: str) -> str:
    """Returns what a key of a log line is called: BLEU, macro F1, length ratio."""
    return SPELT.get(name, name.replace("_", " "))


def in_words(values: dict) -> str:
    """Returns the scores of a log line or result as text: 'BLEU 37.20, chrF 60.10, loss 1.2000'.

    A value may be an Interval: 'BLEU 37.20 [36.10, 38.35]'.
    """
    names = [name for name in dict.fromkeys([*IN_WORDS, *values]) if name not in LEFT_OUT]
    return ", ".join(
        f"{spelt(name)} {in_digits(name, values[name])}"
        for name in names
        if isinstance(values.get(name), float | Interval)
    )


def in_digits(name: str, score: float | Interval) -> str:
    """Returns a score as text, with its interval if it has one, without spaces to break a line."""
    number = lambda x: f"{x:,.{2 if name in TWO_DECIMALS else 4}f}"
    if not isinstance(score, Interval):
        return number(score)
    value, low, high = map(number, score)
    return f"{value}\u00a0[{low},\u00a0{high}]"


def bootstrap(
    metric: Metric,
    hypotheses: Sequence[str],
    references: Sequence[str],
    resamples: int = RESAMPLES,
) -> Interval:
    """Returns a corpus score, with the percentiles of sacreBLEU's bootstrap (Koehn 2004)."""
    score, resampled = of_resamples(metric, hypotheses, references, resamples)
    return Interval(score, *percentiles(resampled))


def of_resamples(
    metric: Metric, hypotheses: Sequence[str], references: Sequence[str], resamples: int
) -> tuple[float, np.ndarray]:
    """Returns a corpus score, and the score of each of sacreBLEU's resamples of its sentences.

    Calls inner functions of sacreBLEU, whose public ones return half the interval's width alone.
    """
    statistics = metric._extract_corpus_statistics(hypotheses, [references])
    score = metric._aggregate_and_compute(statistics).score
    # A row for each sentence, such as its counts of matching n-grams. The statistics of a resample
    # are the sum of its rows: items [0, 2, 2] count the third sentence twice.
    of_items = np.array(statistics, np.float32)
    drawn = (of_items[items].sum(axis=0) for items in draws(len(of_items), resamples))
    return score, np.array([metric._compute_score_from_stats(x).score for x in drawn])


def draws(count: int, resamples: int) -> np.ndarray:
    """Returns the indices of each resample's items, [resamples, count], as sacreBLEU draws them."""
    return np.random.default_rng(SEED).choice(count, size=(resamples, count))


def percentiles(resampled: np.ndarray) -> tuple[float, float]:
    """Returns the ends of the 95 % interval of the resamples' scores, as sacreBLEU does."""
    # Of 1000 resamples, 25 are cut off at each end.
    ordered = np.sort(resampled).tolist()
    cut = len(ordered) // 40
    return ordered[cut], ordered[-1 - cut]


def wilson(right: int, count: int) -> Interval:
    """Returns the share of `right` in `count` independent items, with Wilson's interval (1927)."""
    z, share = 1.96, right / count
    middle = share + z**2 / (2 * count)
    half = z * math.sqrt(share * (1 - share) / count + z**2 / (4 * count**2))
    low, high = ((middle + x) / (1 + z**2 / count) for x in (-half, half))
    return Interval(share, max(0.0, low), min(1.0, high))
