"""Paths and files on a disk, or in a Google Cloud Storage bucket (gs://, by etils.epath)."""

import contextlib
import errno
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from transformer.errors import UserError


def path(name: str) -> Path:
    """Returns a path on a disk or in a bucket; both have the same methods.

    UserError for the home of an unknown user, for another scheme (Orbax saves no checkpoints to
    s3://), and for gs:// without the package gcsfs.
    """
    if not in_bucket(name):
        try:
            return Path(name).expanduser()
        except RuntimeError as error:  # no such user's home
            raise UserError(f"{name!r} is not a valid path: {error}") from error
    if not name.startswith("gs://"):
        raise UserError(f"{name} is neither a local path nor gs://BUCKET/FOLDER")
    import fsspec
    from etils import epath

    # No cached listings, because other processes, and Orbax, write into the same folders.
    for protocol in ("gs", "gcs"):
        fsspec.config.conf.setdefault(protocol, {}).setdefault("use_listings_cache", False)
    try:
        fsspec.get_filesystem_class("gcs")
    except ImportError as error:
        raise UserError(f"{name}: {error}") from error
    return epath.Path(name)


def in_bucket(place: str | Path) -> bool:
    """Returns whether a path is in a bucket."""
    return "://" in os.fspath(place)  # pathlib merges a local path's slashes


def make_folder(folder: Path) -> None:
    """Creates a folder and its parents if missing; UserError if that fails."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"cannot create the folder {folder}: {error.strerror}") from error


def write_file(file: Path, content: bytes) -> None:
    """Writes a file atomically and durably; creates its folder."""
    if in_bucket(file):  # writing an object is atomic
        file.write_bytes(content)
        return
    make_folder(file.parent)
    # In the same folder, because a rename is atomic only within a file system.
    with tempfile.NamedTemporaryFile(dir=file.parent, prefix=file.name, delete=False) as empty:
        draft = Path(empty.name)
    try:
        with naming(file):
            draft.write_bytes(content)
            draft.chmod(0o644)
            _sync(draft)  # before the rename, so that the content reaches the disk before the name
            draft.replace(file)
            _sync(file.parent)
    finally:
        draft.unlink(missing_ok=True)


@contextlib.contextmanager
def naming(file: Path) -> Iterator[None]:
    """Names the file in an OSError of its `with` block; on a full disk, the error lacks a name."""
    try:
        yield
    except OSError as error:
        error.filename = error.filename or str(file)
        raise


def sync(folder: Path) -> None:
    """Waits until a folder and all its content are on the disk (fsync)."""
    if in_bucket(folder):
        return
    for place in [*folder.rglob("*"), folder, folder.parent]:  # the parent holds the folder's name
        _sync(place)


def _sync(path: Path) -> None:
    """Waits until a file, or a folder's list of names, is on the disk (fsync)."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        with naming(path):
            os.fsync(descriptor)
    except OSError as error:
        if error.errno != errno.EINVAL:  # raised by file systems without fsync
            raise
    finally:
        os.close(descriptor)


def remove(folder: Path) -> None:
    """Removes a folder and its content, if it exists.

    On a disk, errors are ignored, because another process may be removing the folder, too. In a
    bucket, they are raised.
    """
    if in_bucket(folder):
        folder.rmtree(missing_ok=True)
    else:
        shutil.rmtree(folder, ignore_errors=True)


def files(folder: Path) -> list[str]:
    """Returns the sorted relative paths of all files in a folder and its subfolders."""
    if not in_bucket(folder):
        local = (file for file in folder.rglob("*") if file.is_file())
        return sorted(str(file.relative_to(folder)) for file in local)
    import fsspec

    bucket, root = fsspec.core.url_to_fs(str(folder))
    return sorted(name.removeprefix(f"{root}/") for name in bucket.find(root))


def size(file: Path) -> int:
    """Returns a file's size in bytes."""
    return file.stat().length if in_bucket(file) else file.stat().st_size


def append_line(file: Path, line: bytes) -> None:
    """Appends a line durably. OSError, naming the file, if the disk is full.

    If a power failure or a full disk has cut off the last line, it ends that line first.
    """
    if in_bucket(file):  # objects cannot be appended to
        content = file.read_bytes() if file.exists() else b""
        file.write_bytes(content + line + b"\n")
        return
    # Also for reading, to read the last byte; each write still goes to the end.
    with naming(file), open(file, "a+b") as log:
        if log.seek(0, os.SEEK_END):
            log.seek(-1, os.SEEK_END)
            if log.read(1) != b"\n":
                line = b"\n" + line
        log.write(line + b"\n")
        log.flush()
        os.fsync(log.fileno())


# JSON files, which may be untrusted.


def read_json_object(file: Path) -> dict[str, Any]:
    """Returns a JSON file's object; UserError, naming the file, if it is missing or damaged."""
    if not file.is_file():
        raise UserError(f"{file} is missing")
    try:
        value = parse_json(file.read_bytes())
        json.dumps(value, ensure_ascii=False).encode()  # fails for a lone surrogate
    except (ValueError, RecursionError) as error:
        raise UserError(f"damaged: {file} is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise UserError(f"damaged: {file} is not a JSON object, but {str(value)[:40]!r}")
    return value


def parse_json(text: str | bytes) -> Any:
    """Returns the value of a JSON text; an integer that may exceed 64 bits becomes a float."""
    # 18 characters always fit into 64 bits. Python's integers have no bound, so a file could hold
    # an integer that is slow to compute with.
    integer = lambda digits: int(digits) if len(digits) < 19 else float(digits)
    return json.loads(text, parse_int=integer)


def write_json(file: Path, value: dict) -> None:
    """Writes an indented JSON file atomically."""
    write_file(file, json.dumps(value, indent=2, ensure_ascii=False).encode() + b"\n")
