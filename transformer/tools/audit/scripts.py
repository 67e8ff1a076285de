"""Classifies characters (scripts, invisible ones, broken encodings, HTML), and lines by language.

Kinds come from Unicode's general category and, for the script of a letter, from its name: 'HANGUL
SYLLABLE GA' is Hangul. (Python's unicodedata has no property Script.)

The language of a line is by py3langid, naive Bayes over n-grams of bytes (Lui and Baldwin 2012,
langid.py). Its model of 139 languages is inside the package. Its probabilities have a temperature
that grows with the root of a line's length, because long lines would be far too certain.
"""

import functools
import html
import math
import re
import sys
import unicodedata
from collections.abc import Sequence

import numpy as np
import sentencepiece
from py3langid.langid import MODEL_FILE, LanguageIdentifier

from transformer.data.tokenizer import UNKNOWN

# Kinds of characters, as `kinds` numbers them; letters have LETTER and above, a kind per script.
OTHER, INVISIBLE, BROKEN, MARK, LETTER = range(5)
# These count as one script, because Japanese mixes them.
HAN = ("CJK", "HIRAGANA", "KATAKANA", "BOPOMOFO")
HANGUL_FILLERS = (0x115F, 0x1160, 0x3164, 0xFFA0)  # letters by category, but invisible
JOINERS = (0x200C, 0x200D)  # invisible, but Persian, Hindi and emoji are spelt with them
KIND_OF_CATEGORY = {
    **dict.fromkeys(("Cc", "Cf", "Co", "Zl", "Zp"), INVISIBLE),
    **dict.fromkeys(("Mn", "Mc", "Me"), MARK),
}

# UTF-8 that was read as Windows-1252 or Latin-1: 'Ã¤' for 'ä', 'â€™' for an apostrophe. A lead byte
# became one of the letters Â to ï, each continuation byte (0x80 to 0xBF) one of CONTINUATION.
CONTINUATION = r"\x80-\xbf€‚ƒ„…†‡ˆ‰Š‹ŒŽ‘’“”•–—˜™š›œžŸ"
# CONTINUATION without characters that follow such a letter in ordinary text: quotation marks,
# dashes, spaces.
UNUSUAL = r"\x80-\x9f\xa1-\xaa\xac\xae-\xba\xbc-\xbf€ƒ†‡ˆ‰Š‹ŒŽ•˜™š›œžŸ"
MOJIBAKE = re.compile(
    f"[ÂÃ][{CONTINUATION}]|[ÄÅÐÑÎÏØÙ][{UNUSUAL}]|"
    f"[à-ï][{UNUSUAL}][{CONTINUATION}]|â[‚„][{CONTINUATION}]"
)
# HTML's elements of running text; '<input>' or '<name>' may be a placeholder.
TAG = re.compile(
    "<(?:/?(?:a|abbr|b|big|blockquote|br|center|dd|div|dl|dt|em|font|h[1-6]|hr|i|img|li|ol|p|pre|"
    r"script|small|span|strike|strong|style|sub|sup|table|tbody|td|th|tr|tt|u|ul)"
    r"(?:\s[^<>]*=[^<>]*)?\s*/?>|!--)",
    re.IGNORECASE,
)
REFERENCE = re.compile(r"&#?\w+;")


@functools.cache
def kinds() -> np.ndarray:
    """Returns the kind of every code point, uint16 [0x110000]; takes about a second."""
    table = np.full(0x110000, OTHER, np.uint16)
    kind_of_script = {}
    for code in range(0x110000):
        category = unicodedata.category(chr(code))
        # The scripts are numbered in the order of their first letters: LATIN is LETTER + 0.
        if category[0] == "L":
            new = LETTER + len(kind_of_script)
            table[code] = kind_of_script.setdefault(script_of(chr(code)), new)
        else:
            table[code] = KIND_OF_CATEGORY.get(category, OTHER)
    table[list(HANGUL_FILLERS)] = INVISIBLE
    table[[*JOINERS, ord("\n")]] = OTHER
    table[0xFFFD] = BROKEN  # stands for bytes that are not text
    return table


def script_of(letter: str) -> str:
    """Returns the script of a letter, such as 'HANGUL': the first word of its name."""
    name = re.sub("^(HALFWIDTH|FULLWIDTH) ", "", unicodedata.name(letter, ""))
    word = re.match(r"\w*", name)[0]
    return "HAN" if word in HAN else word


def codes_of(lines: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Returns the code points of all lines, and the index at which each line begins.

    Each line ends with a line break, so that no line is empty, as reduceat needs: "ab", "" are the
    codes 97 98 10 10 with starts 0 3.
    """
    text = "".join(f"{line}\n" for line in lines)
    codes = np.frombuffer(text.encode("utf-32-le"), np.uint32)
    ends = np.flatnonzero(codes == ord("\n"))
    return codes, np.concatenate([[0], ends[:-1] + 1])


def skeletons(lines: Sequence[str]) -> list[str]:
    """Returns the letters and marks of lines, without other characters: 'Ａ-Team 7' gives 'ateam'.

    Case is folded, and compatible characters, such as Ａ and A, become one.
    """
    # One call for all lines is faster; NFKC and casefold neither add nor remove line breaks.
    folded = unicodedata.normalize("NFKC", "\n".join(lines)).casefold()
    codes, _ = codes_of(folded.split("\n"))
    kept = (kinds()[codes] >= MARK) | (codes == ord("\n"))
    return codes[kept].tobytes().decode("utf-32-le").split("\n")[:-1]


def is_mojibake(line: str) -> bool:
    """Returns whether a line has UTF-8 that was decoded as another encoding: 'fÃ¼r'."""
    return not line.isascii() and bool(MOJIBAKE.search(line))


def has_tag(line: str) -> bool:
    """Returns whether a line has a tag of HTML, or a comment: '<b>', '</a>', '<br />', '<!--'."""
    return bool(TAG.search(line))


def has_entity(line: str) -> bool:
    """Returns whether a line has a character by its name or number in HTML: '&amp;', '&#39;'."""
    return any(html.unescape(name) != name for name in REFERENCE.findall(line))


def lack_pieces(codes: np.ndarray, processor: sentencepiece.SentencePieceProcessor) -> np.ndarray:
    """Returns for each code point, as a bool, whether no pieces but bytes, or none, spell it."""
    # Each different character is encoded once, as a text of its own.
    is_no_text = _is_no_text(processor)
    lacking = np.zeros(0x110000, bool)
    present = np.flatnonzero(np.bincount(codes, minlength=len(lacking)))
    # Neither a line break nor U+FFFD, which stands for broken bytes, is a character of the text.
    present = present[(present != ord("\n")) & (present != 0xFFFD)]
    ids_of_characters = processor.encode([chr(code) for code in present])
    lacking[present] = [is_no_text[ids].any() for ids in ids_of_characters]
    return lacking[codes]


@functools.cache
def _is_no_text(processor: sentencepiece.SentencePieceProcessor) -> np.ndarray:
    """Returns for each id, as a bool, whether it is a byte or UNKNOWN, not a piece of text."""
    return np.array([processor.is_byte(i) or i == UNKNOWN for i in range(len(processor))])


NO_LANGUAGE = "zxx"  # py3langid's code for numbers, programs and the like


@functools.cache
def identifier() -> LanguageIdentifier:
    """Returns py3langid's identifier of all languages; reading the model takes half a second."""
    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)


def evidence(lines: Sequence[str], language: str, other: str) -> tuple[np.ndarray, np.ndarray]:
    """Returns the evidence that each line is in another language than its side, in nats.

    The values are log P(other) - log P(language), where `other` is the language of the other side,
    and log P(likeliest) - log P(language). Both are 0 for a line whose likeliest language is
    `language` or none, and if py3langid does not know `language`.
    """
    to_other, to_likeliest = np.zeros((2, len(lines)), np.float32)
    if language in identifier().labels:
        for i, line in enumerate(lines):
            # `rank` scores and sorts all languages, so call it only for lines that seem to be in
            # another language. Its probabilities may underflow to 0, which has no logarithm.
            likeliest, _ = identifier().classify(line)
            if likeliest not in (language, NO_LANGUAGE):
                P = {code: max(p, sys.float_info.min) for code, p in identifier().rank(line)}
                to_other[i] = math.log(P.get(other, P[language]) / P[language])
                to_likeliest[i] = math.log(P[likeliest] / P[language])
    return to_other, to_likeliest
