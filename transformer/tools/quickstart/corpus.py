"""Makes the generated pairs a corpus."""

import functools

from transformer.runtime import progress
from transformer.tools.quickstart import grammar


@functools.cache
def corpus() -> tuple[tuple[str, str], dict[str, list[tuple[str, str]]]]:
    """Returns the languages and the pairs of each split, the same each time."""
    with progress.waiting("generate the corpus"):
        return ("ko", "en"), grammar.sentence_pairs(grammar.SEED)
