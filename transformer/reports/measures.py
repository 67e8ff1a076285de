"""What is measured: names for people, and 95 % intervals."""

import json
import math
from collections.abc import Sequence

from sacrebleu.metrics.base import Metric

RESAMPLES = 1000  # of the bootstrap

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


def spelt(name: str) -> str:
    """Returns what a key of a log line is called: BLEU, macro F1, length ratio."""
    return SPELT.get(name, name.replace("_", " "))


def in_words(values: dict) -> str:
    """Returns the scores of a log line or result as text: 'BLEU 37.20, chrF 60.10, loss 1.2000'."""
    names = [name for name in dict.fromkeys([*IN_WORDS, *values]) if name not in LEFT_OUT]
    return ", ".join(
        f"{spelt(name)} {values[name]:,.{2 if name in TWO_DECIMALS else 4}f}"
        for name in names
        if isinstance(values.get(name), float)
    )


def bootstrap(
    metric: Metric,
    hypotheses: Sequence[str],
    references: Sequence[str],
    resamples: int = RESAMPLES,
) -> tuple[float, float]:
    """Returns a corpus score, and the half width of its 95 % interval, by sacreBLEU's bootstrap
    (Koehn 2004)."""
    score = metric.corpus_score(hypotheses, [references], n_bootstrap=resamples)
    report = json.loads(score.format(is_json=True, signature=metric.get_signature().format()))
    return score.score, report.get("confidence_var", 0.0)  # left out where all scores are 0


def wilson(share: float, count: int) -> tuple[float, float]:
    """Returns the 95 % interval of a share of `count` independent items (Wilson 1927)."""
    z = 1.96
    middle = share + z**2 / (2 * count)
    half = z * math.sqrt(share * (1 - share) / count + z**2 / (4 * count**2))
    return (middle - half) / (1 + z**2 / count), (middle + half) / (1 + z**2 / count)
