"""JSON files: read, or refused in one line that names the file."""

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
