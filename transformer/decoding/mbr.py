"""Minimum Bayes risk decoding: ranks samples by their mean utility against all samples."""

import collections
from collections.abc import Sequence

import sacrebleu

UTILITIES = ("chrf", "bleu")


def rank(texts: Sequence[str], *, utility: str) -> list[tuple[str, float]]:
    """Returns the distinct texts with their mean utility, best first; ties in order of appearance.

    The texts are samples from the model, so the mean against all of them estimates the expected
    utility, from 0 to 100 (Eikema and Aziz 2020). A text drawn twice counts twice. `utility` is
    'chrf' or 'bleu', both sentence-level, by sacreBLEU.
    """
    metric = sacrebleu.CHRF() if utility == "chrf" else sacrebleu.BLEU(effective_order=True)
    counts = collections.Counter(texts)
    ranking = []
    # Each distinct text is scored once against each distinct reference, weighted by its count.
    for text in counts:
        total = sum(
            count * metric.sentence_score(text, [reference]).score
            for reference, count in counts.items()
        )
        ranking.append((text, total / len(texts)))
    return sorted(ranking, key=lambda pair: -pair[1])
