"""ROUGE (Lin 2004) of summaries in any language: how many n-grams are those of the reference.

Computed by google-research's rouge-score, which reproduces ROUGE-1.5.5. Its own tokeniser keeps
ASCII letters and digits alone, so that Korean has no tokens and scores 0. The one here has the same
tokens in ASCII text (but for the underscore) and finds those of all other scripts.
"""

import re
from collections.abc import Sequence
from types import SimpleNamespace

import numpy as np

from transformer.errors import UserError

NAMES = ("rouge1", "rouge2", "rougeL")
WORD, CHARACTER = r"\w+", r"\w"


def of_words(hypotheses: Sequence[str], references: Sequence[str]) -> dict[str, float]:
    """Returns ROUGE-1, ROUGE-2 and ROUGE-L (F1, 0 to 100), means over the items, of words."""
    items = of_items(hypotheses, references, WORD)
    return {name: float(np.mean(values)) for name, values in items.items()}


def of_characters(hypotheses: Sequence[str], references: Sequence[str]) -> dict[str, float]:
    """Returns the same of letters and digits: Korean words carry their particles."""
    items = of_items(hypotheses, references, CHARACTER)
    return {f"{name}_characters": float(np.mean(values)) for name, values in items.items()}


def of_items(
    hypotheses: Sequence[str], references: Sequence[str], token: str
) -> dict[str, list[float]]:
    """Returns ROUGE of each item; `token` is the pattern of a token, case is ignored.

    UserError without the package rouge-score, which is not in requirements.txt.
    """
    try:
        from rouge_score.rouge_scorer import RougeScorer
    except ImportError as error:
        raise UserError("ROUGE needs a package: pip install rouge-score") from error
    tokenizer = SimpleNamespace(tokenize=lambda text: re.findall(token, text.lower()))
    scorer = RougeScorer(NAMES, tokenizer=tokenizer)
    scores = [scorer.score(*pair) for pair in zip(references, hypotheses, strict=True)]
    return {name: [100 * score[name].fmeasure for score in scores] for name in NAMES}
