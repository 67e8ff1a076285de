"""Kinds of characters, scripts, and broken encodings."""

import numpy as np
import pytest
from helpers import corpora

from transformer.tools.audit import scripts
from transformer.tools.audit.scripts import BROKEN, DIGIT, INVISIBLE, LETTER, MARK, OTHER, SPACE


@pytest.mark.parametrize(
    ("text", "script"),
    [
        *(("azÄßｚ", "Latin"), ("яЁ", "Cyrillic"), ("가ᄀㄱ", "Hangul"), ("漢字かなカナー", "Han")),
        *(("αΩ", "Greek"), ("א", "Hebrew"), ("ب", "Arabic"), ("अ", "Devanagari"), ("ก", "Thai")),
        *(("Ա", "Armenian"), ("ა", "Georgian"), ("አ", "Ethiopic"), ("Ꭰ", "other"), ("ªʰ𝐀", "none")),
    ],
)
def test_the_script_of_a_letter(text, script):
    kinds = scripts.kinds()[[*map(ord, text)]]
    assert set(kinds) == {LETTER + scripts.SCRIPTS.index(script)}


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        *((" \u00a0\u3000", SPACE), ("\x00\t\x85\u00ad\u200b\ufeff\u2028\ue000\u3164", INVISIBLE)),
        *(
            ("\ufffd", BROKEN),
            ("7٣½", DIGIT),
            ("\u0301\u093f", MARK),
            (".?€😀\n\u200d\u200c", OTHER),
        ),
    ],
)
def test_the_kind_of_other_characters(text, kind):
    assert set(scripts.kinds()[[*map(ord, text)]]) == {kind}


@pytest.mark.parametrize(
    ("code", "script"), [("ko", "Hangul"), ("zh_TW", "Han"), ("pt-BR", "Latin"), ("xx", "")]
)
def test_the_script_of_a_language(code, script):
    assert scripts.script_of(code) == script


def is_mojibake(lines):
    return scripts.is_mojibake(lines, *scripts.codes_of(lines)).tolist()


@pytest.mark.parametrize("encoding", ["cp1252", "latin-1"])
@pytest.mark.parametrize(
    "text", ["für", "à la carte", "don’t", "5 €", "쌀밥", "Привет", "東京", "č"]
)
def test_utf8_read_as_another_encoding_is_seen(text, encoding):
    content = text.encode()
    if encoding == "cp1252" and {*content} & {0x81, 0x8D, 0x8F, 0x90, 0x9D}:
        pytest.skip("these bytes are nothing in Windows-1252")
    assert is_mojibake(["plain", content.decode(encoding), ""]) == [False, True, False]


ORDINARY = [
    *("Écris sur «\u00a0l'Amitié\u00a0».", "„Café“", "»Blüte«", "ÇA VA\u00a0?", "São Paulo – NÃO"),
    *("Ö“", "É\u00a0!", "à «\u00a0b", "naïve’s", "Äß, 30°", "사과를 좋아해", "Ελλάδα", "œuvre"),
]


@pytest.mark.parametrize("line", ORDINARY)
def test_ordinary_text_is_no_mojibake(line):
    assert is_mojibake([line]) == [False]


def test_codes_of_lines():
    codes, starts = scripts.codes_of(["ab", "", "c"])
    assert (codes.tolist(), starts.tolist()) == ([97, 98, 10, 10, 99, 10], [0, 3, 4])


def test_a_skeleton_has_letters_and_marks_only():
    lines = ["It's 3 Ａpples!", "", "किताब 7", "..."]
    codes, _ = scripts.codes_of(scripts.folded(lines))
    assert scripts.skeletons(codes) == ["itsapples", "", "किताब", ""]


def test_letters_of_a_script():
    codes, starts = scripts.codes_of(["사과 apple", "", "사"])
    of_script = lambda name: scripts.letters_of(
        scripts.kinds()[codes], starts, scripts.SCRIPTS.index(name)
    )
    assert of_script("Hangul").tolist() == [2, 0, 1]
    assert of_script("Latin").tolist() == [5, 0, 0]


def test_the_vocabulary_is_asked_for_each_character_once(monkeypatch):
    asked = []
    spelling = scripts.Spelling(corpora.learn("text").processor)
    ask = scripts.has_piece
    monkeypatch.setattr(scripts, "has_piece", lambda p, text: asked.extend(text) or ask(p, text))
    for text in ("abc é", "aé가\n\ufffd"):  # the letters a to f are in the corpus
        lacks = spelling.lacks(np.array([*map(ord, text)]))
        assert [c for c, lack in zip(text, lacks, strict=True) if lack] == [
            c for c in text if c in "é가"
        ]
    assert sorted(asked) == sorted("abc é가")


@pytest.mark.parametrize(
    ("line", "tag", "entity"),
    [
        ("Das ist <b>wichtig</b>.", True, False),
        ("one<BR/>two", True, False),
        ('a <a href="http://x.org/?a=1&b=2">link</a>', True, False),
        ("<!-- hidden -->", True, False),
        ("</p>", True, False),
        ("Tom &amp; Jerry", False, True),
        ("it&#39;s", False, True),
        ("caf&eacute;, &nbsp;&#xe9;", False, True),
        ("a < b, c > d, <3, <name>, <module>, <unk>", False, False),
        ("AT&T; R&D; &c.; ?a=1&copy=2 &nosuch; Q & A;", False, False),
        ("<input> and <b and a<b>c, List<string>", True, False),
        ("if a <b and c> d", False, False),
    ],
)
def test_html(line, tag, entity):
    assert scripts.has_tag(line) == tag
    assert scripts.has_entity(line) == entity
