"""A folder's checksums name each file that is not what was written, on a disk and in a bucket."""

import errno
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


def made_folders(folder):
    """The names in a folder, without those of locks."""
    return sorted(x.name for x in folder.iterdir() if x.suffix != ".lock")


def test_a_folder_is_made_once_and_again_where_it_is_damaged(tmp_path, caplog):
    made = tmp_path / "made"
    for text in ("a", "b"):  # the second is not written
        checksums.make_folder(made, write(text), "writing again")
        assert made_folders(tmp_path) == ["made"]
        assert (made / "a.txt").read_text() == "a"
        assert os.stat(made).st_mode & 0o777 == 0o755
    assert not caplog.records
    for damage in ((made / "a.txt").unlink, (made / checksums.NAME).unlink):
        with open(made / "a.txt", "rb") as opened:
            damage()
            checksums.make_folder(made, write("c"), "writing again")
            assert opened.read() in (b"a", b"c")  # who has it open keeps it
        assert made_folders(tmp_path) == ["made"]
        assert (made / "a.txt").read_text() == "c"
    assert [record.getMessage() for record in caplog.records] == [
        f"damaged: {made / name} (missing); writing again" for name in ("a.txt", checksums.NAME)
    ]


def test_a_failed_writer_leaves_nothing(tmp_path):
    with pytest.raises(ZeroDivisionError):
        checksums.make_folder(tmp_path / "made", lambda folder: 1 / 0, "")
    assert not made_folders(tmp_path)


@pytest.mark.parametrize("has_locks", [True, False])
def test_many_writers_make_a_folder_that_stays_whole(tmp_path, monkeypatch, has_locks):
    """By turns; as some shared disks have no locks, there the first to finish wins."""
    written = []

    def flock(*_):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    def write_slowly(folder):
        time.sleep(0.02)
        (folder / "a.txt").write_text("a")
        written.append(folder.name[0])

    if not has_locks:
        monkeypatch.setattr("fcntl.flock", flock)
    (tmp_path / "one-draft-abc").mkdir()  # left by a killed process
    make = lambda name: checksums.make_folder(tmp_path / name, write_slowly, "")
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(make, ["one", "two"] * 8))
    for name in ("one", "two"):
        assert checksums.corrupt_files(tmp_path / name, alone=True) == []
    if has_locks:
        assert sorted(written) == ["o", "t"]
        assert made_folders(tmp_path) == ["one", "two"]
    else:
        assert (tmp_path / "one-draft-abc").is_dir()  # perhaps another process's
