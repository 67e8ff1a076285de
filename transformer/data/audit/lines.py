"""One pass over sentence pairs: a few numbers of each line, from which its faults follow."""

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from transformer.data import tokenizer
from transformer.data.audit import characters, languages
from transformer.data.audit.characters import (
    BROKEN,
    DIGIT,
    INVISIBLE,
    LETTER,
    SCRIPTS,
    SPACE,
)

CHUNK = 8192  # pairs in memory at a time
LEARN_FROM = 50_000  # pairs, the first ones, whose trigrams tell the two languages apart
OWN_SCRIPT = 0.1  # of a line's letters; names and quotations may be most of the others
# How a line ends: the same for the marks of all scripts; 0 for any other end.
ENDINGS = {".": 1, "。": 1, "．": 1, "।": 1, "۔": 1, "?": 2, "？": 2, "؟": 2, "!": 3, "！": 3}
ENDINGS |= {":": 4, "：": 4, ";": 4, "；": 4, ",": 5, "，": 5, "、": 5, "…": 6}
CLOSING = " \t\r\"'»«”“„’‘)]）」』›‹"  # what may follow a line's last mark

Texts = Callable[[], Iterator[tuple[bytes, bytes]]]  # gives all pairs from the start


class Lines(NamedTuple):
    """What is kept of the lines of one side: arrays with one number a line."""

    length: np.ndarray  # int32: characters
    pieces: np.ndarray  # int32: of the vocabulary, with END; without one words + 1, which are fewer
    letters: np.ndarray  # int32: how many of its characters are letters
    other_script: np.ndarray  # bool: few of these letters are of its side's script
    ending: np.ndarray  # uint8: a value of ENDINGS
    numbers: np.ndarray  # int32: a hash of its digits, in any order; 0: none
    exact: np.ndarray  # int64: a hash of the text
    near: np.ndarray  # int64: a hash of its letters, or of its text if it has none
    evidence: np.ndarray  # float32: nats for the target's language, against the source's
    broken: np.ndarray  # bool: not UTF-8, U+FFFD, or UTF-8 that was read as another encoding
    invisible: np.ndarray  # bool: control characters, or others that are not seen
    spelt: np.ndarray  # bool: characters without a piece in the vocabulary


class Languages(NamedTuple):
    """What the two sides of a corpus look like, so that a line of another language is noticed."""

    table: np.ndarray  # of `languages.table`
    scripts: tuple[int, int]  # of the source and of the target: indices of SCRIPTS


class Reader(NamedTuple):
    """What the lines of one side are compared with."""

    table: np.ndarray  # of `languages.table`
    script: int  # of the side's language
    max_length: int  # pieces of a training sentence, with END
    pieces: tokenizer.SideVocabulary | None  # the vocabulary, if there is one
    spelling: characters.Spelling | None  # of the same vocabulary


def learn_languages(pairs: Texts, codes: tuple[str, str]) -> Languages:
    """Learns what the two sides look like from the first pairs.

    `codes` are their languages'; where the script of one is not known, it is that of most letters.
    """
    counts = np.zeros((2, languages.BUCKETS), np.int64)
    letters = np.zeros((2, len(SCRIPTS)), np.int64)
    for sides in chunks(itertools.islice(pairs(), LEARN_FROM)):
        for side, lines in enumerate(sides):
            folded, _ = characters.codes_of(characters.folded(lines))
            counts[side] += languages.count(folded)
            of_script = characters.kinds()[folded] - LETTER
            letters[side] += np.bincount(of_script[of_script > 0], minlength=256)[: len(SCRIPTS)]
    names = [characters.script_of(code) for code in codes]
    scripts = [
        SCRIPTS.index(name) if name else int(of_side.argmax())
        for name, of_side in zip(names, letters, strict=True)
    ]
    return Languages(languages.table(*counts), tuple(scripts))


def scan(
    pairs: Texts, readers: tuple[Reader, Reader], advance: Callable[[int], None]
) -> tuple[Lines, Lines, Counter]:
    """Reads all pairs once: the numbers of the source lines, of the target lines, and how often
    each character occurs that has no piece in the vocabulary."""
    parts, spelt = ([], []), Counter()
    for sides in chunks(pairs()):
        for part, lines, side_reader in zip(parts, sides, readers, strict=True):
            part.append(describe(lines, side_reader))
            for number in np.flatnonzero(part[-1].spelt):
                codes, _ = characters.codes_of(lines[number : number + 1])
                spelt.update(map(chr, codes[side_reader.spelling.lacks(codes)]))
        advance(len(sides[0]))
    source, target = (Lines(*map(np.concatenate, zip(*part, strict=True))) for part in parts)
    return source, target, spelt


def chunks(pairs: Iterable[tuple[bytes, bytes]]) -> Iterator[tuple[list[str], list[str]]]:
    """Yields the source lines and the target lines of some pairs at a time, as text.

    Bytes that are not UTF-8 become U+FFFD. A line break within a record becomes a space.
    """
    text = lambda line: line.decode(errors="replace").replace("\n", " ")
    pairs = iter(pairs)
    while chunk := list(itertools.islice(pairs, CHUNK)):
        yield [text(source) for source, _ in chunk], [text(target) for _, target in chunk]


def describe(lines: Sequence[str], reader: Reader) -> Lines:
    """Returns the numbers of some lines of one side."""
    codes, starts = characters.codes_of(lines)
    kinds = characters.kinds()[codes]
    has = lambda mask: np.logical_or.reduceat(mask, starts)
    folded, folded_starts = characters.codes_of(characters.folded(lines))
    skeletons = zip(characters.skeletons(folded), lines, strict=True)
    near = [skeleton or "".join(line.split()) for skeleton, line in skeletons]
    letters = np.add.reduceat(kinds >= LETTER, starts, dtype=np.int32)
    own_letters = characters.letters_of(kinds, starts, reader.script)
    numbers = np.zeros(len(lines), np.int32)
    for number in np.flatnonzero(has(kinds == DIGIT)):
        numbers[number] = _numbers(lines[number])
    return Lines(
        length=np.diff(starts, append=len(codes)).astype(np.int32) - 1,
        pieces=_count_pieces(lines, reader) if reader.pieces else _words(kinds, starts) + 1,
        letters=letters,
        other_script=own_letters < OWN_SCRIPT * letters,
        ending=np.array([ENDINGS.get(x.rstrip(CLOSING)[-1:], 0) for x in lines], np.uint8),
        numbers=numbers,
        exact=np.fromiter(map(hash, lines), np.int64, len(lines)),
        near=np.fromiter(map(hash, near), np.int64, len(lines)),
        evidence=languages.evidence(folded, folded_starts, reader.table),
        broken=has(kinds == BROKEN) | characters.is_mojibake(lines, codes, starts),
        invisible=has(kinds == INVISIBLE),
        spelt=has(reader.spelling.lacks(codes)) if reader.spelling else np.zeros(len(lines), bool),
    )


def _numbers(line: str) -> int:
    """Returns a hash of a line's digits in any order, not 0: '1,000' and '1.000' are equal."""
    return hash("".join(sorted(filter(str.isdigit, line)))) >> 33 or 1


def _words(kinds: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """Returns how many runs of characters between spaces each line has, int32."""
    space = kinds == SPACE
    space[np.append(starts[1:], len(kinds)) - 1] = True  # the line breaks
    return np.add.reduceat(~space & np.append(True, space[:-1]), starts, dtype=np.int32)


def _count_pieces(lines: Sequence[str], reader: Reader) -> np.ndarray:
    """Returns the pieces of each line that may have over `max_length`, int32; 0 for the others.

    A piece has at least one byte, END and the space that SentencePiece puts before a line aside.
    """
    long = [i for i, line in enumerate(lines) if len(line.encode()) + 2 > reader.max_length]
    counts = np.zeros(len(lines), np.int32)
    if long:
        counts[long] = [len(x) for x in reader.pieces.encode([lines[i] for i in long])]
    return counts
