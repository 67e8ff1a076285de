"""Files and arrays -> checksums: what is read is what was written, or it is said what is not."""

import concurrent.futures
import errno
import functools
import hashlib
import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

from transformer import processes, storage

Tree = Any

NAME = "checksums.json"
READ = 1 << 20  # bytes at a time


def seal(directory: Path) -> bytes:
    """The content of a file NAME for a folder: size and sha256 of every other file in it."""
    files = _files(directory)
    with concurrent.futures.ThreadPoolExecutor() as pool:
        found = dict(
            zip(files, pool.map(lambda name: _digest(directory / name), files), strict=True)
        )
    return json.dumps({"files": found, "sha256": _own(found)}, indent=1).encode()


def damaged(
    directory: Path, *, wanted: Callable[[str], bool] = lambda name: True, alone: bool = False
) -> list[str] | None:
    """The `wanted` files of a sealed folder that are not what they were, each with what it is; None
    if it is not sealed. Of several processes, each looks at some of the files and all come here
    together, unless this one does it `alone`."""
    path = directory / NAME
    if not path.exists():
        return None
    try:
        expected = json.loads(path.read_bytes())
        files, own = expected["files"], expected["sha256"]
    except (ValueError, TypeError, KeyError):  # whatever damage makes of JSON
        files, own = {}, ""
    if own != _own(files):
        return [f"{path} (other bytes than were written)"]
    names = sorted(filter(wanted, files))
    mine = names if alone else [names[i] for i in processes.share(len(names))]
    with concurrent.futures.ThreadPoolExecutor() as pool:
        found = list(pool.map(lambda name: _fault(directory / name, *files[name]), mine))
    found = found if alone else processes.exchange(found, len(names))
    return [fault for fault in found if fault]


def of_arrays(tree: Tree) -> dict[str, int]:
    """A number of each array, by its path, shape and bits, and not by how it is split.

    One element that changes always changes it; more of them do but for one time in 2^32.
    """
    paths, _ = jax.tree_util.tree_flatten_with_path(tree)
    name = functools.partial(jax.tree_util.keystr, simple=True, separator="/")
    # One after the other: with several in flight, devices may wait for each other for ever.
    return {name(path): int(_number(x)) for path, x in paths}


@jax.jit
def _number(x: jax.Array) -> jax.Array:
    bits = jax.lax.bitcast_convert_type(x, f"uint{8 * x.dtype.itemsize}").astype(jnp.uint32)
    place = jnp.zeros_like(bits)
    for axis, size in enumerate(x.shape):
        place = place * jnp.uint32(size) + jax.lax.broadcasted_iota(jnp.uint32, x.shape, axis)
    mixed = bits + place * jnp.uint32(0x9E3779B9)
    # MurmurHash3's last steps, each of which can be undone: other bits, another number.
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35), (16, 1)):
        mixed = (mixed ^ (mixed >> shift)) * jnp.uint32(factor)
    return mixed.sum(dtype=jnp.uint32)


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


def _own(files: dict) -> str:
    return hashlib.sha256(json.dumps(files).encode()).hexdigest()


def _files(directory: Path) -> list[str]:
    return [name for name in storage.files(directory) if Path(name).name != NAME]


def _digest(path: Path) -> tuple[int, str]:
    digest, size = hashlib.sha256(), 0
    with path.open("rb") as file:
        while chunk := file.read(READ):
            digest.update(chunk)
            size += len(chunk)
    return size, digest.hexdigest()


def _fault(path: Path, size: int, digest: str) -> str:
    if not path.is_file():
        return f"{path} (missing)"
    if (found := storage.size(path)) != size:
        return f"{path} ({found} bytes, {size} were written)"
    try:
        found = _digest(path)[1]
    except OSError as error:
        if error.errno != errno.EIO:  # the disk's own word for damage
            raise
        return f"{path} ({error.strerror})"
    return "" if found == digest else f"{path} (other bytes than were written)"
