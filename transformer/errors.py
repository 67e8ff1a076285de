"""UserError, a mistake reported in one line; checks of values and packages; words of messages."""

import difflib
import errno
import importlib
import operator
import os
from collections.abc import Iterable, Sequence
from types import ModuleType
from typing import Any

COMPARISONS = {
    "at least": operator.ge,
    "above": operator.gt,
    "at most": operator.le,
    "below": operator.lt,
}


class UserError(ValueError):
    """Raised for an argument, a config value or an input file that cannot work.

    The message is the value expected, the value found, and a hint; its lines become one line.
    launch.py prints it and exits with status 2. Any other exception is a bug, printed with its
    traceback.
    """

    def __init__(self, message: str):
        super().__init__(" ".join(filter(None, map(str.strip, message.splitlines()))))


def one_line(error: Exception) -> str:
    """Returns one line that explains a UserError, a failing path or a full disk; "" for a bug.

    A missing file is a bug, because a user's paths are checked first.
    """
    if isinstance(error, UserError):
        return str(error)
    if isinstance(error, OSError) and error.filename and not isinstance(error, FileNotFoundError):
        return f"{error.filename}: {error.strerror}"
    # A full disk is out of bytes, inodes or quota, or over the file size limit. Orbax, ArrayRecord
    # and safetensors raise their own types of error, but quote the system's message.
    for reason in map(os.strerror, (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)):
        if reason in str(error):
            place = " ".join(str(error).split())
            return f"{reason}: free some space (see df -h and df -i) and start again ({place})"
    return ""


def optional(module: str, package: str, what: str) -> ModuleType:
    """Imports a module of a package that requirements.txt lacks; UserError if it is missing."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise UserError(f"{what} needs a package: pip install {package}") from error


def check_value(key: str, value: Any, rule: str | Sequence) -> None:
    """Raises UserError if the value of `config.KEY` breaks its rule.

    A rule is a phrase, such as "even and at least 2" or "below 1", or the allowed values.
    """
    hint = ""
    if isinstance(rule, str):
        is_right = all(_holds(value, part) for part in rule.split(" and "))
    else:
        is_right = value in rule
        hint = did_you_mean(str(value), map(str, rule))
        rule = f"one of {', '.join(map(repr, rule))}"
    if not is_right:
        raise UserError(f"config.{key} must be {rule}, found {value!r}{hint}")


def _holds(value: float, part: str) -> bool:
    """Returns whether a value satisfies one comparison, such as 'below 1'."""
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
