"""Reads sentence pairs once, and keeps the few numbers per line that faults.py needs."""

import itertools
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from transformer.data import tokenizer
from transformer.tools.audit import scripts
from transformer.tools.audit.raw_pairs import text
from transformer.tools.audit.scripts import BROKEN, INVISIBLE, LETTER

NORMALISATION = "nfc"  # of all lines, as a run reads them
CHUNK = 8192  # pairs in memory at a time
OWN_SCRIPT = 0.1  # minimum share of letters in the side's script; names and quotations may differ
# The mark at the end of a line, one number for the marks of all scripts; 0 for any other end.
ENDINGS = {".": 1, "。": 1, "．": 1, "।": 1, "۔": 1, "?": 2, "？": 2, "؟": 2, "!": 3, "！": 3}
ENDINGS |= {":": 4, "：": 4, ";": 4, "；": 4, ",": 5, "，": 5, "、": 5, "…": 6}
CLOSING = " \t\r\"'»«”“„’‘)]）」』›‹"  # what may follow a line's last mark

Texts = Callable[[], Iterator[tuple[bytes, bytes]]]  # gives all pairs from the start


class Lines(NamedTuple):
    """Holds the measures of the lines of one side: arrays with one number per line."""

    length: np.ndarray  # int32: characters
    pieces: np.ndarray  # int32: of the vocabulary, with END; without a vocabulary, words + 1
    letters: np.ndarray  # int32: characters that are letters
    other_script: np.ndarray  # bool: few of these letters are of the side's script
    ending: np.ndarray  # uint8: a value of ENDINGS
    numbers: np.ndarray  # int32: a hash of the digits, in any order; 0: no digits
    exact: np.ndarray  # int64: a hash of the text
    near: np.ndarray  # int64: a hash of the letters, or of the text if it has none
    to_other: np.ndarray  # float32: nats for the other side's language, against the side's
    to_likeliest: np.ndarray  # float32: nats for the likeliest language, against the side's
    broken: np.ndarray  # bool: not UTF-8, U+FFFD, or UTF-8 that was read as another encoding
    invisible: np.ndarray  # bool: control characters, or others that are not seen
    tags: np.ndarray  # bool: tags of HTML
    entities: np.ndarray  # bool: characters by their names or numbers in HTML
    spelt: np.ndarray  # bool: characters without a piece in the vocabulary


class Expected(NamedTuple):
    """Holds what the lines of a side should be."""

    languages: tuple[str, str]  # codes, without a country: of this side, and of the other side
    script: int  # the kind of the script's letters (scripts.py)
    max_length: int  # pieces of a training sentence, with END
    vocabulary: tokenizer.Pieces | None


def side_scripts(pairs: Texts) -> list[int]:
    """Returns the kind of most letters of each side, in the first CHUNK pairs."""
    codes = (scripts.codes_of(lines)[0] for lines in next(chunks(pairs()), ([], [])))
    counts = (np.bincount(scripts.kinds()[x], minlength=LETTER + 1) for x in codes)
    return [LETTER + int(x[LETTER:].argmax()) for x in counts]


def scan(
    pairs: Texts, expected: Sequence[Expected], advance: Callable[[int], None]
) -> tuple[Lines, Lines, Counter]:
    """Reads all pairs once; returns the `Lines` of source and target, and a count of characters.

    Only characters without a piece in the vocabulary are counted.
    """
    # The numbers of all chunks are kept, but not their texts. At the end each field is one array.
    parts, spelt = ([], []), Counter()
    for sides in chunks(pairs()):
        for part, lines, expectation in zip(parts, sides, expected, strict=True):
            measures, without_a_piece = describe(lines, expectation)
            part.append(measures)
            spelt.update(without_a_piece)
        advance(len(sides[0]))
    source, target = (Lines(*map(np.concatenate, zip(*part, strict=True))) for part in parts)
    return source, target, spelt


def chunks(pairs: Iterable[tuple[bytes, bytes]]) -> Iterator[tuple[list[str], list[str]]]:
    """Yields the sources and the targets of up to CHUNK pairs at a time, as text."""
    pairs = iter(pairs)
    while chunk := list(itertools.islice(pairs, CHUNK)):
        yield tuple([text(line) for line in side] for side in zip(*chunk, strict=True))


def describe(lines: Sequence[str], expected: Expected) -> tuple[Lines, list[str]]:
    """Measures lines of one side, and returns their characters without a piece, too."""
    lines = tokenizer.normalised(lines, NORMALISATION)
    codes, starts = scripts.codes_of(lines)
    kinds = scripts.kinds()[codes]
    # All lines are one array of characters, line i from starts[i] on: reduceat reduces each line.
    has = lambda mask: np.logical_or.reduceat(mask, starts)
    number_of = lambda mask: np.add.reduceat(mask, starts, dtype=np.int32)
    per_line = lambda measure, dtype: np.fromiter(map(measure, lines), dtype, len(lines))
    skeletons = zip(scripts.skeletons(lines), lines, strict=True)
    # A line without letters, such as '3 + 4', is compared by its characters.
    near = [skeleton or "".join(line.split()) for skeleton, line in skeletons]
    letters = number_of(kinds >= LETTER)
    to_other, to_likeliest = scripts.evidence(lines, *expected.languages)
    # Without a vocabulary no character counts as spelt in bytes.
    spelt = np.zeros(len(codes), bool)
    if expected.vocabulary:
        spelt = scripts.lack_pieces(codes, expected.vocabulary.processor)
    measures = Lines(
        length=number_of(codes != ord("\n")),
        pieces=_pieces(lines, expected),
        letters=letters,
        other_script=number_of(kinds == expected.script) < OWN_SCRIPT * letters,
        ending=per_line(lambda line: ENDINGS.get(line.rstrip(CLOSING)[-1:], 0), np.uint8),
        numbers=per_line(_numbers, np.int32),
        exact=per_line(hash, np.int64),
        near=np.fromiter(map(hash, near), np.int64, len(lines)),
        to_other=to_other,
        to_likeliest=to_likeliest,
        broken=has(kinds == BROKEN) | per_line(scripts.is_mojibake, bool),
        invisible=has(kinds == INVISIBLE),
        tags=per_line(scripts.has_tag, bool),
        entities=per_line(scripts.has_entity, bool),
        spelt=has(spelt),
    )
    return measures, list(map(chr, codes[spelt]))


def _numbers(line: str) -> int:
    """Returns a hash of a line's digits in any order, 0 if it has none; '1,000' equals '1.000'."""
    # The upper 31 bits of a 64-bit hash fit into an int32. A hash of 0, no digits, becomes 1.
    digits = "".join(sorted(re.findall(r"\d", line)))
    return (hash(digits) >> 33 or 1) if digits else 0


def _pieces(lines: Sequence[str], expected: Expected) -> np.ndarray:
    """Returns the pieces of each line that may have over `max_length`, int32; 0 for other lines.

    A piece has at least one byte. So a line has at most two pieces more than bytes: END, and the
    space that SentencePiece puts in front. Only longer lines are tokenised. Without a vocabulary,
    returns the words of all lines, plus 1 for END.
    """
    if not expected.vocabulary:
        return np.array([len(line.split()) + 1 for line in lines], np.int32)
    long = [i for i, line in enumerate(lines) if len(line.encode()) + 2 > expected.max_length]
    counts = np.zeros(len(lines), np.int32)
    counts[long] = [len(x) for x in expected.vocabulary.encode([lines[i] for i in long])]
    return counts
