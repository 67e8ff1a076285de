"""A host that does not answer is not waited for."""

import socket
import threading

import requests

from transformer.data import downloads


def test_a_host_that_never_answers_times_out(monkeypatch):
    monkeypatch.setattr(downloads, "PROBE_SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as server:  # accepts, and says nothing
        assert downloads._unreachable(f"http://127.0.0.1:{server.getsockname()[1]}/x.tgz")

    tested = threading.Event()

    def hanging_look_up(*_, **__):
        tested.wait(60)
        raise requests.ConnectionError

    monkeypatch.setattr(requests, "get", hanging_look_up)
    assert "no answer" in downloads._unreachable("http://host.invalid/x.tgz")
    tested.set()
