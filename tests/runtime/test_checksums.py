"""A folder's checksums name each file that is not what was written, on a disk and in a bucket."""

import errno
import hashlib
import json
import os
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from helpers.buckets import RUN

from transformer.runtime import checksums, paths


def sealed(folder, about=None):
    """Writes two files and their checksums into a folder, and returns the folder."""
    for name in ("params/a", "opt_state/b"):
        paths.write_file(folder / name, name.encode())
    paths.write_file(folder / checksums.NAME, checksums.checksums_of(folder, about))
    return folder


def forged(files, about):
    """Returns a checksum file of any content, with the right checksum of its own."""
    digest = hashlib.sha256(json.dumps([files, about] if about else files).encode()).hexdigest()
    values = {"files": files, **({"about": about} if about else {}), "sha256": digest}
    return json.dumps(values, indent=1).encode()


def test_a_changed_note_or_checksum_is_a_mismatch_of_the_checksum_file(tmp_path):
    path = sealed(tmp_path, {"step": 5}) / checksums.NAME
    assert checksums.read(tmp_path)["about"] == {"step": 5}
    content = path.read_bytes()
    for old, new in ((b'"step": 5', b'"step": 6'), (b"params/a", b"params/b"), (b"{", b"")):
        assert old in content
        path.write_bytes(content.replace(old, new, 1))
        assert checksums.read(tmp_path) == {"files": {}, "about": {}}
        assert checksums.corrupt_files(tmp_path) == [f"{path} (checksum mismatch)"]
    path.unlink()
    assert checksums.corrupt_files(tmp_path) is None


def test_only_the_wanted_files_are_compared(tmp_path):
    sealed(tmp_path)
    for name in ("params/a", "opt_state/b"):
        (tmp_path / name).unlink()
    only = checksums.corrupt_files(tmp_path, wanted=lambda name: name.startswith("params"))
    assert only == [f"{tmp_path / 'params/a'} (missing)"]


def test_checksums_in_a_bucket_equal_those_on_a_disk(bucket, tmp_path):
    for name in ("a", "b/c", "b/d/e"):
        for folder in (bucket / "1", tmp_path):
            paths.write_file(folder / name, name.encode())
    content = checksums.checksums_of(bucket / "1")
    assert content == checksums.checksums_of(tmp_path)
    paths.write_file(bucket / "1" / checksums.NAME, content)
    assert checksums.corrupt_files(bucket / "1") == []
    paths.write_file(bucket / "1" / "a", b"aa")
    paths.write_file(bucket / "1" / "b/c", b"b/d")
    (bucket / "1" / "b/d/e").unlink()
    assert checksums.corrupt_files(bucket / "1") == [
        f"{RUN}/1/a (2 bytes, expected 1)",
        f"{RUN}/1/b/c (checksum mismatch)",
        f"{RUN}/1/b/d/e (missing)",
    ]


# Folders that are there as a whole, with their checksums, or not at all.


def write(text):
    return lambda folder: (folder / "a.txt").write_text(text)


def test_a_folder_is_made_once_and_again_where_it_is_damaged(tmp_path, caplog):
    made = tmp_path / "made"
    for text in ("a", "b"):  # the second is not written
        checksums.make_folder(made, write(text), "writing again")
        assert list(tmp_path.iterdir()) == [made]
        assert (made / "a.txt").read_text() == "a"
        assert os.stat(made).st_mode & 0o777 == 0o755
    assert not caplog.records
    for damage in ((made / "a.txt").unlink, (made / checksums.NAME).unlink):
        damage()
        checksums.make_folder(made, write("c"), "writing again")
        assert list(tmp_path.iterdir()) == [made]
        assert (made / "a.txt").read_text() == "c"
    said = [record.getMessage() for record in caplog.records]
    assert said == [
        f"damaged: {made / name} (missing); writing again" for name in ("a.txt", checksums.NAME)
    ]


def test_a_failed_writer_leaves_nothing(tmp_path):
    with pytest.raises(ZeroDivisionError):
        checksums.make_folder(tmp_path / "made", lambda folder: 1 / 0, "")
    assert not list(tmp_path.iterdir())


def test_writers_take_turns_and_remove_what_killed_ones_left(tmp_path):
    (tmp_path / "old-draft-abc").mkdir()
    written = []

    def write_slowly(folder):
        assert list(tmp_path.glob("*-draft-*")) == [folder]
        time.sleep(0.1)
        (folder / "a.txt").touch()
        written.append(folder.name[0])

    make = lambda name: checksums.make_folder(tmp_path / name, write_slowly, "")
    with ThreadPoolExecutor() as pool:
        list(pool.map(make, ("one", "two", "one")))
    assert sorted(written) == ["o", "t"]
    assert set(tmp_path.iterdir()) == {tmp_path / "one", tmp_path / "two"}


def test_without_locks_drafts_are_left_alone(tmp_path, monkeypatch):
    """As on some shared disks: another process may be writing the draft."""

    def flock(*_):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr("fcntl.flock", flock)
    (tmp_path / "other-draft-abc").mkdir()
    checksums.make_folder(tmp_path / "made", write("a"), "")
    assert set(tmp_path.iterdir()) == {tmp_path / "made", tmp_path / "other-draft-abc"}
