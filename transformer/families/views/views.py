"""What a view draws: the case of a pair, typing errors of its source, sub-words of both sides.

A line of registry.VIEWS names a function that returns a `View`. Its arguments are the fields in
config.data.views: "case(capitals=0.1),typos". Views are drawn in the order of the key.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import sentencepiece

from transformer.data.tokenizer import Pieces
from transformer.errors import check_value


class View(NamedTuple):
    """How to draw the texts of a pair, and how to draw the sub-words of a text."""

    # (source, target, random) -> (source, target)
    texts: Callable = lambda source, target, random: (source, target)
    # (a side's vocabulary, normalised text, seed) -> ids with END; None: as `encode` has them
    ids: Callable | None = None


def case(capitals: float = 0.1, lower: float = 0.1) -> View:
    """Draws pairs in capitals, and other pairs whose source is in lower case, in these shares.

    A pair is in capitals on both sides, so that a headline is translated as a headline. The target
    of a source without capitals keeps its own. Both are Python's: ß becomes SS, i is never İ, and
    letters without case stay.
    """
    _check_share("capitals of case", capitals)
    _check_share("lower of case", lower, 1 - capitals)

    def texts(source: str, target: str, random: np.random.Generator) -> tuple[str, str]:
        draw = random.random()
        if draw < capitals:
            return source.upper(), target.upper()
        return source.lower() if draw < capitals + lower else source, target

    return View(texts)


def typos(share: float = 0.2, rate: float = 0.05) -> View:
    """Draws typing errors in a share of the sources, in each letter with probability `rate`."""
    _check_share("share of typos", share)
    _check_share("rate of typos", rate)

    def texts(source: str, target: str, random: np.random.Generator) -> tuple[str, str]:
        return misspelt(source, rate, random) if random.random() < share else source, target

    return View(texts)


def misspelt(text: str, rate: float, random: np.random.Generator) -> str:
    """Returns a text with typing errors, which is never blank.

    A letter is dropped, doubled, replaced by a letter of the text, or swapped with what follows.
    Digits stay, because the target has the same number.
    """
    characters = list(text)
    letters = np.flatnonzero([character.isalpha() for character in text])
    for i in letters[random.random(len(letters)) < rate].tolist():
        match random.integers(4):
            case 0:
                characters[i] = ""
            case 1:
                characters[i] *= 2
            case 2:
                characters[i] = text[random.choice(letters)]
            case 3:
                characters[i : i + 2] = characters[i : i + 2][::-1]
    changed = "".join(characters)
    return changed if changed.strip() else text


def subwords(alpha: float = 0.1) -> View:
    """Draws sub-words by SentencePiece: subword regularisation (Kudo 2018), BPE-dropout.

    Of 'bpe', alpha is the probability that a merge is dropped (Provilkov et al. 2020). Of
    'unigram', all segmentations have a probability in proportion to P^alpha.
    """
    _check_share("alpha of subwords", alpha)
    options = {"add_eos": True, "enable_sampling": True, "alpha": alpha, "nbest_size": -1}

    def ids(side: Pieces, text: str, seed: int) -> list[int]:
        # A list is tokenised by a new thread, whose random numbers begin with this seed. So the
        # draw does not depend on the texts before.
        sentencepiece.set_random_generator_seed(seed)
        return side.processor.encode([text], **options, num_threads=1)[0]

    return View(ids=ids)


def _check_share(what: str, value: float, most: float = 1) -> None:
    check_value(f"data.views: {what}", value, f"at least 0 and at most {most}")
