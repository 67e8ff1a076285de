"""Reading and writing lines: decoding, columns, JSON objects and counts."""

import codecs
import io
import json
import math
import os
import random
import re

import pytest

from transformer.errors import UserError
from transformer.modes import lines


def columns(texts, *, names=("source", "prefix"), needed=1, form="text"):
    return list(lines.columns(texts, names, needed=needed, form=form))


# What a line may hold or end with, and bytes that are no UTF-8: half a surrogate pair, half a
# character, one beyond Unicode. A U+FFFD of the text itself is no mistake.
PARTS = [b"\n", b"\n", b"\r\n", b"\r", codecs.BOM_UTF8, b"a", b"\t", b'{"source": "a"}', b"\0"]
PARTS += [x.encode() for x in (" ", "é", "\x0b", "\x0c", "\x1c", "\x85", "\u2028", "\ufffd")]
INVALID = [b"\xff", b"caf\xe9", b"\xed\xa0\x80", b"\xc3", b"\xf4\x90\x80\x80"]


def test_a_line_is_what_stands_before_a_newline(caplog):
    """Less a byte order mark of the first; where bytes are replaced, a warning names the line."""
    chosen, refused = random.Random(0), set()
    for number in range(2000):
        parts = [*PARTS, *INVALID] if number % 2 else PARTS
        content = b"".join(chosen.choices(parts, k=chosen.randint(0, 20)))
        *ended, last = content.split(b"\n")
        expected = [x.removesuffix(b"\r") for x in (ended if last == b"" else [*ended, last])]
        expected[:1] = [x.removeprefix(codecs.BOM_UTF8) for x in expected[:1]]
        caplog.clear()
        texts = list(lines.read(io.BytesIO(content)))
        assert texts == [x.decode("utf-8", "replace") for x in expected]
        assert [record.getMessage() for record in caplog.records] == [
            f"line {n}: replaced bytes that are not UTF-8"
            for n, (text, line) in enumerate(zip(texts, expected, strict=True), start=1)
            if text.encode() != line
        ]
        for form in ("text", "json"):
            try:
                assert len(columns(texts, needed=2, form=form)) == len(texts)
            except UserError as error:
                refused.add(re.sub(r"\Aline \d+: expected (.{4}).*\Z", r"\1", str(error)))
    assert refused == {"SOUR", "a JS"}


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


def test_a_line_without_its_texts_is_named():
    for line in [
        *("", "a b c", "[]", '"source"', "3", "null", "NaN", '{"source": "a"', '{"source": "a"} x'),
        *('{"a":' * 100_000, "{}", '{"sorce": "a"}', '{"source": null}', '{"source": 3}'),
        *('{"source": ["a"]}', '{"source": "a", "prefix": 3}', '{"source": "a", "prefix": null}'),
        '{"prefix": "a"}',
    ]:
        with pytest.raises(UserError) as error:
            columns(['{"source": "a"}', line], form="json")
        expected = 'line 2: expected a JSON object with texts, such as {"source": "..."}, found '
        assert str(error.value) == f"{expected}{line[:80]!r}"
    with pytest.raises(
        UserError, match=r"\Aline 2: expected SOURCE<tab>TARGET, found '(ab){40}'\Z"
    ):
        columns(["a\tb", "ab" * 500], names=("source", "target"), needed=2)


def test_json_objects_keep_their_other_keys_in_their_order():
    """A lone surrogate cannot be encoded: neither a vocabulary nor standard output accepts it."""
    line = (
        r'{"id": "\ud83c\udfe0", "source": "a\t\ud800\n", "prefix": "\udc00", "x": [{"y": null}]}'
    )
    [found] = columns([line], form="json")
    assert list(found) == ["id", "source", "prefix", "x"]
    assert found == {"id": "🏠", "source": "a\t?\n", "prefix": "?", "x": [{"y": None}]}


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
