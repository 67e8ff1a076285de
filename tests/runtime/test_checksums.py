"""A folder's checksums name each file that is not what was written, on a disk and in a bucket."""

import hashlib
import json

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
