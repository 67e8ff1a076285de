"""What a view draws: the case of a pair, typing errors of its source, sub-words of both sides.

A line of registry.VIEWS names a function that returns a `View`. Its arguments are the fields in
config.data.views: "case(capitals=0.1),typos". Texts are drawn in the order of the key.
"""

import re
from collections.abc import Callable
from random import Random
from typing import NamedTuple

from transformer.errors import check_value


class View(NamedTuple):
    """How to draw the texts of a pair, and how to draw the sub-words of a text."""

    # (source, target, random) -> (source, target)
    texts: Callable = lambda source, target, random: (source, target)
    # (a side's vocabulary, normalised text, random) -> ids with END; None for those of `encode`
    ids: Callable | None = None


def case(capitals: float = 0.1, lower: float = 0.1) -> View:
    """Draws pairs in capitals, and other pairs whose source is in lower case, in these shares.

    A pair is in capitals on both sides, so that a headline is translated as a headline. If a source
    is in lower case, its target is not changed. Case is that of Python's `upper` and `lower`: ß
    becomes SS, i is never İ, and letters without case stay.
    """
    check_value("data.views: capitals of case", capitals, "at least 0 and at most 1")
    check_value("data.views: lower of case", lower, f"at least 0 and at most {1 - capitals:g}")

    def texts(source: str, target: str, random: Random) -> tuple[str, str]:
        draw = random.random()
        if draw < capitals:
            return source.upper(), target.upper()
        return source.lower() if draw < capitals + lower else source, target

    return View(texts)


def typos(share: float = 0.2, rate: float = 0.05) -> View:
    """Draws typing errors in a share of the sources, in each letter with probability `rate`."""
    check_value("data.views: share of typos", share, "at least 0 and at most 1")
    check_value("data.views: rate of typos", rate, "at least 0 and at most 1")

    def texts(source: str, target: str, random: Random) -> tuple[str, str]:
        return misspelt(source, rate, random) if random.random() < share else source, target

    return View(texts)


def misspelt(text: str, rate: float, random: Random) -> str:
    """Returns a text with typing errors, which is never blank.

    A letter is dropped, doubled, replaced by a letter of the text, or swapped with the next letter.
    Digits and the letters beside them stay, because the target has the same number.
    """
    characters = list(text)
    letters = [x.start() for x in re.finditer(r"(?<!\d)[^\W\d_](?!\d)", text)]
    for i in [i for i in letters if random.random() < rate]:
        here, after = characters[i], characters[i + 1 : i + 2]
        other = text[random.choice(letters)]
        swapped = [*after, here] if i + 1 in letters else [2 * here, *after]
        errors = ["", *after], [2 * here, *after], [other, *after], swapped
        characters[i : i + 2] = random.choice(errors)
    wrong = "".join(characters)
    return wrong if wrong.strip() else text
