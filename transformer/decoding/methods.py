"""The interface of decoding methods, config.decode.method.

A line of registry.METHODS names a function of the values of config.decode that returns a `Method`.
Batches, compiled stages and the translator work with any method. Beam search is in beam_search.py,
other methods are in families/sampling.
"""

import types
from collections.abc import Callable
from typing import NamedTuple

from transformer.errors import UserError

Decode = types.SimpleNamespace  # the values of config.decode


class Method(NamedTuple):
    """A method that searches a line, or each part of an over-long line."""

    # One step of a search, with the arguments of beam_search.extend, and its options as pairs. Both
    # are static arguments of a jitted function. Hence `extend` must be a module-level function: a
    # new function per `Method` would be compiled again.
    extend: Callable
    options: tuple[tuple[str, int | float | str], ...]
    num_beams: int  # of a search
    num_returned: int  # hypotheses of a part, from all its searches
    num_searches: int = 1  # of a part, each with its own random numbers
    draws: bool = False  # samples, so that hypotheses of equal parts differ
    # Maps a line's [(text, score), ...] in the order found to those to output, best first.
    rank: Callable[[list], list] = lambda scored: scored


def check_num_hypotheses(decode: Decode, key: str) -> None:
    """Raises UserError if config.decode.num_hypotheses is over config.decode.KEY."""
    if decode.num_hypotheses > (limit := getattr(decode, key)):
        raise UserError(
            f"config.decode.num_hypotheses={decode.num_hypotheses} must be at most "
            f"config.decode.{key}={limit}"
        )
