"""A lock on a workdir: one run in it at a time."""

import contextlib
import fcntl
import logging
import os
import socket
from collections.abc import Iterator
from pathlib import Path

from transformer.distributed import processes
from transformer.errors import UserError
from transformer.storage import paths


@contextlib.contextmanager
def locked(workdir: Path) -> Iterator[None]:
    """Locks a workdir for this run; UserError, which names the other process, if it is locked.

    The kernel releases the lock when the process ends, however it ends. A workdir in a bucket is
    not locked. Of several processes, process 0 holds the lock.
    """
    if not processes.is_first() or paths.in_bucket(workdir):
        yield
        return
    paths.make_folder(workdir)
    # Opened to append: opening a locked file must not truncate its owner's name.
    with open(workdir / "lock", "a+", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            raise UserError(
                f"{workdir} is in use by {file.read() or 'another process'}: wait for it or stop "
                "it, or set another --workdir"
            ) from None
        except OSError as error:  # some shared disks have no locks
            logging.warning("%s: no lock, a second run would not be noticed: %s", workdir, error)
            yield
            return
        file.truncate(0)
        file.write(f"process {os.getpid()} on {socket.gethostname()}")
        file.flush()
        try:
            yield
        finally:
            if os.listdir(workdir) == ["lock"]:  # the run failed before it wrote anything
                (workdir / "lock").unlink()
                workdir.rmdir()
