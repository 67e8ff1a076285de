"""Files -> checksums: what is read is what was written, or the damaged file is named."""

import concurrent.futures
import errno
import hashlib
import json
import logging
from collections.abc import Callable
from pathlib import Path

from transformer.distributed import processes
from transformer.storage import paths

NAME = "checksums.json"
READ = 1 << 20  # bytes at a time

# What a read says of a file that the disk, or a network disk, cannot give now.
UNREADABLE = (errno.EIO, errno.ESTALE)


def checksums_of(directory: Path, about: dict | None = None) -> bytes:
    """Returns the content of a folder's file NAME: size and sha256 of every other file in it, and a
    note `about` them."""
    files = [name for name in paths.files(directory) if Path(name).name != NAME]
    with concurrent.futures.ThreadPoolExecutor() as pool:
        digests = pool.map(lambda name: _digest(directory / name), files)
        return _content(dict(zip(files, digests, strict=True)), about or {})


def read(directory: Path) -> dict | None:
    """Returns what `seal` wrote for a folder, {"files": ..., "about": ...}; None if that is not
    there, and no files and no note if it is damaged."""
    path = directory / NAME
    if not path.exists():
        return None
    content = path.read_bytes()
    try:
        values = json.loads(content)
        files, about = values["files"], values.get("about", {})
        if _content(files, about) == content:
            return {"files": files, "about": about}
    except (ValueError, TypeError, KeyError, AttributeError):  # whatever damage makes of JSON
        pass
    return {"files": {}, "about": {}}


def without(directory: Path, prefix: str) -> bytes:
    """Returns the content of a folder's file NAME without the files whose names begin so."""
    values = read(directory)
    files = {name: x for name, x in values["files"].items() if not name.startswith(prefix)}
    return _content(files, values["about"])


def corrupt_files(
    directory: Path, *, wanted: Callable[[str], bool] = lambda name: True, alone: bool = False
) -> list[str] | None:
    """Names the `wanted` files of a folder that are not what they were, or cannot be read, each
    with what it is; None if the folder has no checksums.

    Of several processes, each looks at its share of the files and all have to call this together,
    unless this one does it `alone`.
    """
    found = compare(directory, wanted=wanted, alone=alone)
    return None if found is None else [*found[0], *found[1]]


def compare(
    directory: Path, *, wanted: Callable[[str], bool] = lambda name: True, alone: bool = False
) -> tuple[list[str], list[str]] | None:
    """Does as `damaged`, but tells the damaged files from those that the disk cannot read now."""
    values = read(directory)
    if not alone:  # all go by what the first one sees
        values = processes.all_gather(values)[0]
    if values is None:
        return None
    if not values["files"]:
        return [f"{directory / NAME} (other bytes than were written)"], []
    files = values["files"]
    names = sorted(filter(wanted, files))
    mine = names if alone else [names[i] for i in processes.my_share(len(names))]
    with concurrent.futures.ThreadPoolExecutor() as pool:
        faults = list(pool.map(lambda name: _fault(directory / name, *files[name]), mine))
    faults = faults if alone else processes.gather_shares(faults, len(names))
    return tuple([what for kind, what in faults if kind == wrong] for wrong in (DAMAGED, LATER))


def stamp(content: bytes) -> bytes:
    """The content of a file that is whole by itself: its sha256 comes last."""
    return content + hashlib.sha256(content).digest()


def stamped(path: Path) -> bytes | None:
    """What was stamped; None if the file is not there, or is damaged, of which it warns."""
    if not path.exists():
        return None
    content = path.read_bytes()
    size = max(0, len(content) - hashlib.sha256().digest_size)
    if stamp(content[:size]) == content:
        return content[:size]
    logging.warning("damaged: %s (other bytes than were written); it is made anew", path)
    return None


def _content(files: dict, about: dict) -> bytes:
    note = {"about": about} if about else {}
    own = hashlib.sha256(json.dumps([files, about] if about else files).encode()).hexdigest()
    return json.dumps({"files": files, **note, "sha256": own}, indent=1).encode()


def _digest(path: Path) -> tuple[int, str]:
    digest, size = hashlib.sha256(), 0
    with path.open("rb") as file:
        while chunk := file.read(READ):
            digest.update(chunk)
            size += len(chunk)
    return size, digest.hexdigest()


WHOLE, DAMAGED, LATER = range(3)  # what became of a file; LATER: try again


def _fault(path: Path, size: int, digest: str) -> tuple[int, str]:
    try:
        if not path.is_file():
            return DAMAGED, f"{path} (missing)"
        if (found := paths.size(path)) != size:
            return DAMAGED, f"{path} ({found} bytes, {size} were written)"
        if _digest(path)[1] != digest:
            return DAMAGED, f"{path} (other bytes than were written)"
    except OSError as error:
        if error.errno not in UNREADABLE:
            raise
        return LATER, f"{path} ({error.strerror})"
    return WHOLE, ""
