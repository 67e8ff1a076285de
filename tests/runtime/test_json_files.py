"""JSON files: read or refused in one line that names the file."""

import pytest

from transformer.errors import UserError
from transformer.runtime import json_files


@pytest.mark.parametrize(
    ("content", "said"),
    [
        *((None, "is missing"), (b"{", "is not JSON"), (b"[" * 9**5, "is not JSON")),
        *(
            (b"\xff", "is not JSON"),
            (b"[]", "is not a JSON object"),
            (b"null", "is not a JSON object"),
            (b'{"a": "\\ud800"}', "is not JSON"),
        ),
    ],
)
def test_a_file_without_an_object_is_named(tmp_path, content, said):
    file = tmp_path / "config.json"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(UserError, match=rf"config.json {said}"):
        json_files.read_object(file)


def test_a_file_that_is_too_large_is_not_read(tmp_path, monkeypatch):
    json_files.write(tmp_path / "config.json", {"a": 1})
    assert json_files.read_object(tmp_path / "config.json") == {"a": 1}
    monkeypatch.setattr(json_files, "MAX_BYTES", 3)
    with pytest.raises(UserError, match="expected at most 3"):
        json_files.read(tmp_path / "config.json")


@pytest.mark.parametrize(
    ("value", "options", "found"),
    [
        (3, {"kind": int, "least": 3, "most": 3}, 3),
        (3, {"kind": float}, 3.0),
        (None, {"kind": str, "default": "x"}, "x"),
        ("y", {"kind": str, "default": "x"}, "y"),
    ],
)
def test_a_field_is_read_or_has_its_default(value, options, found):
    value = json_files.field({"size": value}, "a.json", "size", **options)
    assert (type(value), value) == (type(found), found)


@pytest.mark.parametrize(
    ("value", "options", "said"),
    [
        (None, {"kind": str}, "is missing, or no str: found 'None'"),
        (True, {"kind": int}, "is missing, or no int: found 'True'"),
        ({}, {"kind": str, "default": "x"}, "is missing, or no str: found '{}'"),
        (10**400, {"kind": float}, "is missing, or no float"),
        (2, {"kind": int, "least": 3}, "is from 3 to inf, found 2"),
        (2**40, {"kind": int, "most": 2**16}, "is from -inf to 65536, found 1099511627776"),
        (float("nan"), {"kind": float, "most": 1}, "is from -inf to 1, found nan"),
    ],
)
def test_a_field_of_another_kind_or_size_is_named(value, options, said):
    with pytest.raises(UserError, match=f"a.json: size {said}"):
        json_files.field({"size": value}, "a.json", "size", **options)
