"""BLEU as the paper counts it: tokenised by Moses, with German compounds split, by multi-bleu.perl.

tensor2tensor's get_ende_bleu.sh does so with scripts of Moses. sacremoses is the tokeniser of Moses
in Python. Tokenised BLEU is often a point or more above or below sacreBLEU's; compare it only with
other tokenised BLEU.
"""

import functools
import re
from collections.abc import Callable, Sequence

from ml_collections import ConfigDict
from sacrebleu.metrics import BLEU

from transformer.data.tokenizer import Vocabulary
from transformer.errors import optional
from transformer.families.metrics.published import Lines, with_interval


def paper(config: ConfigDict) -> Callable:
    """Returns a function that returns 'bleu_paper' and half its 95 % interval, 'bleu_paper_ci'.

    UserError without the package sacremoses, which is not in requirements.txt.
    """
    tokenise = tokeniser(config.data.target_language)

    def score(_: Lines, hypotheses: Lines, references: Sequence[Lines], __: Vocabulary) -> dict:
        tokenised = [[*map(tokenise, texts)] for texts in (hypotheses, *references)]
        return with_interval("bleu_paper", multi_bleu(), tokenised[0], tokenised[1:])

    return score


def tokeniser(language: str) -> Callable[[str], str]:
    """Returns a function that tokenises a line as Moses does, and splits German compounds."""
    package = optional("sacremoses", "sacremoses", "config.evaluate.scores: 'paper'")
    moses = package.MosesTokenizer(lang=language)
    tokenise = functools.partial(moses.tokenize, return_str=True)
    # tensor2tensor has the split for German only.
    return (lambda line: split_compounds(tokenise(line))) if language == "de" else tokenise


def split_compounds(line: str) -> str:
    """Returns a tokenised line with its hyphened words split.

    Example: 'rich-text format' becomes 'rich ##AT##-##AT## text format'.
    """
    return re.sub(r"(\S)-(\S)", r"\1 ##AT##-##AT## \2", line)


def multi_bleu() -> BLEU:
    """Returns BLEU as multi-bleu.perl counts it, of tokenised text, cased and not smoothed."""
    return BLEU(tokenize="none", smooth_method="none", force=True)
