"""Folders that are complete or absent: written as a draft, then renamed."""

import contextlib
import logging
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from transformer.runtime import checksums, paths
from transformer.runtime.lock import held


@contextlib.contextmanager
def draft(directory: Path) -> Iterator[Path]:
    """Yields a new folder `directory-draft-*` to write into, which then becomes `directory`.

    When the `with` block ends, the draft gets its checksums.json and is renamed. After an error the
    draft is removed.

    The writer holds a lock on its draft, which the system releases when the process dies: a draft
    that is not locked was left by a killed process, and is removed here.
    """
    parent = directory.parent
    paths.make_folder(parent)
    with contextlib.ExitStack() as stack:
        with held(parent):  # from mkdtemp until the draft is locked, or it looks abandoned
            for abandoned in parent.glob("*-draft-*"):
                # FileNotFoundError: its writer has just renamed it.
                with contextlib.suppress(FileNotFoundError), held(abandoned, wait=False) as error:
                    if not error:
                        shutil.rmtree(abandoned, ignore_errors=True)
            written = Path(tempfile.mkdtemp(prefix=f"{directory.name}-draft-", dir=parent))
            stack.callback(shutil.rmtree, written, ignore_errors=True)
            stack.enter_context(held(written))
        yield written
        (written / checksums.NAME).write_bytes(checksums.checksums_of(written))
        written.chmod(0o755)  # mkdtemp makes folders that other users cannot read
        _publish(written, directory)


def is_intact(directory: Path, remedy: str) -> bool:
    """Returns whether a folder made by `draft` exists and its checksums match.

    A warning names the files whose checksums do not match, and the `remedy`, such as 'tokenising
    again'. Not collective, because processes ask at different times: each checks all files.
    """
    if not directory.exists():
        return False
    corrupt = checksums.corrupt_files(directory, alone=True)
    if corrupt is None:
        corrupt = [f"{directory / checksums.NAME} (missing)"]
    if corrupt:
        logging.warning("damaged: %s; %s", ", ".join(corrupt), remedy)
    return not corrupt


def _publish(written: Path, directory: Path) -> None:
    """Renames a draft to its final name, or its files if that folder exists."""
    try:
        os.rename(written, directory)
    except OSError:
        if not directory.exists():
            raise
        # The folder is damaged, or another process was first. Both have the same content, so that
        # each file can be replaced while others read it: those keep the file that they have mapped.
        for file in written.iterdir():
            os.replace(file, directory / file.name)
