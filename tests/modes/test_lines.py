"""Reading and writing lines: decoding, columns, JSON objects and counts."""

import io
import json
import logging
import math
import os

import pytest

from transformer.errors import UserError
from transformer.modes import lines


def columns(texts, *, names=("source", "prefix"), needed=1, form="text"):
    return list(lines.columns(texts, names, needed=needed, form=form))


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", []),
        (b"\n", [""]),
        (b"a\nb\n", ["a", "b"]),
        (b"a\nb", ["a", "b"]),
        (b"a\r\n\r\nb\r\n", ["a", "", "b"]),
        (" a\u2028b\x0b\x0c\x1c\x85c \n".encode(), [" a\u2028b\x0b\x0c\x1c\x85c "]),
        (b"a\rb\n", ["a\rb"]),
        (b"a\r\r\nb\n\n", ["a\r", "b", ""]),
        (b"a\x00b\n", ["a\x00b"]),
        ("\ufeffa\n\ufeffb\n".encode(), ["a", "\ufeffb"]),  # only the first is a byte order mark
        ("\ufffd\n".encode(), ["\ufffd"]),  # a replacement character of the text is no mistake
    ],
)
def test_a_line_is_what_stands_before_a_newline(content, expected, caplog):
    assert list(lines.read(io.BytesIO(content))) == expected
    assert not caplog.records


def test_bytes_that_are_not_utf_8_are_replaced(caplog):
    """Also half a surrogate pair and half a character; the warning names the line."""
    for wrong in (b"\xff", b"caf\xe9", b"\xed\xa0\x80", b"\xc3", b"\xf4\x90\x80\x80"):
        caplog.clear()
        texts = list(lines.read(io.BytesIO(b"a\n" + wrong + b" b\n\xc3\xa9\n")))
        assert [texts[0], texts[2]] == ["a", "é"]
        assert "\ufffd" in texts[1]
        assert texts[1].endswith(" b")
        [warning] = [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]
        assert warning == "line 2: replaced bytes that are not UTF-8"


@pytest.mark.parametrize("form", ["text", "json"])
def test_no_line_is_read_before_it_is_asked_for(form):
    read = []

    def file():
        for number in range(9):
            read.append(number)
            yield b'{"source": "a"}\n'

    found = lines.columns(lines.read(file()), ["source"], needed=1, form=form)
    for number in range(1, 10):
        next(found)
        assert len(read) == number


def test_columns_are_separated_by_tabs():
    """An optional column may be missing; the last one is the rest of the line, tabs included."""
    assert columns(["a b\tc d", "a", "", "a\t", "\tc", "a\tb\tc"]) == [
        {"source": "a b", "prefix": "c d"},
        {"source": "a"},
        {"source": ""},
        {"source": "a", "prefix": ""},
        {"source": "", "prefix": "c"},
        {"source": "a", "prefix": "b\tc"},
    ]
    assert columns(["a\tb", "\t"], names=["source"]) == [{"source": "a\tb"}, {"source": "\t"}]


def test_json_objects_keep_their_other_keys_in_their_order():
    line = '{"id": 7, "source": "a\\tb\\n", "tags": ["x", {"y": null}]}'
    [found] = columns([line], form="json")
    assert list(found) == ["id", "source", "tags"]
    assert found == {"id": 7, "source": "a\tb\n", "tags": ["x", {"y": None}]}


WRONG = [
    *("", "a b c", "[]", '"source"', "3", "null", "NaN", '{"source": "a"', '{"source": "a"} x'),
    *('{"a":' * 100_000, "{}", '{"sorce": "a"}', '{"source": null}', '{"source": 3}'),
    *('{"source": ["a"]}', '{"source": "a", "prefix": 3}', '{"source": "a", "prefix": null}'),
    '{"prefix": "a"}',
]


def test_a_line_without_its_texts_is_named():
    for line in WRONG:
        with pytest.raises(UserError) as error:
            columns(['{"source": "a"}', line], form="json")
        expected = 'line 2: expected a JSON object with texts, such as {"source": "..."}, found '
        assert str(error.value) == f"{expected}{line[:80]!r}"
    with pytest.raises(
        UserError, match=r"\Aline 2: expected SOURCE<tab>TARGET, found '(ab){40}'\Z"
    ):
        columns(["a\tb", "ab" * 500], names=("source", "target"), needed=2)


def test_half_of_a_surrogate_pair_is_replaced():
    """A lone surrogate cannot be encoded: neither a vocabulary nor standard output accepts it."""
    line = r'{"source": "a \ud800 b", "prefix": "\udc00", "id": "\ud83c\udfe0"}'
    assert columns([line], form="json") == [{"source": "a ? b", "prefix": "?", "id": "🏠"}]


def test_json_is_one_line_of_readable_text():
    """Python reads NaN, Infinity and 1e999, but other programs do not: they come out as null."""
    line = '{"source": "a", "x": NaN, "tags": [Infinity, {"y": -Infinity}, 1e999, 1.5]}'
    [found] = columns([line], form="json")
    found |= {"score": -math.inf, "text": "inf\nb\u2028", "translation": "나는 é"}
    text = lines.to_json(found)
    assert "\n" not in text
    assert "나는 é" in text
    assert json.loads(text, parse_constant=pytest.fail) == {
        **found,
        **{"x": None, "tags": [None, {"y": None}, None, 1.5], "score": None},
    }
    assert json.loads(lines.to_json({"score": -0.5})) == {"score": -0.5}


def test_every_line_is_written_at_once():
    """Also with half a surrogate pair, as a further key of a JSON object may hold."""
    readable, writable = os.pipe()
    os.set_blocking(readable, False)
    with open(readable, "rb", buffering=0) as end, open(writable, "wb") as file:
        for text, expected in (("나 é", "나 é\n"), ("", "\n"), ("a \udc80", "a ?\n")):
            lines.write(file, text)
            assert end.read(100) == expected.encode()


@pytest.mark.parametrize(
    ("content", "expected"),
    [(b"", 0), (b"\n", 1), (b"a", 1), (b"a\n", 1), (b"a\r\nb\r\n\n", 3), (b"a\nb", 2)],
)
def test_lines_of_a_file_are_counted(content, expected, tmp_path):
    """Those that are left; nothing is consumed."""
    (tmp_path / "file").write_bytes(b"read\n" + content)
    with open(tmp_path / "file", "rb") as file:
        file.readline()
        assert lines.count(file) == expected
        assert len(list(lines.read(file))) == expected


def test_lines_of_a_pipe_are_not_counted():
    """Nothing is read from a pipe, which may be endless."""
    readable, writable = os.pipe()
    with open(readable, "rb") as file, open(writable, "wb"):
        assert lines.count(file) is None
