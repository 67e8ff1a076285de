"""Labelled bracketing, as EVALB (Sekine and Collins 1997) counts it with COLLINS.prm.

A bracket is a label with its first and last word. Words with a tag of PUNCTUATION are deleted
first, and so are constituents that have no other word. The tags of the reference decide, because a
parsed tree's are predicted. ADVP and PRT are one label. Tags are not scored.
"""

from collections import Counter
from collections.abc import Sequence

import numpy as np

from transformer.families.parsing import trees
from transformer.families.parsing.trees import Tree

PUNCTUATION = (",", ":", "``", "''", ".")
EQUAL = {"PRT": "ADVP"}


def score(hypotheses: Sequence[str], references: Sequence[str]) -> dict[str, float]:
    """Returns 'f1', 'precision', 'recall' and 'complete_match', 0 to 100, of trees as text.

    The first three are of the brackets of all sentences, 'complete_match' is the percentage of
    sentences whose brackets are all right. Sentences of punctuation alone do not count.
    """
    pairs = zip(map(trees.from_text, hypotheses), map(trees.from_text, references), strict=True)
    counts = [count(*pair) for pair in pairs]
    counts = [x for x in counts if x]  # without sentences of punctuation alone
    complete = sum(matched == predicted == expected for matched, predicted, expected in counts)
    matched, predicted, expected = np.sum([(0, 0, 0), *counts], axis=0).tolist()
    return {
        "f1": 200 * matched / max(1, predicted + expected),
        "precision": 100 * matched / max(1, predicted),
        "recall": 100 * matched / max(1, expected),
        "complete_match": 100 * complete / max(1, len(counts)),
    }


def count(hypothesis: Tree, reference: Tree) -> tuple[int, int, int] | None:
    """Returns the numbers of matching brackets, of the hypothesis's and of the reference's.

    None for a sentence of punctuation alone.
    """
    is_kept = [tag not in PUNCTUATION for tag in reference.tags]
    if not any(is_kept):
        return None
    # The kept words before each word: `He , too , left` has 0 1 1 2 2 3.
    before = np.cumsum([0, *is_kept]).tolist()
    predicted, expected = (_brackets(tree, before) for tree in (hypothesis, reference))
    return (predicted & expected).total(), predicted.total(), expected.total()


def _brackets(tree: Tree, before: Sequence[int]) -> Counter:
    """Returns a tree's brackets as a multiset; `before` has the kept words before each word."""
    brackets = ((EQUAL.get(x, x), before[i], before[j]) for x, i, j in tree.constituents)
    return Counter((label, start, stop) for label, start, stop in brackets if start < stop)
