"""What one of pytest's workers makes for all of them."""

import fcntl
import os
import pathlib


def made_once(name, make):
    """A path that `make(path)` has made, in the first worker that asks for it; others wait."""
    path = pathlib.Path(os.environ["SHARED_BY_TESTS"]) / name
    done = path.with_name(f"{name}.done")
    with open(path.with_name(f"{name}.lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not done.exists():
            make(path)
            done.touch()
    return path
