"""Reads sentence pairs once, and keeps a few numbers of each line: faults.py needs no more."""

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from transformer.data import tokenizer
from transformer.tools.audit import languages, scripts
from transformer.tools.audit.scripts import BROKEN, DIGIT, INVISIBLE, LETTER, SCRIPTS, SPACE

NORMALISATION = "nfc"  # of all lines, as a run reads them
CHUNK = 8192  # pairs in memory at a time
LEARN_FROM = 50_000  # pairs, the first ones, whose letters tell a side's script
OWN_SCRIPT = 0.1  # of a line's letters; names and quotations may be most of the others
# How a line ends: the same for the marks of all scripts; 0 for any other end.
ENDINGS = {".": 1, "。": 1, "．": 1, "।": 1, "۔": 1, "?": 2, "？": 2, "؟": 2, "!": 3, "！": 3}
ENDINGS |= {":": 4, "：": 4, ";": 4, "；": 4, ",": 5, "，": 5, "、": 5, "…": 6}
CLOSING = " \t\r\"'»«”“„’‘)]）」』›‹"  # what may follow a line's last mark

Texts = Callable[[], Iterator[tuple[bytes, bytes]]]  # gives all pairs from the start


class Lines(NamedTuple):
    """Holds what is kept of the lines of one side: arrays with one number a line."""

    length: np.ndarray  # int32: characters
    pieces: np.ndarray  # int32: of the vocabulary, with END; without one words + 1, which are fewer
    letters: np.ndarray  # int32: how many of its characters are letters
    other_script: np.ndarray  # bool: few of these letters are of its side's script
    ending: np.ndarray  # uint8: a value of ENDINGS
    numbers: np.ndarray  # int32: a hash of its digits, in any order; 0: none
    exact: np.ndarray  # int64: a hash of the text
    near: np.ndarray  # int64: a hash of its letters, or of its text if it has none
    to_other: np.ndarray  # float32: nats for the other side's language, against its own
    to_likeliest: np.ndarray  # float32: nats for whichever is likeliest, against its own
    broken: np.ndarray  # bool: not UTF-8, U+FFFD, or UTF-8 that was read as another encoding
    invisible: np.ndarray  # bool: control characters, or others that are not seen
    tags: np.ndarray  # bool: tags of HTML
    entities: np.ndarray  # bool: characters by their names or numbers in HTML
    spelt: np.ndarray  # bool: characters without a piece in the vocabulary
    decomposed: np.ndarray  # bool: not in Unicode's form NFC, to which all the others refer


class Reader(NamedTuple):
    """Holds what the lines of one side are compared with."""

    languages: tuple[str, str]  # codes, without a country: of the side, and of the other one
    script: int  # of the side's language: an index of SCRIPTS
    max_length: int  # pieces of a training sentence, with END
    pieces: tokenizer.SideVocabulary | None  # the vocabulary, if there is one
    spelling: scripts.Spelling | None  # of the same vocabulary


def side_scripts(pairs: Texts, codes: tuple[str, str]) -> list[int]:
    """Returns each side's script, an index of SCRIPTS.

    The language code says it; if not, it is that of most letters in the first pairs.
    """
    names = [scripts.script_of(code) for code in codes]
    letters = np.zeros((2, len(SCRIPTS)), np.int64)
    for sides in chunks(itertools.islice(pairs(), 0 if all(names) else LEARN_FROM)):
        for side, lines in enumerate(sides):
            # A letter of SCRIPTS[i] has kind LETTER + i; smaller kinds (uint8) wrap to above 200.
            script = scripts.kinds()[scripts.codes_of(lines)[0]] - LETTER
            letters[side] += np.bincount(script[script > 0], minlength=256)[: len(SCRIPTS)]
    return [
        SCRIPTS.index(name) if name else int(side_letters.argmax())
        for name, side_letters in zip(names, letters, strict=True)
    ]


def scan(
    pairs: Texts, readers: tuple[Reader, Reader], advance: Callable[[int], None]
) -> tuple[Lines, Lines, Counter]:
    """Reads all pairs once; returns the `Lines` of source and target, and a count of characters.

    Only characters without a piece in the vocabulary are counted.
    """
    parts, spelt = ([], []), Counter()
    for sides in chunks(pairs()):
        for part, lines, side_reader in zip(parts, sides, readers, strict=True):
            part.append(describe(lines, side_reader))
            for number in np.flatnonzero(part[-1].spelt):
                line = tokenizer.normalised(lines[number : number + 1], NORMALISATION)
                codes, _ = scripts.codes_of(line)
                spelt.update(map(chr, codes[side_reader.spelling.lacks(codes)]))
        advance(len(sides[0]))
    source, target = (Lines(*map(np.concatenate, zip(*part, strict=True))) for part in parts)
    return source, target, spelt


def chunks(pairs: Iterable[tuple[bytes, bytes]]) -> Iterator[tuple[list[str], list[str]]]:
    """Yields (source lines, target lines) of up to CHUNK pairs, as text.

    Bytes that are not UTF-8 become U+FFFD. A line break within a record becomes a space.
    """
    text = lambda line: line.decode(errors="replace").replace("\n", " ")
    pairs = iter(pairs)
    while chunk := list(itertools.islice(pairs, CHUNK)):
        yield [text(source) for source, _ in chunk], [text(target) for _, target in chunk]


def describe(lines: Sequence[str], reader: Reader) -> Lines:
    """Measures lines of one side."""
    given, lines = lines, tokenizer.normalised(lines, NORMALISATION)
    codes, starts = scripts.codes_of(lines)
    kinds = scripts.kinds()[codes]
    # All lines are one array of characters, line i from starts[i] on: reduceat reduces each line.
    has = lambda mask: np.logical_or.reduceat(mask, starts)
    folded, _ = scripts.codes_of(scripts.folded(lines))
    skeletons = zip(scripts.skeletons(folded), lines, strict=True)
    near = [skeleton or "".join(line.split()) for skeleton, line in skeletons]
    letters = np.add.reduceat(kinds >= LETTER, starts, dtype=np.int32)
    own_letters = scripts.letters_of(kinds, starts, reader.script)
    to_other, to_likeliest = languages.evidence(lines, *reader.languages)
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
        to_other=to_other,
        to_likeliest=to_likeliest,
        broken=has(kinds == BROKEN) | scripts.is_mojibake(lines, codes, starts),
        invisible=has(kinds == INVISIBLE),
        tags=np.fromiter(map(scripts.has_tag, lines), bool, len(lines)),
        entities=np.fromiter(map(scripts.has_entity, lines), bool, len(lines)),
        spelt=has(reader.spelling.lacks(codes)) if reader.spelling else np.zeros(len(lines), bool),
        decomposed=np.array([a != b for a, b in zip(given, lines, strict=True)], bool),
    )


def _numbers(line: str) -> int:
    """Returns a hash of a line's digits in any order, not 0: '1,000' and '1.000' are equal."""
    return hash("".join(sorted(filter(str.isdigit, line)))) >> 33 or 1


def _words(kinds: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """Returns how many runs of characters between spaces each line has, int32."""
    space = kinds == SPACE
    space[np.append(starts[1:], len(kinds)) - 1] = True  # the line breaks
    # A word begins where a space, or the line's start, precedes a character: ' ab c' has 2.
    return np.add.reduceat(~space & np.append(True, space[:-1]), starts, dtype=np.int32)


def _count_pieces(lines: Sequence[str], reader: Reader) -> np.ndarray:
    """Returns the pieces of each line that may have over `max_length`, int32; 0 for the others.

    A piece has at least one byte, so a line has at most its bytes plus two pieces: END, and the
    space that SentencePiece puts in front. Only longer lines are tokenised.
    """
    long = [i for i, line in enumerate(lines) if len(line.encode()) + 2 > reader.max_length]
    counts = np.zeros(len(lines), np.int32)
    if long:
        counts[long] = [len(x) for x in reader.pieces.encode([lines[i] for i in long])]
    return counts
