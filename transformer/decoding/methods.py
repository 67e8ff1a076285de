"""config.decode.method: how translations are searched for, as a record of values and functions.

A line of registry.METHODS names a function of the values of config.decode that returns a `Method`.
Batches, compiled stages and the translator do not know which method it is. Beam search is in
beam_search.py, and families/sampling has others.
"""

import types
from collections.abc import Callable
from typing import NamedTuple

from transformer.errors import UserError

Decode = types.SimpleNamespace  # the values of config.decode


class Method(NamedTuple):
    """How a line is searched, or each part of an over-long line."""

    # One step of a search, with the arguments of beam_search.extend, and its options as pairs. Both
    # are static arguments of a jitted function. So `extend` is a function of a module: one that is
    # made for each `Method` would be compiled for each.
    extend: Callable
    options: tuple[tuple[str, int | float | str], ...]
    num_beams: int  # of a search
    num_returned: int  # hypotheses of a part, from all of its searches
    num_searches: int = 1  # of a part, each with random numbers of its own
    draws: bool = False  # at random: hypotheses of equal parts differ
    # Takes a line's [(text, score), ...] as they were found, returns those to output, best first.
    rank: Callable[[list], list] = lambda scored: scored


def check_num_hypotheses(decode: Decode, key: str) -> None:
    """Raises UserError for more hypotheses to output than config.decode.KEY."""
    if decode.num_hypotheses > (limit := getattr(decode, key)):
        raise UserError(
            f"config.decode.num_hypotheses={decode.num_hypotheses} must be at most "
            f"config.decode.{key}={limit}"
        )
