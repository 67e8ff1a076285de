"""Several corpora as one: a TOML file -> pairs, and rows in exact shares of an epoch.

    temperature = 5.0          # a corpus's share is weight^(1 / temperature); by default 1

    [europarl]                 # a name, for the log
    files = "europarl"         # as config.data.train, but not another mixture
    languages = ["en", "de"]   # source and target; by default the config's
    tag = "<2de>"              # before each source, one piece of the vocabulary
    weight = 2.0               # of all corpora or of none; by default its number of rows
    held_out = 500             # random pairs for validation, if config.data.validation is ""
    seed = 1                   # of these; by default 0
    max_characters = 400       # of a side; longer pairs are dropped
    max_ratio = 3.0            # of the longer side's characters to the shorter side's

A row has pairs of one corpus, and a batch has rows of all. An epoch has as many rows as the corpora
together, and each corpus has its share of them, rounded by largest remainder. Packed rows are full,
so that the shares are of the tokens; with a pair per row they are of the pairs.
"""

import functools
import itertools
import logging
import math
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from transformer.data import corpora, tokenizer
from transformer.errors import UserError, did_you_mean

# The fields of a corpus, {name: default}. A value has the type of its default, and is not below it.
FIELDS = {"files": "", "languages": [], "tag": "", "weight": 0.0, "held_out": 0, "seed": 0}
FIELDS |= {"max_characters": 0, "max_ratio": 0.0}
KINDS = {str: "a string", list: "a list", int: "an integer >= {}", float: "a finite number >= {}"}


def load(
    folder: Path, name: str, languages: tuple[str, str], key: str, held_out: bool = False
) -> corpora.Corpus:
    """Returns the pairs of all corpora of a mixture, one corpus after the other.

    `name` is a TOML file in `folder`. With `held_out` the pairs are those held out, otherwise all
    others. `key` is the config key of the name, for error messages.
    """
    try:
        values = tomllib.loads((folder / name).read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(f"{key}={name!r} is not a TOML file: {error}") from error
    tables = {part: values.pop(part) for part in [*values] if isinstance(values[part], dict)}
    options = _checked(f"{name}: ", values, {"temperature": 1.0})
    members, parts = [], []
    for part, table in tables.items():
        place = f"{name}: {part}."
        fields = _checked(place, table, FIELDS)
        if fields["files"].endswith(".toml"):
            raise UserError(f"{place}files must not be a mixture, found {fields['files']!r}")
        sides = tuple(map(str, fields["languages"])) or languages
        if len(sides) != 2 or sides[0] == sides[1]:
            raise UserError(f"{place}languages must be two different codes, found {[*sides]}")
        # Without the names of the files, so that the fingerprint is of their content.
        corpus = corpora.parallel_text(folder, fields.pop("files"), sides, f"{place}files")
        chosen = _chosen(place, corpus, fields, held_out)
        members.append((corpus, chosen, fields["tag"]))
        parts.append({"name": part, "size": len(chosen), **options, **fields})
    if not (size := sum(part["size"] for part in parts)):
        needed = "a table [CORPUS] with held_out" if held_out else "a table [CORPUS]"
        raise UserError(f"{key} has no pairs: {name} needs {needed}, or its filters drop all")
    if len({part["weight"] > 0 for part in parts}) > 1:
        raise UserError(f"{name}: give either all corpora a weight above 0, or none")
    content = parts, held_out, [corpus.fingerprint for corpus, _, _ in members]
    fingerprint = corpora.fingerprint("mixture", content)
    items = functools.partial(_items, members)
    return corpora.Corpus(fingerprint, size, items, (str(folder / name),), tuple(parts))


def _checked(place: str, values: dict, defaults: dict) -> dict:
    """Returns values with their defaults; UserError for an unknown name or a wrong value."""
    for name, value in values.items():
        if name not in defaults:
            names = f"{', '.join(defaults)}{did_you_mean(name, defaults)}"
            raise UserError(f"{place}{name} is unknown, expected {names}")
        default = defaults[name]
        # An integer is a number, too. NaN is refused, because it is not >= the default.
        kinds = (int, float) if isinstance(default, float) else (type(default),)
        if type(value) not in kinds or not value >= default or value == math.inf:
            expected = KINDS[type(default)].format(default)
            raise UserError(f"{place}{name} must be {expected}, found {value!r}")
    return defaults | values


def _chosen(place: str, corpus: corpora.Corpus, fields: dict, held_out: bool) -> np.ndarray:
    """Returns the sorted indices of a corpus's pairs that are held out, or of all others.

    Those that the corpus's filters drop are left out.
    """
    if (count := fields["held_out"]) >= len(corpus):
        raise UserError(f"{place}held_out must be below {len(corpus)}, its pairs, found {count}")
    # By seed and size alone, so that corpora of the same sources hold out the same lines.
    order = np.random.default_rng(fields["seed"]).permutation(len(corpus))
    chosen = np.sort(order[:count] if held_out else order[count:])
    longest, ratio = (fields[name] or np.inf for name in ("max_characters", "max_ratio"))
    if min(longest, ratio) < np.inf:
        texts = itertools.chain.from_iterable(corpus.items(chosen))
        lengths = np.fromiter(map(len, texts), np.int64).reshape(-1, 2)
        short, long = np.maximum(lengths.min(1), 1), lengths.max(1)
        kept = chosen[(long <= longest) & (long <= ratio * short)]
        message = "%smax_characters and max_ratio drop %d of %d pairs"
        logging.info(message, place, len(chosen) - len(kept), len(chosen))
        chosen = kept
    return chosen


def _items(members: Sequence[tuple], indices: Sequence[int]) -> Iterator[tuple[str, str]]:
    """Yields the pairs at sorted indices of corpora that stand one after the other."""
    indices, start = np.asarray(indices, int), 0
    for corpus, chosen, tag in members:
        stop = start + len(chosen)
        inside = chosen[indices[(start <= indices) & (indices < stop)] - start]
        yield from ((tokenizer.tagged(tag, x), y) for x, y in corpus.items(inside))
        start = stop
