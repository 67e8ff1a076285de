"""Kinds of characters, scripts, broken encodings, and which language a line is in."""

import numpy as np
import pytest
from helpers import corpora

from transformer.tools.audit import scripts
from transformer.tools.audit.scripts import BROKEN, INVISIBLE, LETTER, MARK, OTHER

SAME_SCRIPT = ("azÄßｚ", "яЁ", "가ᄀㄱ", "漢字かなカナー", "अक", "Ꭰ")


def test_letters_of_a_script_have_one_kind():
    kinds = [{*scripts.kinds()[[*map(ord, text)]]} for text in SAME_SCRIPT]
    assert all(len(kind) == 1 for kind in kinds)
    assert min(set.union(*kinds)) >= LETTER
    assert len(set.union(*kinds)) == len(SAME_SCRIPT)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("\x00\t\x85\u00ad\u200b\ufeff\u2028\ue000\u3164", INVISIBLE),
        ("\ufffd", BROKEN),
        ("\u0301\u093f", MARK),
        (".?€😀7٣½ \u00a0\u3000\n\u200d\u200c", OTHER),
    ],
)
def test_the_kind_of_other_characters(text, kind):
    assert set(scripts.kinds()[[*map(ord, text)]]) == {kind}


@pytest.mark.parametrize("encoding", ["cp1252", "latin-1"])
@pytest.mark.parametrize("text", ["für à la carte", "don’t", "5 €", "쌀밥", "Привет", "東京", "č"])
def test_utf8_read_as_another_encoding_is_seen(text, encoding):
    content = text.encode()
    if encoding == "cp1252" and {*content} & {0x81, 0x8D, 0x8F, 0x90, 0x9D}:
        pytest.skip("these bytes are nothing in Windows-1252")
    assert scripts.is_mojibake(content.decode(encoding))


def test_ordinary_text_is_no_mojibake():
    ordinary = """Écris sur «\u00a0l'Amitié\u00a0». „Café“ »Blüte« ÇA VA\u00a0? São Paulo – NÃO Ö“
        É\u00a0! à «\u00a0b naïve’s Äß, 30° 사과를 좋아해 Ελλάδα œuvre plain"""
    assert not scripts.is_mojibake(ordinary)


def test_a_skeleton_has_letters_and_marks_only():
    lines = ["It's 3 Ａpples!", "", "किताब 7", "..."]
    assert scripts.skeletons(lines) == ["itsapples", "", "किताब", ""]


def test_characters_that_the_vocabulary_lacks():
    """The letters a to f are in its corpus; line breaks and U+FFFD are no characters of a text."""
    processor = corpora.learn("text").processor
    lacking = scripts.lack_pieces(np.array([*map(ord, "abc é가\n\ufffdé")]), processor)
    assert np.flatnonzero(lacking).tolist() == [4, 5, 8]
    assert not scripts.lack_pieces(np.array([ord("\n")]), processor).any()


@pytest.mark.parametrize(
    ("line", "tag", "entity"),
    [
        ("Das ist <b>wichtig</b>.", True, False),
        ("one<BR/>two", True, False),
        ('a <a href="http://x.org/?a=1&b=2">link</a>', True, False),
        ("<!-- hidden -->", True, False),
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


def test_a_line_of_its_own_language_is_no_evidence_and_one_of_another_is():
    german, english, french = "Wo bin ich?", "I have no time.", "Où suis-je maintenant ?"
    lines = [german, english, french, "나는 어디에 있어?", "", "42"]
    to_other, to_likeliest = scripts.evidence(lines, "de", "en")
    assert to_other[0] == to_likeliest[0] == 0
    assert to_other[1] == to_likeliest[1] > np.log(20)  # the likeliest is English
    assert (to_likeliest[2:4] > np.log(100)).all()
    assert to_likeliest[2] > to_other[2]
    assert to_other[4:].tolist() == [0, 0]
    assert (to_likeliest[4:] < 1).all()
    back, _ = scripts.evidence(lines[:2], "en", "de")
    assert back[0] > np.log(20)
    assert back[1] == 0
    to_unknown, to_likeliest = scripts.evidence([french], "de", "xx")
    assert to_unknown[0] == 0
    assert to_likeliest[0] > np.log(100)


NOTHING = "e3b0c44298fc1c149afbf4c8996fb924 27ae41e4649b934ca495991b7852b855"


@pytest.mark.parametrize(
    ("line", "codes"),
    [("Where am I?", ("xx", "en")), ("Wo bin ich?", ("xx", "yy")), (NOTHING, ("de", "en"))],
)
def test_of_an_unknown_language_and_of_none_nothing_is_said(line, codes):
    assert scripts.identifier().classify(NOTHING)[0] == scripts.NO_LANGUAGE
    assert not np.any(scripts.evidence([line], *codes))


def test_a_long_line_in_another_language_is_a_finite_number():
    [to_other], _ = scripts.evidence([np.__doc__ * 10], "de", "en")
    assert 20 < to_other < np.inf
