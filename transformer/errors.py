"""UserError: a mistake of the user's, reported in one line; the checks and words of messages."""

import difflib
import operator
import struct
from collections.abc import Iterable, Sequence
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


def check_value(key: str, value: Any, rule: str | Sequence) -> None:
    """Raises UserError for a value of `config.KEY` that breaks its rule.

    A rule is words, such as "even and at least 2" or "below 1", or the values that are allowed.
    """
    if isinstance(rule, str):
        is_right, hint = all(_holds(value, part) for part in rule.split(" and ")), ""
    else:
        is_right, hint = value in rule, did_you_mean(str(value), map(str, rule))
        rule = f"one of {', '.join(map(repr, rule))}"
    if not is_right:
        raise UserError(f"config.{key} must be {rule}, found {value!r}{hint}")


def _holds(value: float, part: str) -> bool:
    """Returns whether a value satisfies a comparison, such as 'below 1'.

    Floats are compared as float32, in which the run computes: 0.99999999 is 1 there.
    """
    words, _, number = part.rpartition(" ")
    if number == "even":
        return value % 2 == 0
    if isinstance(value, float):
        [value] = struct.unpack("f", struct.pack("f", value))
    return COMPARISONS[words](value, float(number))


def quantity(number: int, noun: str, plural: str = "") -> str:
    """Returns a number with its noun: 1 line, 24,000 lines, 2 processes."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def did_you_mean(name: str, right: Iterable[str]) -> str:
    """Returns '; did you mean X?' for the closest of the valid names, '' if none is close."""
    nearest = difflib.get_close_matches(name, list(right), 1)
    return f"; did you mean {nearest[0]}?" if nearest else ""
