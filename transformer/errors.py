"""UserError: a mistake of the user's, reported in one line; the checks and words of messages."""

import difflib
import operator
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

COMPARISONS = {
    "at least": operator.ge,
    "above": operator.gt,
    "at most": operator.le,
    "below": operator.lt,
}


class UserError(ValueError):
    """Raised where an argument, a config value or an input file cannot work.

    Its text is one line: what was expected, what was found, and what would be right. launch.py
    prints it and exits with status 2; any other exception is a bug, printed with its traceback.
    """


def check_values(
    section: str, options: Mapping[str, Any], rules: Mapping[str, str | Sequence]
) -> None:
    """Raises UserError for the first value of `config.SECTION` that breaks its rule.

    A rule is the message's own words, or the values that are allowed:

        {"size": "even and at least 2", "rate": "below 1", "kind": ("bpe", "unigram")}
    """
    for key, rule in rules.items():
        value = options[key]
        if isinstance(rule, str):
            is_right = all(_holds(value, part) for part in rule.split(" and "))
        else:
            is_right, choices = value in rule, rule
            rule = f"one of {', '.join(map(repr, choices))}"
        if not is_right:
            hint = did_you_mean(value, choices) if isinstance(value, str) else ""
            raise UserError(f"config.{section}.{key} must be {rule}, found {value!r}{hint}")


def _holds(value: float, part: str) -> bool:
    """Returns whether a value satisfies a comparison, such as 'below 1'.

    Floats are compared as float32, in which the run computes: 0.99999999 is 1 there.
    """
    import numpy as np  # not above: a mistyped command is to be answered at once

    words, _, number = part.rpartition(" ")
    if not isinstance(value, int | float):
        return False
    if number == "even":
        return value % 2 == 0
    bound = 2**31 if number == "2^31" else float(number)
    return COMPARISONS[words](np.float32(value) if isinstance(value, float) else value, bound)


def quantity(number: int, noun: str, plural: str = "") -> str:
    """Returns a number with its noun: 1 line, 24,000 lines, 2 processes."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def did_you_mean(name: str, right: Iterable[str]) -> str:
    """Returns '; did you mean X?' for the closest of the valid names, '' if none is close."""
    nearest = difflib.get_close_matches(name, list(right), 1)
    return f"; did you mean {nearest[0]}?" if nearest else ""
