"""Over-long lines are split before words, lose nothing, and are joined as their script is."""

import logging
import time

import pytest
from helpers import reversal
from helpers.decoders import PIECES, Echo, build

from transformer.data import tokenizer
from transformer.decoding import translator


@pytest.mark.slow
def test_an_over_long_line_is_translated_in_parts(caplog):
    letters = reversal.sentences(1, seed=3000, shortest=40, longest=40)[0].split()
    lines = ["a b c", " ".join(letters), "", "h g"]
    decoder = build()
    found = list(decoder.translate(reversal.parameters(), lines))
    parts = letters[:15], letters[15:30], letters[30:]
    whole = " ".join(reversal.reverse(" ".join(part)) for part in parts)
    assert found == ["c b a", whole, "", "g h"]
    assert decoder.num_split == 1
    [warning] = [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]
    assert warning.startswith("line 2 (79 characters)")
    assert "config.decode.max_length=16" in warning
    assert "3 parts" in warning


@pytest.mark.parametrize("max_length", [16, 19])
@pytest.mark.parametrize(
    "line", ["abc " * 20, "a" * 60, "a" * 60 + " b c", "b c " + "a" * 60, "aabb cc dd " * 9]
)
def test_parts_are_cut_before_words_and_lose_nothing(line, max_length, untrained):
    """The fake BatchDecoder returns its sources, so that the parts are visible."""
    # Sampling, which draws for every part, also for equal ones.
    echo = build(untrained[0], Echo("sample"), max_length=max_length)
    pieces = reversal.vocabulary().source
    [found] = echo.translate(untrained[1], [line])
    [ids] = reversal.ids([line])
    seen = [part.source for part in echo.batch_decoder.seen]
    assert found.replace(" ", "") == line.replace(" ", "")
    assert echo.num_split == 1
    assert sum(len(part) - 1 for part in seen) == len(ids) - 1
    for part in seen:
        assert 1 < len(part) <= max_length
        assert part.index(tokenizer.END) == len(part) - 1
    if max(map(len, line.split())) < max_length // 2:
        assert found == line.strip()
        assert all(pieces.pieces(part[:1])[0].startswith("▁") for part in seen)


@pytest.mark.parametrize("word", ["abcdefgh ", "a ", "abcdefgh" * 9000, "a" * 9 + " " * 9])
def test_a_text_of_any_length_is_cut_without_loss(word, untrained, monkeypatch):
    """SentencePiece gets LONG_TEXT characters at a time; cuts between words do not change text."""
    line = word * (200_000 // len(word))
    calls = []
    encode = tokenizer.Pieces.encode

    def watched(pieces, sentences):
        calls.extend(map(len, sentences))
        return encode(pieces, sentences)

    monkeypatch.setattr(tokenizer.Pieces, "encode", watched)
    echo = build(untrained[0], Echo())
    [found] = echo.translate(untrained[1], [line])
    assert max(calls) <= translator.LONG_TEXT
    assert found.replace(" ", "") == line.replace(" ", "")
    if len(word) < reversal.LONGEST:
        assert found.split() == line.split()


@pytest.mark.slow
def test_the_time_of_a_line_does_not_grow_with_the_square_of_its_parts(untrained):
    letters = reversal.sentences(1, seed=1, shortest=1_200_000, longest=1_200_000)
    decoder = build(untrained[0], Echo())
    start = time.process_time()
    assert list(decoder.translate(untrained[1], letters)) == letters
    assert (
        len(decoder.batch_decoder.seen) > 70_000
    )  # comparing all pairs of parts would take a minute
    assert time.process_time() - start < 20


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ("He says 你好", "and goes", "He says 你好 and goes"),
        ("나는 책을", "읽었어", "나는 책을 읽었어"),
        ("我喜欢读书,", "他也喜欢。", "我喜欢读书,他也喜欢。"),
        ("我们在 2014", "年读书", "我们在 2014年读书"),
        ("私は本を", "読みます", "私は本を読みます"),
        ("ฉันชอบ", "อ่านหนังสือ", "ฉันชอบอ่านหนังสือ"),
        ("我 喜欢", "读 书", "我 喜欢 读 书"),  # learnt from text with spaces
    ],
)
def test_parts_are_joined_as_their_language_writes(untrained, first, second, expected):
    texts = iter(PIECES.encode([first, second]))
    echo = build(untrained[0], Echo(answer=lambda part: [(next(texts), -1.0)]))
    assert list(echo.translate(untrained[1], ["a " * 15 + "b "])) == [expected]
