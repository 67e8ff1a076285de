"""Minimum Bayes risk: of many translations of a sentence, the one most like all the others."""

import collections
from collections.abc import Sequence

import sacrebleu

UTILITIES = ("chrf", "bleu")


def ranked(texts: Sequence[str], *, utility: str) -> list[tuple[str, float]]:
    """The different texts, each with its mean utility against all of them, best first.

    The texts are samples from the model, so the mean is an estimate of the expected utility (Eikema
    and Aziz 2020), from 0 to 100; texts that were drawn more often count as often. `utility` is
    'chrf' or 'bleu' of a sentence, both sacreBLEU's.
    """
    metric = sacrebleu.CHRF() if utility == "chrf" else sacrebleu.BLEU(effective_order=True)
    counts = collections.Counter(texts)
    found = []
    for text in counts:
        total = sum(
            count * metric.sentence_score(text, [other]).score for other, count in counts.items()
        )
        found.append((text, total / len(texts)))
    return sorted(found, key=lambda pair: -pair[1])
