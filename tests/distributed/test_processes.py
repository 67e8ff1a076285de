"""Signals that ask to stop, shares of work."""

import errno
import io
import logging
import signal
import sys

import pytest

from transformer.distributed import processes
from transformer.errors import UserError

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
    signal.signal(number, signal.SIG_IGN)
    with processes.stop_signals() as signalled:
        signal.raise_signal(number)
        assert not signalled()
        signal.raise_signal(next(n for n in STOPPING if n != number))
        assert signalled()
        signal.raise_signal(number)
    assert signal.getsignal(number) == signal.SIG_IGN


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


def test_a_cluster_is_connected_to_and_a_machine_of_its_own_is_not(monkeypatch, tmp_path):
    """A TPU has a library and a device; either alone is on other machines, too."""
    seen = []
    monkeypatch.setattr("jax.distributed.initialize", lambda *_, **__: seen.append(case))
    monkeypatch.setattr("jax.config.update", lambda *_: None)
    monkeypatch.setattr(processes, "CLUSTER_VARIABLES", ["CLUSTER"])
    cases = [(False, True, ""), (True, False, ""), (True, True, ""), (False, False, "CLUSTER")]
    for case in cases:
        library, device, variable = case
        monkeypatch.setattr("importlib.util.find_spec", {"libtpu": library}.get)
        monkeypatch.setattr(processes, "TPU_DEVICES", [tmp_path / ("" if device else "none")])
        monkeypatch.setenv(variable or "OTHER", "node[1-2]")
        processes.connect("", 0, 0)
    assert seen == cases[2:]
    for wrong in (("host", 2, 0), ("host:1", 2, 2), ("host:1", 0, 0), ("", 2, 1)):
        with pytest.raises(UserError, match="coordinator must be HOST:PORT, with process_id below"):
            processes.connect(*wrong)


@pytest.mark.parametrize("count", [0, 1, 7, 8, 9])
@pytest.mark.parametrize("hosts", [1, 2, 4])
def test_shares_are_disjoint_and_complete(count, hosts, monkeypatch):
    monkeypatch.setattr(processes.jax, "process_count", lambda: hosts)
    shares = []
    for host in range(hosts):
        monkeypatch.setattr(processes.jax, "process_index", lambda host=host: host)
        shares += processes.my_share(count)
    assert sorted(shares) == list(range(count))
