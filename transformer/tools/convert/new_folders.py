"""Makes new folders atomically."""

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path

from transformer.errors import UserError
from transformer.runtime import paths


def check_new(folder: Path) -> None:
    """Raises UserError for a folder that `new_folder` cannot make."""
    # A rename makes the folder, but nothing can be renamed to '.' or '..'.
    is_new = folder.name.strip(".") and not paths.in_bucket(folder) and not folder.is_symlink()
    if not is_new or (folder.exists() and not (folder.is_dir() and not any(folder.iterdir()))):
        raise UserError(f"{folder} must be a new or empty folder on a disk, not a link or '.'")


@contextlib.contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """Yields a new folder to write into, in `folder.draft*`, which then becomes `folder`.

    After an error the draft is removed. A killed process leaves its draft, which is never read.
    """
    paths.make_folder(folder.parent)
    with tempfile.TemporaryDirectory(prefix=f"{folder.name}.draft", dir=folder.parent) as parent:
        draft = Path(parent) / folder.name
        draft.mkdir()
        yield draft
        draft.rename(folder)  # also over an empty folder
