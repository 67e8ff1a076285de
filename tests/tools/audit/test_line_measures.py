"""What is kept of each line, and how it is read."""

import re

import numpy as np
import pytest
from helpers import corpora
from tools.audit import parallel

from transformer.tools.audit import line_measures


def described(text, **options):
    """The `Lines` of the source side."""
    return parallel.scanned([(line, f"target {i}") for i, line in enumerate(text)], **options)[0]


def test_the_numbers_of_lines():
    side = described(["Ab 12, cd 3.", "", " \u00a0", "»Wirklich?«", "x" * 300, "a\tb  c "])
    assert side.length.tolist() == [12, 0, 2, 11, 300, 7]
    assert side.pieces.tolist() == [5, 1, 1, 2, 2, 4]  # words, and END
    assert side.letters.tolist() == [4, 0, 0, 8, 300, 3]
    assert side.ending.tolist() == [1, 0, 0, 2, 0, 0]
    assert (side.numbers != 0).tolist() == [True, *[False] * 5]
    assert side.invisible.tolist() == [False] * 5 + [True]
    side = described(["Ja.", "Ja.\r", "Ja.“", "Ja?)", "네。", "Ja:"])
    assert side.ending.tolist() == [1, 1, 1, 2, 1, 4]
    assert re.search("।", "".join(line_measures.ENDINGS))


def test_numbers_are_equal_in_any_order_and_notation():
    numbers = described(["1,000 and 24", "24 1.000", "1,001", "24 1000!", "no"]).numbers
    assert numbers[0] == numbers[1] == numbers[3] != numbers[2]
    assert numbers[4] == 0


def test_keys_are_equal_where_texts_are():
    side = described(["It's ok.", "its OK", "It's ok.", "7", "8", " 7", "8."])
    assert len(set(side.exact)) == 6
    assert side.exact[0] == side.exact[2]
    assert side.near[0] == side.near[1] == side.near[2]
    # Without a letter it is the text that counts, without its spaces.
    assert side.near[3] == side.near[5]
    assert len({*side.near[[0, 3, 4, 6]]}) == 4


@pytest.mark.parametrize(
    ("text", "other"),
    [
        (["only latin letters, most of all lines", "사과를 좋아해", "123"], [1]),
        (
            [
                "이것은 한국어 문장입니다. " * 3,
                'Tom이 "Happy" 노래를 시작했다.',
                "Quite another 말",
            ],
            [2],
        ),
    ],
)
def test_the_script_is_that_of_most_letters_and_a_name_is_in_none(text, other):
    assert np.flatnonzero(described(text).other_script).tolist() == other


def test_bytes_that_are_not_utf8_are_broken():
    pairs = [(b"gr\xfcn", b"green"), ("grün".encode(), "pr\ufffd".encode()), (b"a\nb", b"")]
    sides = list(line_measures.chunks(pairs))
    assert sides == [(["gr\ufffdn", "grün", "a b"], ["green", "pr\ufffd", ""])]
    source, target = parallel.scanned(list(zip(*sides[0], strict=True)))
    assert source.broken.tolist() == [True, False, False]
    assert target.broken.tolist() == [False, True, False]


def test_chunks_make_no_difference(monkeypatch):
    pairs = parallel.pairs(100)
    whole = parallel.scanned(pairs)
    monkeypatch.setattr(line_measures, "CHUNK", 7)
    for a, b in zip(parallel.scanned(pairs), whole, strict=True):
        for name, values in a._asdict().items():
            np.testing.assert_allclose(values, getattr(b, name), rtol=1e-6)
            assert values.dtype == getattr(b, name).dtype


def test_pieces_are_counted_exactly_where_a_line_may_be_too_long():
    pieces = corpora.learn("text")  # of the letters a to f
    text = ["abc def " * n for n in range(40)] + ["é" * n for n in range(30)]
    counts = np.array([len(ids) for ids in pieces.encode(text)])
    for most in (5, 20, 60):
        estimates = described(text, pieces=pieces, max_length=most).pieces
        assert ((estimates > most) == (counts > most)).all()
        assert (estimates[estimates > 0] == counts[estimates > 0]).all()
