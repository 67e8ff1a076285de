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

    Writers in one parent folder take turns by a lock, which the system releases when a process
    dies: a draft that is there when a writer begins was left by a killed process, and is removed.
    """
    parent = directory.parent
    paths.make_folder(parent)
    with held(parent) as error:
        if not error:  # the disk has locks
            for abandoned in parent.glob("*-draft-*"):
                shutil.rmtree(abandoned, ignore_errors=True)
        written = Path(tempfile.mkdtemp(prefix=f"{directory.name}-draft-", dir=parent))
        try:
            yield written
            (written / checksums.NAME).write_bytes(checksums.checksums_of(written))
            written.chmod(0o755)  # mkdtemp makes folders that other users cannot read
            # A damaged one. Who has mapped its files keeps them.
            shutil.rmtree(directory, ignore_errors=True)
            os.rename(written, directory)
        finally:
            shutil.rmtree(written, ignore_errors=True)


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
