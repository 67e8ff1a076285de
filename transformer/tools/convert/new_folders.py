"""The folders that are written here: new ones, complete or absent."""

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path

from transformer.errors import UserError
from transformer.runtime import paths


def check_new(folder: Path) -> None:
    """Raises UserError for a folder that `new_folder` cannot make."""
    if paths.in_bucket(folder):
        raise UserError(f"{folder} is in a bucket: give a folder on a disk, and copy it")
    if folder.is_symlink():
        raise UserError(f"{folder} is a link: give a new folder")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UserError(f"{folder} exists and is not empty: give a new folder")


@contextlib.contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """Yields a new folder to write into, in `folder.draft*`, which then becomes `folder`.

    After an error the draft is removed. A killed process leaves its draft, which is never read.
    """
    parent = folder.parent
    paths.make_folder(parent)
    with tempfile.TemporaryDirectory(prefix=f"{folder.name}.draft", dir=parent) as draft:
        written = Path(draft) / folder.name
        written.mkdir()
        yield written
        written.rename(folder)  # over an empty folder, too, but over no other's files
