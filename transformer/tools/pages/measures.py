"""The names and descriptions of scores, scores as text, and 95 % intervals."""

import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import sacrebleu
from sacrebleu.metrics.base import Metric

from transformer.errors import UserError

RESAMPLES, SEED = 1000, 12345  # of the bootstrap; sacreBLEU's defaults

# {key of a log line or result: (name, decimals, description)}, in the order of `in_words`.
MEASURES = {
    "bleu": ("BLEU", 2, "Of the validation's translations; higher is better."),
    "chrf": ("chrF", 2, "F-score of character n-grams; higher is better."),
    "bleu_intl": ("BLEU by the tokeniser intl", 2, "Higher is better."),
    "bleu_lower": ("BLEU in lower case", 2, "Higher is better."),
    "bleu_paper": ("tokenised BLEU, as the paper's", 2, "Higher is better."),
    "ter": ("TER", 2, "Edits for 100 words of the reference; lower is better."),
    "comet": ("COMET", 4, "Of a network that has learnt people's judgements; higher is better."),
    "rouge1": ("ROUGE-1", 2, "Of words, F1; higher is better."),
    "rouge2": ("ROUGE-2", 2, "Of two words in a row, F1; higher is better."),
    "rougeL": ("ROUGE-L", 2, "Of the longest common subsequence, F1; higher is better."),
    "rouge1_characters": ("ROUGE-1 of characters", 2, "F1; higher is better."),
    "rouge2_characters": ("ROUGE-2 of characters", 2, "F1; higher is better."),
    "rougeL_characters": ("ROUGE-L of characters", 2, "F1; higher is better."),
    "f1": ("F1", 2, "Of labelled brackets, by EVALB; higher is better."),
    "precision": ("precision", 2, "Share of the brackets found that are right, in percent."),
    "recall": ("recall", 2, "Share of the reference's brackets that are found, in percent."),
    "complete_match": ("complete match", 2, "Sentences whose brackets are all right, in percent."),
    "perplexity": ("perplexity", 2, "Per token, on a logarithmic scale; lower is better."),
    "word_perplexity": ("word perplexity", 2, "Per word; lower is better."),
    "bits_per_character": ("bits per character", 4, "Lower is better."),
    "accuracy": ("accuracy", 4, "Share that was predicted right."),
    "macro_f1": ("macro F1", 4, "Mean F1 of the classes; higher is better."),
    "loss": ("loss", 4, "What training minimises; lower is better."),
    "length_ratio": ("length ratio", 4, "Tokens in translations over those in references."),
}
NOT_SHOWN = {"step", "skipped", "nats_per_token"}  # the last is the perplexity's logarithm


class Interval(NamedTuple):
    """A score and its 95 % interval."""

    value: float
    low: float
    high: float


def name_of(key: str) -> str:
    """Returns the name of a key of a log line: BLEU, macro F1, strange score."""
    return MEASURES[key][0] if key in MEASURES else key.replace("_", " ")


def title(key: str) -> str:
    """Returns the name of a key as a title: BLEU, chrF, Strange score."""
    name = name_of(key)
    return name.capitalize() if name.islower() else name


def in_words(values: dict, first: str = "") -> str:
    """Returns the scores of a log line or result as text: 'BLEU 37.20, chrF 60.10, loss 1.2000'.

    A value may be an Interval: 'BLEU 37.20 [36.10, 38.35]'. Half the width of an interval, NAME_ci,
    follows its score: 'TER 53.92 ± 1.40'. The score `first`, if shown, precedes those of MEASURES.
    """
    texts = []
    for key in dict.fromkeys([first, *MEASURES, *values]):
        score = values.get(key)
        is_shown = key not in NOT_SHOWN and not key.endswith("_ci")
        if is_shown and isinstance(score, float | Interval):
            half = values.get(f"{key}_ci")
            margin = f"\u00a0±\u00a0{half:.2f}" if half and isinstance(score, float) else ""
            texts.append(f"{name_of(key)} {in_digits(key, score)}{margin}")
    return ", ".join(texts)


def in_digits(key: str, score: float | Interval) -> str:
    """Returns a score as text, with its interval if there is one, joined by no-break spaces."""
    decimals = MEASURES[key][1] if key in MEASURES else 4
    number = lambda x: f"{x:,.{decimals}f}"
    if not isinstance(score, Interval):
        return number(score)
    value, low, high = map(number, score)
    return f"{value}\u00a0[{low},\u00a0{high}]"


def tokenizer(result: dict) -> str:
    """Returns the name of sacreBLEU's tokenizer in a result's signature; "" without a signature.

    UserError for a signature that names no tokenizer of sacreBLEU.
    """
    # A signature such as nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:2.4.3 gives 13a.
    signature = result.get("signature", "")
    named = re.search(r"\|tok:([^|]+)", signature)
    if signature and not (named and named[1] in sacrebleu.BLEU.TOKENIZERS):
        raise UserError(f"damaged: {signature!r} is not sacreBLEU's: evaluate the run again")
    return named[1] if named else ""


def metrics(result: dict) -> dict[str, Metric]:
    """Returns sacreBLEU's BLEU, with the tokenizer of a result or the default one, and chrF."""
    return {"bleu": sacrebleu.BLEU(tokenize=tokenizer(result) or None), "chrf": sacrebleu.CHRF()}


def reference_roles(result: dict) -> list[str]:
    """Returns the roles of the references among a result's columns: 'reference', 'reference2'."""
    return [x for x in result.get("columns", {}) if x.startswith("reference")] or ["reference"]


def bootstrap(
    metric: Metric, hypotheses: Sequence[str], references: Sequence[Sequence[str]]
) -> Interval:
    """Returns a corpus score with the interval of sacreBLEU's bootstrap (Koehn 2004).

    `references` has a list of lines for each reference.
    """
    score, resampled = resampled_scores(metric, hypotheses, references, RESAMPLES)
    return Interval(score, *percentiles(resampled))


def resampled_scores(
    metric: Metric, hypotheses: Sequence[str], references: Sequence[Sequence[str]], resamples: int
) -> tuple[float, np.ndarray]:
    """Returns a corpus score, and the score of each of sacreBLEU's resamples of its sentences.

    Calls private methods of sacreBLEU, because public ones return only half the interval's width.
    """
    statistics = metric._extract_corpus_statistics(hypotheses, references)
    score = metric._aggregate_and_compute(statistics).score
    # A row of statistics per sentence, such as counts of matching n-grams. Those of a resample are
    # the sum of its rows: items [0, 2, 2] count the third sentence twice.
    rows = np.array(statistics, np.float32)
    sums = (rows[items].sum(axis=0) for items in draws(len(rows), resamples))
    return score, np.array([metric._compute_score_from_stats(x).score for x in sums])


def draws(count: int, resamples: int) -> np.ndarray:
    """Returns the indices of each resample's items, [resamples, count], as sacreBLEU draws them."""
    return np.random.default_rng(SEED).choice(count, size=(resamples, count))


def percentiles(resampled: np.ndarray) -> tuple[float, float]:
    """Returns the ends of the 95 % interval of the resamples' scores, as sacreBLEU does."""
    # Of 1000 resamples, 25 are cut at each end: indices 25 and 974.
    ordered = np.sort(resampled).tolist()
    cut = len(ordered) // 40
    return ordered[cut], ordered[-1 - cut]


def wilson(right: int, count: int) -> Interval:
    """Returns the share of `right` in `count` independent items, with Wilson's interval (1927)."""
    from scipy import stats  # on use, because it is large

    low, high = stats.binomtest(right, count).proportion_ci(method="wilson")
    return Interval(right / count, float(low), float(high))
