"""Paths and files: on a disk, or in a bucket (gs://), which epath reaches."""

import contextlib
import errno
import os
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from transformer.errors import UserError


def path(name: str) -> Path:
    """A path on a disk, or one in a bucket, which has the same methods.

    UserError for another scheme (Orbax has no checkpoints on s3://), or without gcsfs.
    """
    if not in_bucket(name):
        try:
            os.fsencode(path := Path(name).expanduser())
            if "\0" not in name:
                return path
        except (RuntimeError, ValueError) as error:  # no home of that name; half a character
            raise UserError(f"{name!r} is no path: {error}") from error
        raise UserError(f"{name!r} is no path: it has a null byte")
    if not name.startswith("gs://"):
        raise UserError(f"{name} is neither a local path nor gs://BUCKET/FOLDER")
    import fsspec
    from etils import epath

    # Other processes, and Orbax, write into the same folder: what a listing lacked may be there.
    for protocol in ("gs", "gcs"):
        fsspec.config.conf.setdefault(protocol, {}).setdefault("use_listings_cache", False)
    try:
        fsspec.get_filesystem_class("gcs")
    except ImportError as error:
        raise UserError(f"{name}: {error}") from error
    return epath.Path(name)


def in_bucket(place: str | Path) -> bool:
    """Whether a path is one in a bucket."""
    return "://" in os.fspath(place)  # a local path's slashes are single


def make_folder(folder: Path) -> None:
    """Makes a folder, and those above it, where they are not there; UserError where that fails."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"the folder {folder} cannot be made: {error.strerror}") from error


def write_file(file: Path, content: bytes) -> None:
    """Writes a file that appears whole or not at all, also after a power failure."""
    if in_bucket(file):  # objects do
        file.write_bytes(content)
        return
    make_folder(file.parent)
    with tempfile.NamedTemporaryFile(dir=file.parent, prefix=file.name, delete=False) as made:
        draft = Path(made.name)
    try:
        draft.write_bytes(content)
        draft.chmod(0o644)
        _sync(draft)  # or the name could be on the disk before the bytes are
        draft.replace(file)
        _sync(file.parent)
    except OSError as error:  # a full disk, which does not say of which file
        error.filename = error.filename or str(file)
        raise
    finally:
        draft.unlink(missing_ok=True)


def unwritable(folder: Path) -> OSError | None:
    """Returns why a folder takes no file: it is read-only, no inodes are left; None if it does."""
    try:
        if not in_bucket(folder):
            with tempfile.TemporaryFile(dir=folder, buffering=0) as file:
                file.write(b"\n")
    except OSError as error:
        return error
    return None


def check_links(folder: Path, names: Iterable[str]) -> None:
    """Refuses links in a folder that lead out of it: what is written under these names stays in."""
    for path in (folder / name for name in names):
        if not Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder)):
            raise UserError(f"{path} is a link that leads out of {folder}: remove it")


@contextlib.contextmanager
def cache_in(folder: Path) -> Iterator[None]:
    """Raises UserError where a cache's disk is full: out of bytes, of inodes or of a quota."""
    try:
        yield
    except (OSError, RuntimeError) as error:  # ArrayRecord's writer gives the system's words only
        full = [os.strerror(number) for number in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)]
        reason = next((words for words in full if words in str(error)), "")
        if not reason:
            raise
        raise UserError(
            f"{folder} takes no more ({reason}): make room (df -h and df -i say what is left), or "
            "set config.data.data_dir to a folder on another disk"
        ) from error


def sync(folder: Path) -> None:
    """Waits until the disk has a folder, and all that is in it."""
    if in_bucket(folder):
        return
    for path in [*folder.rglob("*"), folder, folder.parent]:
        _sync(path)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno != errno.EINVAL:  # a file system that has nothing to sync
            raise
    finally:
        os.close(descriptor)


def remove(folder: Path) -> None:
    """Removes a folder and what is in it, as far as that goes: somebody else may be removing it."""
    if in_bucket(folder):
        folder.rmtree(missing_ok=True)
    else:
        shutil.rmtree(folder, ignore_errors=True)


def files(folder: Path) -> list[str]:
    """The names, from the folder, of all files in it and in its folders, in order."""
    if not in_bucket(folder):
        found = (file for file in folder.rglob("*") if file.is_file())
        return sorted(str(file.relative_to(folder)) for file in found)
    import fsspec

    bucket, root = fsspec.core.url_to_fs(str(folder))
    return sorted(name.removeprefix(f"{root}/") for name in bucket.find(root))


def size(file: Path) -> int:
    """How many bytes a file has."""
    return file.stat().length if in_bucket(file) else file.stat().st_size


def free_bytes(folder: Path) -> int:
    """How many bytes a disk has left; a bucket has no end."""
    return sys.maxsize if in_bucket(folder) else shutil.disk_usage(folder).free


def append_line(file: Path, line: bytes) -> None:
    """Appends a line; one that was cut off before it (a power failure, a full disk) ends there."""
    if in_bucket(file):
        before = file.read_bytes() if file.exists() else b""
        file.write_bytes(before + line + b"\n")
        return
    with open(file, "a+b", 0) as log:
        if log.seek(0, os.SEEK_END):
            log.seek(-1, os.SEEK_END)
            if log.read(1) != b"\n":
                line = b"\n" + line
        if log.write(line + b"\n") < len(line) + 1:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(file))
        os.fsync(log.fileno())
