"""BLEU by further tokenisers, TER and 95 % intervals, by sacreBLEU; empty and over-long outputs."""

from collections.abc import Callable, Sequence

import numpy as np
from ml_collections import ConfigDict
from sacrebleu.metrics import BLEU, CHRF, TER
from sacrebleu.metrics.base import Metric

from transformer.data.tokenizer import Vocabulary

RESAMPLES, SEED = 1000, 12345  # of the bootstrap; sacreBLEU's defaults

Lines = Sequence[str]


def published(config: ConfigDict) -> Callable:
    """Returns a function that returns the scores of sacreBLEU that papers report.

    'bleu_intl' is by the tokeniser 'intl' of mteval-v14, 'bleu_lower' without case. Both, 'bleu'
    and 'chrf' have half the width of their 95 % interval, NAME_ci. 'empty' and 'over_long' count
    outputs.
    """
    metrics = {
        "bleu": BLEU(tokenize=config.evaluate.tokenize),
        "bleu_intl": BLEU(tokenize="intl"),
        "bleu_lower": BLEU(lowercase=True, tokenize=config.evaluate.tokenize),
        "chrf": CHRF(),
    }

    def score(
        sources: Lines, hypotheses: Lines, references: Sequence[Lines], vocabulary: Vocabulary
    ) -> dict[str, float]:
        scores = {}
        for name, metric in metrics.items():
            scores |= with_interval(name, metric, hypotheses, references)
        del scores["bleu"], scores["chrf"]  # which every result has
        return {
            **scores,
            "empty": sum(not line.strip() for line in hypotheses),
            "over_long": over_long(sources, hypotheses, vocabulary, config.decode.extra_length),
        }

    return score


def ter(config: ConfigDict) -> Callable:
    """Returns a function that returns the translation edit rate (Snover et al. 2006) of words.

    Case does not count, as by default in sacreBLEU and tercom.
    """
    return lambda _, hypotheses, references, __: with_interval("ter", TER(), hypotheses, references)


def with_interval(
    name: str, metric: Metric, hypotheses: Lines, references: Sequence[Lines]
) -> dict[str, float]:
    """Returns {name: the corpus score, name_ci: half the width of its 95 % interval}.

    The interval is that of sacreBLEU's bootstrap over the sentences (Koehn 2004). Its public method
    needs 0.8 GB for chrF of 10,000 sentences, and fails if a resample has no match.
    """
    statistics = metric._extract_corpus_statistics(hypotheses, references)
    score = float(metric._aggregate_and_compute(statistics).score)
    # A row of counts per sentence; those of a resample are the sum of its rows.
    rows = np.array(statistics, np.float32)
    draws = np.random.default_rng(SEED).choice(len(rows), size=(RESAMPLES, len(rows)))
    sums = (rows[items].sum(axis=0) for items in draws)
    resampled = sorted(float(metric._compute_score_from_stats(x).score) for x in sums)
    cut = RESAMPLES // 40  # 2.5 % at each end
    return {name: score, f"{name}_ci": (resampled[-1 - cut] - resampled[cut]) / 2}


def over_long(sources: Lines, hypotheses: Lines, vocabulary: Vocabulary, extra: int) -> int:
    """Returns how many outputs are as long as the search allows, which has probably cut them.

    The limit is `extra` pieces (config.decode.extra_length) more than the source has. An output's
    pieces are those of its text, which may be fewer than the search has taken.
    """
    sides = vocabulary.source.encode(sources), vocabulary.target.encode(hypotheses)
    return sum(len(output) >= len(source) + extra for source, output in zip(*sides, strict=True))
