"""The service over HTTP, by a model of capitals: asked, refused, limited, lost and ended."""

import contextlib
import http.client
import json
import re
import socket
import threading
import time

import pytest
import uvicorn
from ml_collections import ConfigDict

from transformer.decoding.translator import Hypothesis
from transformer.tools.serve import application
from transformer.tools.serve.served import Served
from transformer.workdir import key_tables

JSON = {"Content-Type": "application/json"}


class Capitals:
    """A model that waits until `go` is set for a line 'wait', and counts its lines."""

    def __init__(self):
        self.go, self.lines = threading.Event(), []

    def translate(self, requests, numbers, count):
        lines = [request.source for request in requests]
        self.lines += lines
        if "wait" in lines:
            assert self.go.wait(60)
        if "bad" in lines:
            raise ValueError("bad")
        missing = [tuple(request.terms) for request in requests]
        best = zip(lines, missing, strict=True)
        several = lambda x: range(count if x else 1)
        return [[Hypothesis(x.upper() + "!" * k, -k, y) for k in several(x)] for x, y in best]

    def page(self, text, hypotheses):
        if text == "draw":
            assert self.go.wait(60)
        return f"<p>{text} {len(hypotheses)}"


class Service:
    """A service in a thread of its own, and what to ask it."""

    def __init__(self, app, model=None):
        self.model = model
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.port = self.listening.getsockname()[1]
        self.server = uvicorn.Server(uvicorn.Config(app, log_config=None, log_level="critical"))
        run = {"target": self.server.run, "kwargs": {"sockets": [self.listening]}}
        self.thread = threading.Thread(**run)
        self.thread.start()

    def stop(self):
        self.server.should_exit = True

    def connect(self):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)

    def ask(self, method="POST", path="/translate", body=None, headers=JSON):
        """Returns (status, the body's JSON or text)."""
        with contextlib.closing(self.connect()) as connection:
            body = body if isinstance(body, str | bytes | None) else json.dumps(body)
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            text = answer.read().decode()
            is_json = answer.headers["Content-Type"] == "application/json"
            return answer.status, json.loads(text) if is_json and text else text

    def translations(self, text, **more):
        status, answer = self.ask(body={"text": text, **more})
        assert status == 200, answer
        return answer["translations"]

    def metric(self, line):
        _, text = self.ask("GET", "/metrics")
        return float(re.search(rf"^{re.escape(line)} (\S+)$", text, re.MULTILINE)[1])


@contextlib.contextmanager
def running(app, model=None):
    service = Service(app, model)
    try:
        yield service
    finally:
        service.stop()
        service.thread.join(60)
        assert not service.thread.is_alive()


@contextlib.contextmanager
def serving(**changes):
    model = Capitals()
    options = key_tables.set_mode_keys(ConfigDict(), "serve").serve
    options.update(batch_wait=0.0, **changes)
    served = Served(model.translate, model.page, 4, workers=2)
    both = {"a": served, "b": served._replace(takes_terms=True)}
    with running(application.application(both, options), model) as service:
        try:
            yield service
        finally:
            model.go.set()


@pytest.fixture(scope="module")
def service():
    with serving(timeout=30.0, max_lines=20, max_characters=200, max_line=150) as made:
        yield made


def is_refused(port):
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) != 0


def until(holds):
    end = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_a_text_and_a_list_are_answered_in_order(service):
    assert service.translations("a b") == ["A B"]
    assert service.translations(["c", "", "a", "c"]) == ["C", "", "A", "C"]
    assert service.translations([]) == []
    # A line of a text is one of --mode=translate.
    assert service.translations("a\n\r\nb\x0cc\n", model="b") == ["A\n\nB\x0cC\n"]
    # Half a surrogate pair is no text.
    assert service.translations("x\ud800") == ["X?"]


def test_terms_are_each_request_s_own(service):
    asked = {"text": ["a\nb", "c"], "terms": {"x": "y"}}
    _, answer = service.ask(body=asked | {"model": "b"})
    assert [best["missing"] for best, *_ in answer["hypotheses"]] == [["x", "x"], ["x"]]
    status, answer = service.ask(body=asked)
    assert (status, answer["error"]) == (422, "terms need a server with decode.method=terminology")


def test_hypotheses_of_a_text_are_those_of_its_lines(service):
    """A blank line has one, whatever is asked for."""
    status, answer = service.ask(body={"text": ["a\n\nb", "c"], "num_hypotheses": 2})
    assert status == 200
    assert answer == {
        "translations": ["A\n\nB", "C"],
        "hypotheses": [
            [{"text": "A\n\nB", "score": 0}, {"text": "A!\n\nB!", "score": -2}],
            [{"text": "C", "score": 0}, {"text": "C!", "score": -1}],
        ],
    }


def streamed(service, *texts):
    """Yields the objects of a stream, as they come."""
    with contextlib.closing(service.connect()) as connection:
        body = json.dumps({"text": texts, "stream": True})
        connection.request("POST", "/translate", body, JSON)
        yield from map(json.loads, connection.getresponse())


def test_a_stream_answers_each_line_as_soon_as_it_is_done():
    with serving(batch_lines=1) as service:
        lines = streamed(service, "a\nwait", "b")
        assert next(lines) == {"text": 0, "line": 0, "translation": "A"}
        service.model.go.set()
        assert [*lines] == [
            {"text": 0, "line": 1, "translation": "WAIT"},
            {"text": 1, "line": 0, "translation": "B"},
        ]


def test_a_stream_ends_with_its_error(caplog):
    with serving(batch_lines=1, timeout=0.5) as service:
        first, last = streamed(service, "a", "bad", "c")
        assert (first["translation"], last) == ("A", {"error": "ValueError: the log has more"})
        assert "ValueError: bad" in caplog.text
        first, last = streamed(service, "a", "wait", "c")
        assert last == {"error": "not translated within 0.5 seconds"}
        service.model.go.set()
        assert service.translations("b") == ["B"]


@pytest.mark.parametrize(
    ("body", "status", "error"),
    [
        ('{"text": ', 400, "not JSON"),
        ("[" * 3000, 400, "nested too deeply"),
        ("[]", 422, "body: Input should be"),
        ({"text": [1] * 100_000}, 413, "bytes"),
        ({"text": "a", **{f"key{i}": 1 for i in range(150)}}, 422, "key0: Extra inputs"),
        ({}, 422, "text: Field required"),
        ({"text": 1}, 422, "text: must be a string or a list of strings"),
        ({"text": ["a", 1, 2]}, 422, "text: must be a string or a list of strings"),
        ({"text": "a", "num_hypotheses": "2"}, 422, "num_hypotheses: Input should be"),
        ({"text": "a", "beams": 1}, 422, "beams: Extra inputs"),
        ({"text": "a", "terms": {"a*": "*"}}, 422, "terms: String should match"),
        ({"text": "a", "model": "c"}, 404, "no model 'c': expected a, b"),
        ({"text": "a", "num_hypotheses": 5}, 422, "at most 4, found 5"),
        ({"text": "a", "num_hypotheses": 0}, 422, "greater than or equal to 1"),
        ({"text": ["a"] * 21}, 413, "more than 20 lines"),
        ({"text": "\n" * 20}, 413, "more than 20 lines"),
        ({"text": ["a" * 101] * 2}, 413, "more than 200 characters"),
        ({"text": "a" * 151}, 413, "a line of more than 150 characters"),
        ({"text": "a" * 9999}, 413, "longer than 3,664 bytes"),
        ({"text": "bad"}, 500, "ValueError"),
    ],
)
def test_a_mistake_is_explained(service, body, status, error):
    found, answer = service.ask(body=body)
    assert found == status
    assert error in answer["error"]
    assert len(answer["error"]) < 1000
    assert service.translations("a") == ["A"]


def test_what_is_not_there_and_what_is_not_json(service):
    assert service.ask("GET", "/nothing")[0] == 404
    assert service.ask("GET")[0] == 405
    for kind, expected in (("", 415), ("application/jsonlines", 415), ("Application/JSON", 422)):
        status, answer = service.ask(body={}, headers={"Content-Type": kind} if kind else {})
        assert (status, "application/json" in answer["error"]) == (expected, expected == 415)


def test_health_description_and_page(service):
    assert service.ask("HEAD", "/health")[0] == 200
    assert service.ask("GET", "/health") == (200, {"status": "ok", "models": ["a", "b"]})
    _, described = service.ask("GET", "/openapi.json")
    assert {"/translate", "/health", "/metrics"} == described["paths"].keys()
    answers = described["paths"]["/translate"]["post"]["responses"]
    assert {"200", "413", "422", "503", "504"} <= answers.keys()
    assert service.ask("GET", "/?text=a+%20b&model=b") == (200, "<p>a b 4")
    assert service.ask("GET", "/") == (200, "<p> 1")
    assert service.ask("GET", "/?text=a&model=c")[0] == 404


def test_metrics_count_requests_and_lines():
    with serving() as service:
        service.translations(["a", "b", "c"])
        service.ask(body="{")
        of = 'transformer_requests_total{path="/translate",status='
        assert service.metric(f'{of}"200"}}') == service.metric(f'{of}"400"}}') == 1
        of = 'transformer_request_duration_seconds_count{path="/translate",status='
        assert service.metric(f'{of}"200"}}') == service.metric(f'{of}"400"}}') == 1
        assert service.metric('transformer_batch_lines_sum{model="a"}') == 3
        assert service.metric("transformer_waiting_lines") == 0


def test_a_request_and_a_page_are_given_up_after_the_timeout(caplog):
    with serving(timeout=0.5, batch_lines=1) as service:
        # Two lines are begun, by the two workers; the third waits.
        asked = {"text": ["wait", "wait", "late"]}
        assert service.ask(body=asked) == (504, {"error": "not translated within 0.5 seconds"})
        assert service.ask("GET", "/?text=draw")[0] == 504
        service.model.go.set()
        assert service.translations("a") == ["A"]
        assert "late" not in service.model.lines
    assert not caplog.records


def test_so_many_lines_can_wait():
    with serving(batch_lines=1, max_waiting=3) as service:
        begun = service.connect()
        begun.request("POST", "/translate", json.dumps({"text": ["wait"] * 2 + ["a"]}), JSON)
        until(lambda: service.metric("transformer_waiting_lines") == 1)
        full = (503, {"error": "too many lines wait, try again"})
        assert service.ask(body={"text": ["b"] * 3}) == full
        service.model.go.set()
        assert json.loads(begun.getresponse().read())["translations"] == ["WAIT", "WAIT", "A"]
        assert service.translations(["b"] * 3) == ["B", "B", "B"]


def test_lines_of_a_client_that_disconnected_are_dropped():
    with serving(batch_lines=1) as service:
        lost = service.connect()
        lost.request("POST", "/translate", json.dumps({"text": ["wait"] * 2 + ["late"]}), JSON)
        until(lambda: service.model.lines.count("wait") == 2)
        lost.close()
        until(lambda: service.metric("transformer_waiting_lines") == 0)
        service.model.go.set()
        assert service.translations("a") == ["A"]
        assert "late" not in service.model.lines


def test_a_body_that_comes_slowly_is_given_up():
    with serving(timeout=0.5) as service, contextlib.closing(service.connect()) as connection:
        connection.putrequest("POST", "/translate")
        connection.putheader("Content-Type", "application/json")
        connection.putheader("Content-Length", "100")
        connection.endheaders(b'{"text"')
        for _ in range(3):
            time.sleep(0.2)
            with contextlib.suppress(ConnectionError):
                connection.send(b" ")
        assert connection.getresponse().status == 408


def test_what_has_begun_is_answered_before_the_end():
    with serving() as service:
        connection = service.connect()
        connection.request("POST", "/translate", json.dumps({"text": ["wait", "b"]}), JSON)
        until(lambda: "wait" in service.model.lines)
        service.stop()
        until(lambda: is_refused(service.port))
        service.model.go.set()
        assert json.loads(connection.getresponse().read())["translations"] == ["WAIT", "B"]
