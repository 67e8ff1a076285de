"""One run in a workdir at a time."""

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
def alone_in(workdir: Path) -> Iterator[None]:
    """Holds a workdir for this run; UserError if another one holds it.

    The lock goes with the process that has it, however it ends. Buckets know no locks.
    """
    if not processes.is_first() or paths.in_bucket(workdir):
        yield
        return
    paths.make_folder(workdir)
    with open(workdir / "lock", "a+", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            raise UserError(
                f"{workdir} is being trained in by {file.read() or 'another process'}: wait for it "
                "or stop it, or give another --workdir"
            ) from None
        except OSError as error:  # some shared disks have no locks
            logging.warning("%s: another run in it would not be noticed: %s", workdir, error)
            yield
            return
        file.truncate(0)
        file.write(f"process {os.getpid()} on {socket.gethostname()}")
        file.flush()
        try:
            yield
        finally:
            if os.listdir(workdir) == ["lock"]:  # nothing came of it
                (workdir / "lock").unlink()
                workdir.rmdir()
