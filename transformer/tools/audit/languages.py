"""Which language a line is in, by py3langid.

That is naive Bayes over n-grams of bytes (Lui and Baldwin 2012, langid.py), with a model of 139
languages inside the package: nothing is downloaded. Its probabilities are those of a temperature
that grows with the root of a line's length, without which long lines would be far too sure.
"""

import functools
import math
import sys
from collections.abc import Sequence

import numpy as np
from py3langid.langid import MODEL_FILE, LanguageIdentifier

NO_LANGUAGE = "zxx"  # its code for numbers, programs and the like


@functools.cache
def identifier() -> LanguageIdentifier:
    """Returns the identifier of all its languages; it takes half a second to read."""
    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)


def evidence(lines: Sequence[str], own: str, other: str) -> tuple[np.ndarray, np.ndarray]:
    """Returns log P(other) - log P(own) and log P(likeliest) - log P(own) of each line, in nats.

    `own` is the language of the lines' side, `other` that of the other side. Both results are 0 for
    a line whose likeliest language is `own` or none, and if py3langid does not know `own`.
    """
    to_other, to_likeliest = np.zeros((2, len(lines)), np.float32)
    if own in identifier().labels:
        for i, line in enumerate(lines):
            likeliest, _ = identifier().classify(line)
            if likeliest not in (own, NO_LANGUAGE):
                P = {code: max(p, sys.float_info.min) for code, p in identifier().rank(line)}
                to_other[i] = math.log(P.get(other, P[own]) / P[own])
                to_likeliest[i] = math.log(P[likeliest] / P[own])
    return to_other, to_likeliest
