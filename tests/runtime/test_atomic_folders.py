"""A folder is there as a whole, with its checksums, or not at all."""

import os
import time
from concurrent.futures import ThreadPoolExecutor

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


def test_abandoned_drafts_are_removed_and_writers_take_turns(tmp_path):
    (tmp_path / "old-draft-abc").mkdir()
    events = []

    def write(name):
        with draft(tmp_path / name) as written:
            assert sorted(tmp_path.glob("*-draft-*")) == [written]
            events.append(name)
            time.sleep(0.1)
            events.append(name)

    with ThreadPoolExecutor() as pool:
        list(pool.map(write, ("first", "second")))
    assert events in (["first"] * 2 + ["second"] * 2, ["second"] * 2 + ["first"] * 2)
    assert set(tmp_path.iterdir()) == {tmp_path / "first", tmp_path / "second"}


def test_a_damaged_folder_is_replaced(tmp_path):
    for content in ("b", "a"):
        with draft(tmp_path / "made") as written:
            (written / "a.txt").write_text(content)
    assert list(tmp_path.iterdir()) == [tmp_path / "made"]
    assert (tmp_path / "made" / "a.txt").read_text() == "a"
