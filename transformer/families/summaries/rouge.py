"""ROUGE (Lin 2004) of summaries: the overlap of n-grams with the reference.

google-research's rouge-score computes it, as ROUGE-1.5.5 does. Its own tokeniser keeps only ASCII
letters and digits, so that Korean has no tokens and scores 0. The tokeniser here has the same
tokens in ASCII text, and handles all other scripts. In scripts without spaces, such as Chinese and
Thai, only characters can be compared.
"""

import unicodedata
from collections.abc import Callable, Sequence
from types import SimpleNamespace

import numpy as np
from ml_collections import ConfigDict

from transformer.errors import optional

NAMES = ("rouge1", "rouge2", "rougeL")


def words(text: str) -> list[str]:
    """Returns runs of letters with their marks (accents, vowel signs) and digits, in lower case."""
    kept = lambda character: unicodedata.category(character)[0] in "LMN"
    return "".join(x if kept(x) else " " for x in text.lower()).split()


def characters(text: str) -> list[str]:
    """Returns the letters, marks and digits, in lower case."""
    return [*"".join(words(text))]


def word_scores(hypotheses: Sequence[str], references: Sequence[str]) -> dict[str, float]:
    """Returns ROUGE-1, ROUGE-2 and ROUGE-L (F1, 0 to 100), means over the items, of words."""
    items = item_scores(hypotheses, references, words)
    return {name: float(np.mean(values)) for name, values in items.items()}


def character_scores(hypotheses: Sequence[str], references: Sequence[str]) -> dict[str, float]:
    """Returns ROUGE of characters, because Korean words include their particles."""
    items = item_scores(hypotheses, references, characters)
    return {f"{name}_characters": float(np.mean(values)) for name, values in items.items()}


def word_rouge(config: ConfigDict) -> Callable:
    """Returns `word_scores`, as registry.SCORES has it; UserError without rouge-score."""
    return _registered(word_scores)


def character_rouge(config: ConfigDict) -> Callable:
    """Returns `character_scores`, likewise."""
    return _registered(character_scores)


def _registered(scores: Callable) -> Callable:
    """Returns `scores` with the arguments of registry.SCORES, of the first reference."""
    scores([""], [""])  # so that a missing package is named now
    return lambda _, hypotheses, references, __: scores(hypotheses, references[0])


def item_scores(
    hypotheses: Sequence[str], references: Sequence[str], tokens: Callable[[str], list[str]]
) -> dict[str, list[float]]:
    """Returns ROUGE of each item; `tokens` is `words` or `characters`.

    UserError without the package rouge-score, which is not in requirements.txt.
    """
    package = optional("rouge_score.rouge_scorer", "rouge-score", "ROUGE")
    scorer = package.RougeScorer(NAMES, tokenizer=SimpleNamespace(tokenize=tokens))
    scores = [scorer.score(*pair) for pair in zip(references, hypotheses, strict=True)]
    return {name: [100 * score[name].fmeasure for score in scores] for name in NAMES}
