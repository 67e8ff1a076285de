"""A table of characters: text comes back as it was, and unknown characters are UNKNOWN."""

import pytest
from helpers.corpora import lines
from ml_collections import ConfigDict

from transformer.data import corpora
from transformer.data.tokenizer import END, PAD, START, UNKNOWN
from transformer.errors import UserError
from transformer.families.language_model import characters
from transformer.tasks import vocabularies

LINES = ["a b\tc", "", "  äß\u2028ab ", "\r\x0b나"]


@pytest.fixture
def table():
    return characters.load(characters.learn(LINES), "table")


def test_known_text_comes_back_as_it_was(table):
    ids = table.encode(LINES)
    assert table.decode(ids) == LINES
    assert all(text[-1] == END and END not in text[:-1] for text in ids)
    used = {i for text in ids for i in text} - {END}
    assert used == set(range(4, len(table)))  # each character has its id, and no id is left over


def test_ids_are_in_the_order_of_code_points():
    table = characters.load(characters.learn(["ca", "b"]), "table")
    assert table.encode(["abc"]) == [[4, 5, 6, END]]
    assert len(table) == 7
    assert (table.pad, table.end, table.unknown, table.start) == (PAD, END, UNKNOWN, START)


def test_unknown_and_special_ids(table):
    assert table.encode(["aß?"])[0][2] == UNKNOWN
    [text] = table.decode([[START, *table.encode(["a?b"])[0], PAD]])
    assert text == "a\ufffdb"


def test_a_fingerprint_is_of_the_characters_alone(table):
    again = characters.load(characters.learn(LINES[::-1] * 3), "again")
    assert again.fingerprint == table.fingerprint
    assert characters.load(b"ab", "ab").fingerprint != table.fingerprint


@pytest.mark.parametrize("content", [b"", b"aba", b"\xff"])
def test_a_file_that_is_no_table_is_one_line(content):
    with pytest.raises(UserError, match=r"\Avocabulary/text.characters is not a table .*\Z"):
        characters.load(content, "vocabulary/text.characters")


def test_blank_text_has_no_characters():
    with pytest.raises(UserError, match="the training text is blank"):
        characters.learn(["", ""])


def test_the_kind_characters_is_learnt_stored_and_loaded(tmp_path):
    """From all lines, whatever the size of a sample; in the normalisation of the config."""
    options = {"kind": "characters", "size": 0, "character_coverage": 0.5, "normalisation": "nfc"}
    config = ConfigDict({"vocabulary": {**options, "max_sentences": 1}, "train": {"seed": 0}})
    (tmp_path / "all.txt").write_bytes(lines(["abc d", "", "fed", "ne\u0301"]))
    corpus = corpora.load_text("all.txt", directory=str(tmp_path), key="split")
    table = vocabularies.load(config, vocabularies.learn(config, corpus), "test")
    assert table == characters.Characters(" abcdefné", "nfc")
    assert table.encode(["ne\u0301"]) == table.encode(["né"])
