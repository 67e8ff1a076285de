"""The characters of lines: scripts, what is not seen, broken encodings, HTML's tags.

Kinds come from Unicode's general category and, for the script of a letter, from its name: 'HANGUL
SYLLABLE GA' is Hangul. (Python's unicodedata has no property Script.)
"""

import functools
import html
import re
import unicodedata
from collections.abc import Sequence

import numpy as np
import sentencepiece

from transformer.data.tokenizer import UNKNOWN

# Kinds of characters, as `kinds` numbers them; a letter of SCRIPTS[i] is LETTER + i.
OTHER, SPACE, INVISIBLE, BROKEN, DIGIT, MARK, LETTER = range(7)
# Scripts by the first word of their letters' names. Chinese characters and kana are one script
# here, because Japanese mixes them. Letters of 'none' are those such as 'ª'.
SCRIPTS = (
    *("none", "Latin", "Cyrillic", "Greek", "Armenian", "Hebrew", "Arabic", "Devanagari"),
    *("Bengali", "Gujarati", "Gurmukhi", "Kannada", "Malayalam", "Sinhala", "Tamil", "Telugu"),
    *("Thai", "Lao", "Khmer", "Myanmar", "Tibetan", "Georgian", "Ethiopic", "Hangul", "Han"),
    "other",
)
HAN = ("CJK", "HIRAGANA", "KATAKANA", "BOPOMOFO")
# {script: codes of languages that are written in it}; of others a side's own majority decides.
LANGUAGES = {
    "Latin": "en de fr es it pt nl sv da no nb nn is fi et lv lt pl cs sk sl hr hu ro tr vi id ms "
    "ca gl eu ga cy mt sq sw tl af lb",
    "Cyrillic": "ru uk be bg mk",
    "Han": "zh ja yue",
    **{"Greek": "el", "Armenian": "hy", "Hebrew": "he yi", "Arabic": "ar fa ur ps"},
    **{"Devanagari": "hi mr ne", "Bengali": "bn as", "Gujarati": "gu", "Gurmukhi": "pa"},
    **{"Kannada": "kn", "Malayalam": "ml", "Sinhala": "si", "Tamil": "ta", "Telugu": "te"},
    **{"Thai": "th", "Lao": "lo", "Khmer": "km", "Myanmar": "my", "Tibetan": "bo"},
    **{"Georgian": "ka", "Ethiopic": "am ti", "Hangul": "ko"},
}
HANGUL_FILLERS = (0x115F, 0x1160, 0x3164, 0xFFA0)  # letters by category, but nothing is seen
JOINERS = (0x200C, 0x200D)  # not seen either, but Persian, Hindi and emoji are spelt with them
KIND_OF_CATEGORY = {
    **dict.fromkeys(("Cc", "Cf", "Co", "Zl", "Zp"), INVISIBLE),
    **dict.fromkeys(("Nd", "Nl", "No"), DIGIT),
    **dict.fromkeys(("Mn", "Mc", "Me"), MARK),
    "Zs": SPACE,
}

# UTF-8 that was read as Windows-1252 or Latin-1: 'Ã¤' for 'ä', 'â€™' for an apostrophe. A lead byte
# became one of the letters Â to ï, each continuation byte (0x80 to 0xBF) one of CONTINUATION.
CONTINUATION = r"\x80-\xbf€‚ƒ„…†‡ˆ‰Š‹ŒŽ‘’“”•–—˜™š›œžŸ"
# Without what may follow such a letter in ordinary text: quotation marks, dashes, spaces.
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
    """Returns the kind of every code point, uint8 [0x110000]; takes about a second."""
    table = np.full(0x110000, OTHER, np.uint8)
    for code in range(0x110000):
        category = unicodedata.category(chr(code))
        if category[0] == "L":
            table[code] = LETTER + _script_of_letter(chr(code))
        elif category in KIND_OF_CATEGORY:
            table[code] = KIND_OF_CATEGORY[category]
    table[list(HANGUL_FILLERS)] = INVISIBLE
    table[[*JOINERS, ord("\n")]] = OTHER
    table[0xFFFD] = BROKEN  # stands for bytes that are not text
    return table


def _script_of_letter(letter: str) -> int:
    """Returns the index in SCRIPTS of a letter's script; 0 for a letter of none, such as 'ª'."""
    words = unicodedata.name(letter, "").replace("-", " ").split()
    words = [word for word in words if word not in ("HALFWIDTH", "FULLWIDTH")]
    if not words or words[0] in ("MODIFIER", "MATHEMATICAL", "DOUBLE", "SCRIPT", "BLACK"):
        return 0
    name = "Han" if words[0] in HAN else words[0].capitalize()
    if name in SCRIPTS:
        return SCRIPTS.index(name)
    return SCRIPTS.index("other") if {"LETTER", "SYLLABLE", "IDEOGRAPH"} & {*words[1:]} else 0


def code_of(language: str) -> str:
    """Returns the code of a language without its country: 'ko-KR' gives 'ko'."""
    return re.split("[-_]", language.lower())[0]


def script_of(language: str) -> str:
    """Returns the script of a language by its code: 'ko' and 'ko-KR' give 'Hangul'; else ''."""
    code = code_of(language)
    return next((script for script, codes in LANGUAGES.items() if code in codes.split()), "")


def codes_of(lines: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Returns the code points of all lines, and where each line begins in them.

    Each line ends with a line break, so that none is empty: "ab", "" are codes 97 98 10 10 with
    starts 0 3.
    """
    text = "".join(f"{line}\n" for line in lines)
    codes = np.frombuffer(text.encode("utf-32-le"), np.uint32)
    ends = np.flatnonzero(codes == ord("\n"))
    return codes, np.concatenate([[0], ends[:-1] + 1])


def folded(lines: Sequence[str]) -> list[str]:
    """Returns lines without differences of case and of compatible characters: 'Ａ' becomes 'a'."""
    return unicodedata.normalize("NFKC", "\n".join(lines)).casefold().split("\n")


def skeletons(codes: np.ndarray) -> list[str]:
    """Returns the letters and marks of folded lines, given as codes: no digit, mark or space."""
    kept = (kinds()[codes] >= MARK) | (codes == ord("\n"))
    return codes[kept].tobytes().decode("utf-32-le").split("\n")[:-1]


def is_mojibake(lines: Sequence[str], codes: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """Returns for each line whether it has UTF-8 that was read as another encoding, bool."""
    leads = (codes[:-1] >= ord("Â")) & (codes[:-1] <= ord("ï")) & (codes[1:] >= 0x80)
    result = np.zeros(len(lines), bool)
    for number in np.unique(np.searchsorted(starts, np.flatnonzero(leads), side="right") - 1):
        result[number] = bool(MOJIBAKE.search(lines[number]))
    return result


def has_tag(line: str) -> bool:
    """Returns whether a line has a tag of HTML, or a comment: '<b>', '</a>', '<br />', '<!--'."""
    return bool(TAG.search(line))


def has_entity(line: str) -> bool:
    """Returns whether a line has a character by its name or number in HTML: '&amp;', '&#39;'."""
    return any(html.unescape(name) != name for name in REFERENCE.findall(line))


def letters_of(kinds_of_codes: np.ndarray, starts: np.ndarray, script: int) -> np.ndarray:
    """Returns how many letters of a script, an index of SCRIPTS, each line has; int32."""
    return np.add.reduceat(kinds_of_codes == LETTER + script, starts, dtype=np.int32)


def has_piece(
    processor: sentencepiece.SentencePieceProcessor, characters: Sequence[str]
) -> np.ndarray:
    """Returns for each character, bool, whether pieces spell it: no bytes, not unknown."""
    # Mask over ids: True for a piece of text, False for a byte or UNKNOWN.
    is_text = np.array([not (processor.is_byte(i) or i == UNKNOWN) for i in range(len(processor))])
    return np.array([is_text[ids].all() for ids in processor.encode(list(characters))], bool)


class Spelling:
    """Finds the characters that a vocabulary has no piece for; each is looked up once."""

    def __init__(self, pieces: sentencepiece.SentencePieceProcessor):
        self._pieces = pieces
        self._asked = np.zeros(0x110000, bool)
        self._lacks = np.zeros(0x110000, bool)

    def lacks(self, codes: np.ndarray) -> np.ndarray:
        """Returns for each code point whether it is spelt in bytes, or unknown; bool."""
        new = np.unique(codes[~self._asked[codes]])
        self._asked[new] = True
        # A line break is none of the text's characters, nor is what stands for broken bytes.
        new = new[(new != ord("\n")) & (new != 0xFFFD)]
        if len(new):
            self._lacks[new] = ~has_piece(self._pieces, list(map(chr, new)))
        return self._lacks[codes]
