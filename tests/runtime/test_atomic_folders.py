"""A folder is there as a whole, with its checksums, or not at all."""

import os

import pytest

from transformer.runtime import checksums
from transformer.runtime.atomic_folders import draft


def test_a_draft_becomes_the_folder(tmp_path):
    with draft(tmp_path / "made") as written:
        (written / "a.txt").write_text("a")
        assert not (tmp_path / "made").exists()
    assert list(tmp_path.iterdir()) == [tmp_path / "made"]
    assert checksums.corrupt_files(tmp_path / "made", alone=True) == []
    assert os.stat(tmp_path / "made").st_mode & 0o777 == 0o755


def test_a_failed_writer_leaves_nothing(tmp_path):
    def fail():
        with draft(tmp_path / "made") as written:
            (written / "a.txt").write_text("a")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert not list(tmp_path.iterdir())


def test_only_abandoned_drafts_are_removed(tmp_path):
    (tmp_path / "old-draft-abc").mkdir()
    with draft(tmp_path / "first") as first, draft(tmp_path / "second"):
        assert first.exists()  # its writer has it locked
        assert not (tmp_path / "old-draft-abc").exists()
    assert set(tmp_path.iterdir()) == {tmp_path / "first", tmp_path / "second"}


def test_the_files_of_the_last_writer_count(tmp_path):
    """Another process was first, and its folder was damaged since."""
    with draft(tmp_path / "made") as last:
        (last / "a.txt").write_text("a")
        with draft(tmp_path / "made") as first:
            (first / "a.txt").write_text("a")
        (tmp_path / "made" / "a.txt").write_text("b")
    assert list(tmp_path.iterdir()) == [tmp_path / "made"]
    assert (tmp_path / "made" / "a.txt").read_text() == "a"
