"""File locks: one run per workdir at a time, one process that prepares a cache."""

import contextlib
import fcntl
import logging
import os
import socket
from collections.abc import Iterator
from pathlib import Path

from transformer.distributed import processes
from transformer.errors import UserError
from transformer.runtime import paths


@contextlib.contextmanager
def held(place: Path, *, wait: bool = True) -> Iterator[OSError | None]:
    """Creates and locks a file for its `with` block; yields the error of locking, or None.

    The kernel releases the lock however the process ends. With `wait`, it waits for another
    process's lock; otherwise it yields a BlockingIOError. Any other error means that the disk, like
    some shared disks, has no locks.
    """
    failure = None
    with place.open("ab") as file:  # closing it releases the lock
        try:
            fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except OSError as error:
            failure = error
        yield failure


@contextlib.contextmanager
def locked(workdir: Path) -> Iterator[None]:
    """Locks a workdir for its `with` block; UserError, naming the owner, if it is locked.

    It does nothing in a bucket, and logs a warning on a disk without locks. Of several processes,
    process 0 holds the lock.
    """
    if not processes.is_first() or paths.in_bucket(workdir):
        yield
        return
    paths.make_folder(workdir)
    file = workdir / "lock"
    with held(file, wait=False) as error:
        if isinstance(error, BlockingIOError):
            owner = file.read_text() or "another process"
            raise UserError(
                f"{workdir} is in use by {owner}: wait for it or stop it, or set another --workdir"
            )
        if error:
            logging.warning("%s: no lock, a second run would not be noticed: %s", workdir, error)
        else:
            # The text only names the owner; the lock is the kernel's.
            file.write_text(f"process {os.getpid()} on {socket.gethostname()}")
        yield
