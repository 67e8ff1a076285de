"""The lock on a workdir, signals that ask to stop, shares of work."""

import errno
import io
import logging
import os
import signal
import socket
import subprocess
import sys

import pytest

from transformer.distributed import processes
from transformer.storage import lock

HOLD = """
import pathlib, sys, time
from transformer.storage import lock
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


def test_a_second_run_is_refused_and_the_first_one_named(owner, tmp_path):
    name = f"process {owner.pid} on {socket.gethostname()}"
    for _ in range(2):  # a refusal leaves the lock as it was
        match = f"is in use by {name}: "
        with pytest.raises(ValueError, match=match) as error, lock.locked(tmp_path):
            pytest.fail("two runs")
        assert "\n" not in str(error.value)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_the_lock_of_a_killed_process_is_released(owner, tmp_path, number):
    owner.send_signal(number)
    owner.wait()
    for _ in range(2):
        with lock.locked(tmp_path):
            assert (tmp_path / "lock").read_text().startswith(f"process {os.getpid()} on ")
            (tmp_path / "config.json").touch()


def test_the_lock_is_released_if_the_run_fails(tmp_path):
    with pytest.raises(KeyError), lock.locked(tmp_path / "new"):
        raise KeyError
    assert not (tmp_path / "new").exists()  # an empty workdir is removed
    with lock.locked(tmp_path / "new"):
        (tmp_path / "new" / "config.json").touch()
    assert (tmp_path / "new" / "config.json").exists()


STOPPING = [signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGINT]


@pytest.fixture(autouse=True)
def default_signals():
    """Sets the signals as a terminal's shell does: under nohup, SIGHUP would be ignored."""
    blocked = signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPPING)
    before = {number: signal.signal(number, signal.default_int_handler) for number in STOPPING}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)
    signal.pthread_sigmask(signal.SIG_SETMASK, blocked)


@pytest.mark.parametrize("number", STOPPING)
def test_signals_ask_to_stop_and_further_ones_do_no_harm(number):
    before = [signal.getsignal(n) for n in STOPPING]
    with processes.stop_signals() as signalled:
        assert not signalled()
        signal.raise_signal(number)
        assert signalled()
        for again in (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1):
            signal.raise_signal(again)
    assert [signal.getsignal(n) for n in STOPPING] == before


def test_a_second_ctrl_c_stops_at_once():
    with processes.stop_signals() as signalled:
        signal.raise_signal(signal.SIGINT)
        assert signalled()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)


@pytest.mark.parametrize("number", STOPPING)
def test_a_signal_that_is_ignored_at_the_start_stays_ignored(number):
    """As SIGHUP is under nohup, and Ctrl-C in a script's background jobs."""
    before = signal.signal(number, signal.SIG_IGN)
    try:
        with processes.stop_signals() as signalled:
            signal.raise_signal(number)
            assert not signalled()
            signal.raise_signal(next(n for n in STOPPING if n != number))
            assert signalled()
            signal.raise_signal(number)
        assert signal.getsignal(number) == signal.SIG_IGN
    finally:
        signal.signal(number, before)


@pytest.mark.parametrize(
    "error", [OSError(errno.EIO, "no terminal"), RuntimeError("reentrant call")], ids=repr
)
def test_a_signal_that_cannot_be_logged_asks_to_stop(error, monkeypatch, caplog):
    """The terminal is gone, or the signal interrupted a write to it."""

    class Broken(io.StringIO):
        def write(self, text):
            raise error

    handler = logging.StreamHandler(Broken())
    monkeypatch.setattr(sys, "stderr", handler.stream)  # where logging prints its own errors
    monkeypatch.setattr(logging.root, "handlers", [handler])
    caplog.set_level(logging.INFO)
    with processes.stop_signals() as signalled:
        signal.raise_signal(signal.SIGHUP)
        assert signalled()


@pytest.mark.parametrize("count", [0, 1, 7, 8, 9])
@pytest.mark.parametrize("hosts", [1, 2, 4])
def test_shares_are_disjoint_and_complete(count, hosts, monkeypatch):
    monkeypatch.setattr(processes.jax, "process_count", lambda: hosts)
    shares = []
    for host in range(hosts):
        monkeypatch.setattr(processes.jax, "process_index", lambda host=host: host)
        shares += processes.my_share(count)
    assert sorted(shares) == list(range(count))
