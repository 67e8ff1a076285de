"""File locks: one run at a time in a workdir, one process at a time that prepares a cache."""

import contextlib
import fcntl
import logging
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from transformer.distributed import processes
from transformer.errors import UserError
from transformer.runtime import paths


def try_lock(file: int | IO, *, wait: bool) -> OSError | None:
    """Locks an open file or folder until it is closed; returns the error if that fails.

    The kernel releases the lock when the process ends, however it ends. If another process has the
    lock, waits for it with `wait`, and otherwise returns a BlockingIOError. Any other error means
    that the disk has no locks, like some shared disks.
    """
    try:
        fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except OSError as error:
        return error
    return None


@contextlib.contextmanager
def locked(workdir: Path) -> Iterator[None]:
    """Locks a workdir for its `with` block; UserError, which names the owner, if it is locked.

    Does nothing for a workdir in a bucket; on a disk without locks, logs a warning. Of several
    processes, process 0 holds the lock.
    """
    if not processes.is_first() or paths.in_bucket(workdir):
        yield
        return
    paths.make_folder(workdir)
    # Opened to append: opening a locked file must not truncate its owner's name.
    with open(workdir / "lock", "a+", encoding="utf-8") as file:
        error = try_lock(file, wait=False)
        if isinstance(error, BlockingIOError):
            file.seek(0)
            raise UserError(
                f"{workdir} is in use by {file.read() or 'another process'}: wait for it or stop "
                "it, or set another --workdir"
            )
        if error:
            logging.warning("%s: no lock, a second run would not be noticed: %s", workdir, error)
        else:
            # The name is for people. The lock itself is the kernel's, and ends with this process.
            file.truncate(0)
            file.write(f"process {os.getpid()} on {socket.gethostname()}")
            file.flush()
        try:
            yield
        finally:
            # The run failed before it wrote anything: leave no empty workdir behind.
            if not error and os.listdir(workdir) == ["lock"]:
                (workdir / "lock").unlink()
                workdir.rmdir()
