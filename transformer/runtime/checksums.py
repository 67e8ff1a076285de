"""Checksums of files, to detect corruption: a file that is not what was written is named.

A folder's checksums are in one JSON file in it (NAME), {"files": {name: [size, sha256]}, "about":
note, "sha256": of these}.
"""

import concurrent.futures
import errno
import hashlib
import json
from collections.abc import Callable
from pathlib import Path

from transformer.distributed import processes
from transformer.runtime import paths

NAME = "checksums.json"

# Errors of a read that may succeed later: a failing disk, a network disk that went away.
TRANSIENT = (errno.EIO, errno.ESTALE)


def checksums_of(directory: Path, about: dict | None = None) -> bytes:
    """Returns the content of a folder's checksum file: size and sha256 of every other file.

    `about` is a note that is stored, and protected, with them.
    """
    files = [name for name in paths.files(directory) if Path(name).name != NAME]
    with concurrent.futures.ThreadPoolExecutor() as pool:
        digests = pool.map(lambda name: _digest(directory / name), files)
        return _content(dict(zip(files, digests, strict=True)), about or {})


def read(directory: Path) -> dict | None:
    """Returns a folder's checksums, {"files": ..., "about": ...}, or None if it has none.

    If the checksum file itself is corrupt, both are empty.
    """
    path = directory / NAME
    if not path.exists():
        return None
    content = path.read_bytes()
    try:
        values = json.loads(content)
        files, about = values["files"], values.get("about", {})
        typed = all(isinstance(size, int) and isinstance(x, str) for size, x in files.values())
        if typed and isinstance(about, dict) and _content(files, about) == content:
            return {"files": files, "about": about}
    except (ValueError, TypeError, KeyError, AttributeError):  # corrupt: any JSON, or none
        pass
    return {"files": {}, "about": {}}


def content_without(directory: Path, prefix: str) -> bytes:
    """Returns the content of a folder's checksum file without the files whose names have a prefix.

    The folder must have a checksum file.
    """
    values = read(directory)
    files = {name: x for name, x in values["files"].items() if not name.startswith(prefix)}
    return _content(files, values["about"])


def corrupt_files(
    directory: Path, *, wanted: Callable[[str], bool] = lambda name: True, alone: bool = False
) -> list[str] | None:
    """Lists "PATH (reason)" of each corrupt or unreadable file, or file without a checksum.

    Only the files whose names are `wanted` are checked. None if the folder has no checksum file.
    Collective, each process checking its share of the files, unless this process checks `alone`.
    """
    faults = compare(directory, wanted=wanted, alone=alone)
    return None if faults is None else [*faults[0], *faults[1]]


def compare(
    directory: Path, *, wanted: Callable[[str], bool] = lambda name: True, alone: bool = False
) -> tuple[list[str], list[str]] | None:
    """Returns a folder's corrupt files and its unreadable files, in two lists of "PATH (reason)".

    Takes the arguments of `corrupt_files`. An unreadable file may be intact: reading it failed, but
    may succeed later. None if the folder has no checksum file.
    """
    values = read(directory)
    unlisted = _unlisted(directory, values["files"]) if values else []
    # A shared disk may show processes different files: all use process 0's listing.
    if not alone:
        values, unlisted = processes.all_gather([values, unlisted])[0]
    if values is None:
        return None
    files = values["files"]
    if not files:
        return [f"{directory / NAME} (checksum mismatch)"], []
    names = sorted(filter(wanted, [*files, *unlisted]))
    # A strided share: process 1 of 4 checks files 1, 5, 9, ...
    share = names if alone else [names[i] for i in processes.my_share(len(names))]
    with concurrent.futures.ThreadPoolExecutor() as pool:  # hashing releases the GIL
        check = lambda name: _check(directory / name, *files.get(name, (None, "")))
        faults = list(pool.map(check, share))
    if not alone:
        faults = processes.gather_shares(faults, len(names))
    corrupt, unreadable = zip(*faults, strict=True) if faults else ((), ())
    return list(filter(None, corrupt)), list(filter(None, unreadable))


def _content(files: dict, about: dict) -> bytes:
    """Returns the content of a checksum file, in which a sha256 protects the rest."""
    digest = hashlib.sha256(json.dumps([files, about]).encode()).hexdigest()
    return json.dumps({"files": files, "about": about, "sha256": digest}, indent=1).encode()


def _digest(path: Path) -> tuple[int, str]:
    """Returns a file's size in bytes and its sha256; reads a block at a time."""
    with path.open("rb") as file:
        return paths.size(path), hashlib.file_digest(file, "sha256").hexdigest()


def _unlisted(directory: Path, files: dict) -> list[str]:
    """Lists visible files without a checksum, in subfolders that have files with one.

    Example: params/d/x, if params/y is in `files`; but nothing below opt_state/ if `files` has no
    file of it, because a run killed while deleting that item leaves such files.
    """
    listed = {name.partition("/")[0] for name in files if "/" in name}
    try:
        unlisted = {*paths.files(directory)} - files.keys()
    except FileNotFoundError:  # another process is deleting the folder
        return []
    is_hidden = lambda name: Path(name).name.startswith(".")
    return [x for x in unlisted if x.partition("/")[0] in listed and not is_hidden(x)]


def _check(path: Path, size: int | None, digest: str) -> tuple[str, str]:
    """Compares a file with its size and sha256; returns (why it is corrupt, why unreadable)."""
    if size is None:
        return f"{path} (no checksum)", ""
    try:
        if not path.is_file():
            return f"{path} (missing)", ""
        actual_size, actual_digest = _digest(path)
    except OSError as error:
        if error.errno not in TRANSIENT:
            raise
        return "", f"{path} ({error.strerror})"
    if actual_size != size:
        return f"{path} ({actual_size} bytes, expected {size})", ""
    return f"{path} (checksum mismatch)" if actual_digest != digest else "", ""
