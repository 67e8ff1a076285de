"""The interfaces of decoding methods, config.decode.method, and of rules, config.decode.rules.

A line of registry.METHODS names a function of the values of config.decode, and of the target's
vocabulary (None for a check of the config), that returns a `Method`.
Batches, compiled stages and the translator work with any method. Beam search is in beam_search.py,
other methods are in families/sampling and families/rules.

A line of registry.RULES names the constructor of a rule. A rule is called in each step of a search:

    rule(log_probs_BWV, tokens_BWT, t) -> log_probs_BWV

The live hypotheses are tokens_BWT[:, :, :t]; what follows is undefined. Each further token gets
another score for its log P; -inf forbids it. Several rules are called in the order of the key. As a
static argument of a jitted function, a rule is a frozen dataclass of numbers, texts and tuples. Its
fields are those of the key. A constructor may also take the `vocabulary` of the target (None for a
check of the config) and `decode`, the values of config.decode.
"""

import re
import types
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from jax import Array

from transformer import registry
from transformer.data.tokenizer import Pieces
from transformer.errors import UserError
from transformer.models import boxes

Decode = types.SimpleNamespace  # the values of config.decode
Rule = Callable[[Array, Array, Array], Array]


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
    # Maps a source text and {term: its translation} to the phrases that its translation must have,
    # whole words or with * the beginning of one; None for methods that cannot require any.
    required: Callable[[str, Mapping[str, str]], Iterable[str]] | None = None


def parse_rules(rules: str) -> list[boxes.Named]:
    """Returns what config.decode.rules names; UserError for an unknown rule or a wrong field."""
    return boxes.parse_names(registry.RULES, "decode.rules", rules, several=True) if rules else []


def make_rules(decode: Decode, vocabulary: Pieces | None) -> tuple[Rule, ...]:
    """Returns the rules of config.decode.rules."""
    given = {"decode": decode, "vocabulary": vocabulary}
    return tuple(boxes.constructor(rule, **given)() for rule in parse_rules(decode.rules))


def phrase_pattern(phrase: str) -> str:
    """Returns a regular expression of whole words, or of the beginning of one before a *."""
    ending = "" if phrase.endswith("*") else r"(?!\w)"
    return rf"(?<!\w){re.escape(phrase.removesuffix('*'))}{ending}"


def missing(phrases: Iterable[str], text: str) -> tuple[str, ...]:
    """Returns the phrases that a text does not have, each once."""
    return tuple(x for x in dict.fromkeys(phrases) if not re.search(phrase_pattern(x), text))


def check_num_hypotheses(decode: Decode, key: str) -> None:
    """Raises UserError if config.decode.num_hypotheses is over config.decode.KEY."""
    if decode.num_hypotheses > (limit := getattr(decode, key)):
        raise UserError(
            f"config.decode.num_hypotheses={decode.num_hypotheses} must be at most "
            f"config.decode.{key}={limit}"
        )
