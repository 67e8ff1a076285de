"""Paths and files: on a disk, or in a bucket (gs://), which epath reaches."""

import os
import shutil
import sys
import tempfile
from pathlib import Path


def path(name: str) -> Path:
    """A path on a disk, or one in a bucket, which has the same methods.

    ValueError for another scheme (Orbax has no checkpoints on s3://), or without gcsfs.
    """
    if not in_bucket(name):
        return Path(name).expanduser()
    if not name.startswith("gs://"):
        raise ValueError(f"{name} is neither a local path nor gs://BUCKET/FOLDER")
    import fsspec
    from etils import epath

    # Other processes, and Orbax, write into the same folder: what a listing lacked may be there.
    for protocol in ("gs", "gcs"):
        fsspec.config.conf.setdefault(protocol, {}).setdefault("use_listings_cache", False)
    try:
        fsspec.get_filesystem_class("gcs")
    except ImportError as error:
        raise ValueError(f"{name}: {error}") from error
    return epath.Path(name)


def in_bucket(place: str | Path) -> bool:
    """Whether a path is one in a bucket."""
    return "://" in os.fspath(place)  # a local path's slashes are single


def write_file(file: Path, content: bytes) -> None:
    """Writes a file that appears whole or not at all."""
    if in_bucket(file):  # objects do
        file.write_bytes(content)
        return
    file.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=file.parent, prefix=file.name, delete=False) as made:
        draft = Path(made.name)
    try:
        draft.write_bytes(content)
        draft.chmod(0o644)
        draft.replace(file)
    finally:  # a full disk, say
        draft.unlink(missing_ok=True)


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
