"""The lock on a workdir: one run in it at a time."""

import errno
import os
import socket
import subprocess
import sys

import pytest

from transformer.errors import UserError
from transformer.runtime import lock

HOLD = """
import pathlib, sys, time
from transformer.runtime import lock
with lock.locked(pathlib.Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(100)
"""


@pytest.fixture
def owner(tmp_path):
    """Another process that holds the lock on tmp_path."""
    process = subprocess.Popen([sys.executable, "-c", HOLD, tmp_path], stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"held\n"
    yield process
    process.kill()
    process.wait()


def test_a_second_run_is_refused_by_the_first_one_s_name_until_that_is_killed(owner, tmp_path):
    name = f"process {owner.pid} on {socket.gethostname()}"
    for _ in range(2):  # a refusal leaves the lock as it was
        said = rf"\A.* is in use by {name}: .*\Z"
        with pytest.raises(UserError, match=said), lock.locked(tmp_path):
            pytest.fail("two runs")
    owner.kill()
    owner.wait()
    for _ in range(2):
        with lock.locked(tmp_path):
            assert (tmp_path / "lock").read_text().startswith(f"process {os.getpid()} on ")


def test_the_lock_is_released_if_the_run_fails(tmp_path):
    with pytest.raises(KeyError), lock.locked(tmp_path / "new"):
        raise KeyError
    with lock.locked(tmp_path / "new"):
        (tmp_path / "new" / "config.json").touch()
    assert (tmp_path / "new" / "config.json").exists()


def test_a_disk_without_locks_takes_a_second_run_with_a_warning(tmp_path, monkeypatch, caplog):
    """Neither error of a run is one of the lock, whose traceback would be printed with it."""

    def flock(*_):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr("fcntl.flock", flock)
    run = tmp_path / "run"
    with pytest.raises(KeyError) as error, lock.locked(run), lock.locked(run):
        raise KeyError
    assert error.value.__context__ is None
    assert caplog.text.count("no lock, a second run would not be noticed") == 2
