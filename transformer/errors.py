"""UserError: a mistake of the user's, in one line; which errors are one; words of messages."""

import difflib
import errno
import operator
import os
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


def one_line(error: Exception) -> str:
    """Returns the one line that explains a UserError, a path that fails, or a full disk; "" a bug.

    A file that is missing is a bug, because the paths of a user are checked.
    """
    if isinstance(error, UserError):
        return str(error)
    if isinstance(error, OSError) and error.filename and not isinstance(error, FileNotFoundError):
        return f"{error.filename}: {error.strerror}"
    # Full: out of bytes, inodes or quota, or over the largest size of a file. Orbax, ArrayRecord
    # and safetensors raise errors of their own types, with the system's words.
    for reason in map(os.strerror, (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)):
        if reason in str(error):
            place = " ".join(str(error).split())
            return f"{reason}: free some space (see df -h and df -i) and start again ({place})"
    return ""


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
    """Returns whether a value satisfies a comparison, such as 'below 1'."""
    words, _, number = part.rpartition(" ")
    if number == "even":
        return value % 2 == 0
    return COMPARISONS[words](value, float(number))


def quantity(number: int, noun: str, plural: str = "") -> str:
    """Returns a number with its noun: 1 line, 24,000 lines, 2 processes."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def did_you_mean(name: str, right: Iterable[str]) -> str:
    """Returns '; did you mean X?' for the closest of the valid names, '' if none is close."""
    nearest = difflib.get_close_matches(name, list(right), 1)
    return f"; did you mean {nearest[0]}?" if nearest else ""
