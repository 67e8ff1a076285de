"""Checksums of files, to detect and name corrupt files.

A folder's checksums are in its JSON file NAME, {"files": {name: [size, sha256]}, "about": note,
"sha256": of both}.
"""

import concurrent.futures
import contextlib
import hashlib
import json
import logging
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from transformer.distributed import processes
from transformer.runtime import paths
from transformer.runtime.lock import held

NAME = "checksums.json"


def checksums_of(directory: Path, about: dict | None = None) -> bytes:
    """Returns the content of a folder's checksum file: size and sha256 of every other file.

    `about` is a note to store, and protect, with them.
    """
    files = [name for name in paths.files(directory) if Path(name).name != NAME]
    with concurrent.futures.ThreadPoolExecutor() as pool:
        digests = pool.map(lambda name: _digest(directory / name), files)
        return content(dict(zip(files, digests, strict=True)), about or {})


def read(directory: Path) -> dict | None:
    """Returns a folder's checksums, {"files": ..., "about": ...}, or None without any.

    If the checksum file is corrupt, both are empty.
    """
    path = directory / NAME
    if not path.exists():
        return None
    written = path.read_bytes()
    with contextlib.suppress(ValueError, TypeError, KeyError):  # corrupt or other JSON
        values = json.loads(written)
        if content(values["files"], values["about"]) == written:
            return {"files": values["files"], "about": values["about"]}
    return {"files": {}, "about": {}}


def corrupt_files(
    directory: Path, *, wanted: Callable[[str], bool] = lambda name: True, alone: bool = False
) -> list[str] | None:
    """Lists "PATH (reason)" of each corrupt or missing file.

    Only files with `wanted` names are checked. None if the folder has no checksum file. OSError for
    an unreadable file, because it may be intact. Collective, with a share of the files per process,
    unless this process checks `alone`.
    """
    values = read(directory)
    if not alone:  # process 0's listing, because a shared disk may show processes different files
        values = processes.all_gather(values)[0]
    if values is None:
        return None
    files = values["files"]
    if not files:
        return [f"{directory / NAME} (checksum mismatch)"]
    names = sorted(filter(wanted, files))
    # Process 1 of 4 checks files 1, 5, 9, ...
    share = names if alone else [names[i] for i in processes.my_share(len(names))]
    with concurrent.futures.ThreadPoolExecutor() as pool:  # hashing releases the GIL
        faults = list(pool.map(lambda name: _check(directory / name, *files[name]), share))
    if not alone:
        faults = processes.gather_shares(faults, len(names))
    return list(filter(None, faults))


def content(files: dict, about: dict) -> bytes:
    """Returns the content of a checksum file, protected by a sha256 of its own."""
    digest = hashlib.sha256(json.dumps([files, about]).encode()).hexdigest()
    return json.dumps({"files": files, "about": about, "sha256": digest}, indent=1).encode()


def _digest(path: Path) -> tuple[int, str]:
    """Returns a file's size in bytes and its sha256; reads a block at a time."""
    with paths.naming(path), path.open("rb") as file:
        return paths.size(path), hashlib.file_digest(file, "sha256").hexdigest()


def _check(path: Path, size: int, digest: str) -> str:
    """Compares a file with its size and sha256; returns "PATH (reason)" if it differs, else ""."""
    try:
        actual_size, actual_digest = _digest(path)
    except FileNotFoundError:
        return f"{path} (missing)"
    if actual_size != size:
        return f"{path} ({actual_size} bytes, expected {size})"
    return f"{path} (checksum mismatch)" if actual_digest != digest else ""


def make_folder(directory: Path, write: Callable[[Path], object], remedy: str) -> None:
    """Makes a folder by `write(draft)`, unless it exists and its checksums match.

    The draft, `directory-draft-*`, gets its checksums and is then renamed, so that readers see a
    complete folder or none. If the folder is damaged, a warning names the damaged files and the
    `remedy`, such as 'tokenising again'.

    Writers of a folder hold a lock, which the system releases when a process dies. A draft found
    under the lock is a killed process's, and is removed. On a disk without locks, the first writer
    to finish wins. Not collective, because processes call it at different times; each checks all
    files.
    """
    faults = lambda: corrupt_files(directory, alone=True)  # [] if intact, None if incomplete
    if faults() == []:
        return
    parent = directory.parent
    paths.make_folder(parent)
    with held(parent / f".{directory.name}.lock") as error:
        if (corrupt := faults()) == []:  # another process has made it meanwhile
            return
        if directory.exists():
            corrupt = corrupt or [f"{directory / NAME} (missing)"]
            logging.warning("damaged: %s; %s", ", ".join(corrupt), remedy)
        if not error:  # the disk has locks
            for abandoned in parent.glob(f"{directory.name}-draft-*"):
                shutil.rmtree(abandoned, ignore_errors=True)
        draft = Path(tempfile.mkdtemp(prefix=f"{directory.name}-draft-", dir=parent))
        try:
            write(draft)
            (draft / NAME).write_bytes(checksums_of(draft))
            draft.chmod(0o755)  # mkdtemp makes folders that other users cannot read
            if corrupt:  # processes that have mapped the damaged files keep them
                shutil.rmtree(directory, ignore_errors=True)
            draft.rename(directory)
        except OSError:
            if faults() != []:  # unless another process was first
                raise
        finally:
            shutil.rmtree(draft, ignore_errors=True)
