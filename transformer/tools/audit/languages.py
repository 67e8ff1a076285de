"""Identifies the language of a line, by py3langid.

py3langid is naive Bayes over n-grams of bytes (Lui and Baldwin 2012, langid.py), with a model of
139 languages inside the package: nothing is downloaded. Its probabilities have a temperature that
grows with the root of a line's length: otherwise long lines would be far too certain.
"""

import functools
import math
import sys
from collections.abc import Sequence

import numpy as np
from py3langid.langid import MODEL_FILE, LanguageIdentifier

NO_LANGUAGE = "zxx"  # py3langid's code for numbers, programs and the like


@functools.cache
def identifier() -> LanguageIdentifier:
    """Returns py3langid's identifier of all languages; reading the model takes half a second."""
    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)


def evidence(lines: Sequence[str], language: str, other: str) -> tuple[np.ndarray, np.ndarray]:
    """Returns the evidence that each line is in another language than its side, in nats.

    The values are log P(other) - log P(language), where `other` is the language of the other side,
    and log P(likeliest) - log P(language). Both are 0 for a line whose likeliest language is
    `language` or none, and if py3langid does not know `language`.
    """
    to_other, to_likeliest = np.zeros((2, len(lines)), np.float32)
    if language in identifier().labels:
        for i, line in enumerate(lines):
            # `rank` scores and sorts all languages: only lines that seem to be in another language
            # pay for that. Its probabilities may underflow to 0, which has no logarithm.
            likeliest, _ = identifier().classify(line)
            if likeliest not in (language, NO_LANGUAGE):
                P = {code: max(p, sys.float_info.min) for code, p in identifier().rank(line)}
                to_other[i] = math.log(P.get(other, P[language]) / P[language])
                to_likeliest[i] = math.log(P[likeliest] / P[language])
    return to_other, to_likeliest
