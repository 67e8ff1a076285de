"""Labelled text is read as it is in the files; mistakes name file and line."""

import re

import pytest

from transformer.errors import UserError
from transformer.families.texts import labelled_text

PAIRS = ["same\ta b\tc", "other\td\te f"]
LINES = ["1\t좋은 영화", "0\t지루 하다", "good\ttabs\tare text", "0\t또 지루하다"]


@pytest.fixture
def load(tmp_path):
    def load(content=None, split="train.tsv", name="train.tsv", num_texts=1):
        if content is not None:
            (tmp_path / name).write_text("\n".join(content))
        directory = str(tmp_path)
        return labelled_text.load(split, num_texts, directory=directory, key="config.data.train")

    return load


def test_texts_and_labels_are_read_in_order(load, tmp_path):
    corpus = load(LINES)
    assert len(corpus) == 4
    assert corpus.labels == ("1", "0", "good", "0")
    assert corpus.read() == ([*(line.split("\t", 1)[1] for line in LINES)],)
    assert corpus.files == (str(tmp_path / "train.tsv"),)


def test_spaces_around_a_label_make_no_other_class(load):
    """Nor does a label in another Unicode form."""
    assert load(["né\ta", " né\tb", "ne\u0301 \tc", "so so\td"]).labels == (*["né"] * 3, "so so")


def test_the_fingerprint_is_of_the_content(load):
    first, again = load(LINES), load(LINES)
    relabelled = load(["0" + LINES[0][1:], *LINES[1:]])
    assert first.fingerprint == again.fingerprint != relabelled.fingerprint


def test_a_part_and_several_files_know_their_lines(load, tmp_path):
    load(LINES)
    corpus = load(LINES[:2], split="train.tsv[50%:],more.tsv", name="more.tsv")
    assert corpus.labels == ("good", "0", "1", "0")
    assert [corpus.place(i) for i in range(4)] == [
        *(f"{tmp_path}/train.tsv, line {n}" for n in (3, 4)),
        *(f"{tmp_path}/more.tsv, line {n}" for n in (1, 2)),
    ]


@pytest.mark.parametrize(
    ("line", "shown"),
    [("no tab", "'no tab'"), ("\ttext", r"'\\ttext'"), ("1\t ", r"'1\\t '"), ("", "''")],
)
def test_a_line_that_is_not_labelled_is_named(load, line, shown):
    message = rf"train\.tsv, line 3: expected LABEL<tab>TEXT, found {shown}$"
    with pytest.raises(UserError, match=message):
        load([*LINES[:2], line, *LINES[2:]])


def test_two_texts_a_line_are_two_texts(load, tmp_path):
    corpus = load(PAIRS, num_texts=2)
    assert (len(corpus), corpus.labels) == (4, ("same", "other"))
    assert corpus.read() == (["a b", "c", "d", "e f"],)
    assert corpus.place(1) == f"{tmp_path}/train.tsv, line 2"
    assert corpus.lines == load(PAIRS).lines == ["a b\tc", "d\te f"]  # or texts with tabs in them
    assert load(PAIRS).fingerprint != corpus.fingerprint
    for line in ("same\ta", "same\ta\tb\tc", "same\t\tb", "same\ta\t ", "\ta\tb"):
        message = re.escape(f"train.tsv, line 3: expected LABEL<tab>A<tab>B, found {line!r}")
        with pytest.raises(UserError, match=f"{message}$"):
            load([*PAIRS, line], num_texts=2)


def test_a_cut_between_characters_is_refused(load):
    with pytest.raises(UserError, match="cut between lines only"):
        load(LINES, split="train.tsv[:50% of characters]")
