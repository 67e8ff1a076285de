"""config.decode.method='mbr': minimum Bayes risk decoding (Eikema and Aziz 2020).

It returns the sample with the highest mean utility against all samples, not the likeliest
translation.
"""

import collections
from collections.abc import Sequence

import sacrebleu

from transformer.data.tokenizer import Pieces
from transformer.decoding.methods import Decode, Method, check_num_hypotheses
from transformer.families.sampling import sampling


def method(decode: Decode, vocabulary: Pieces | None = None) -> Method:
    """Returns a method that ranks `num_samples` samples; UserError if num_hypotheses is larger."""
    check_num_hypotheses(decode, "num_samples")
    ranked = lambda scored: rank([text for text, _ in scored], utility=decode.utility)
    return sampling.samples(decode, decode.num_samples)._replace(rank=ranked)


def rank(texts: Sequence[str], *, utility: str) -> list[tuple[str, float]]:
    """Returns the distinct texts with their mean utility, best first; ties in order of appearance.

    The texts are samples from the model, so the mean against all of them estimates the expected
    utility, from 0 to 100. A text drawn twice counts twice. `utility` is sacreBLEU's sentence-level
    'chrf' or 'bleu'.
    """
    metric = sacrebleu.CHRF() if utility == "chrf" else sacrebleu.BLEU(effective_order=True)
    counts = collections.Counter(texts)

    # Each distinct text has one score against each distinct reference, weighted by its count.
    def mean_utility(text: str) -> float:
        scores = (n * metric.sentence_score(text, [y]).score for y, n in counts.items())
        return sum(scores) / len(texts)

    return sorted(((text, mean_utility(text)) for text in counts), key=lambda pair: -pair[1])
