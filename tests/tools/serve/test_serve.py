"""--mode=serve as a program: answers of a trained model, many clients, bad ones, and its end.

SERVE_REQUESTS=10000 python -m pytest tests/tools/serve -k lost sends so many requests.
"""

import concurrent.futures
import contextlib
import http.client
import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import time

import pytest
from tools.pages import browser

from transformer.errors import UserError
from transformer.models import kernels
from transformer.tools.serve import serve
from transformer.workdir import key_tables
from transformer.workdir.saved_config import read_config

REQUESTS = int(os.environ.get("SERVE_REQUESTS", "400"))
CLIENTS = 16
WORDS = ["가", "나", "다", "라", "마"]
LINES = [" ".join(random.Random(i).choices(WORDS, k=1 + i % 7)) for i in range(40)]
LOST = (ConnectionError, http.client.BadStatusLine, http.client.CannotSendRequest)


@contextlib.contextmanager
def serving(log, *arguments):
    """Yields a service's process and its port, once its log, a file, has it."""
    command = [sys.executable, "launch.py", "--mode=serve", "--config.serve.port=0", *arguments]
    with log.open("wb") as file:
        process = subprocess.Popen(command, stderr=file)
    try:
        while not (line := re.search(r"at http://127.0.0.1:(\d+)", log.read_text())):
            assert process.poll() is None
            time.sleep(0.1)
        yield process, int(line[1])
    finally:
        process.kill()
        process.wait()


def ask(connection, **asked):
    connection.request(
        "POST", "/translate", json.dumps(asked), {"Content-Type": "application/json"}
    )
    answer = connection.getresponse()
    return answer.status, json.loads(answer.read())


def misbehave(port, kind):
    """A client that hangs up, or sends what is no request, or half of one."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as raw:
        body = json.dumps({"text": LINES}).encode()
        head = b"POST /translate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        whole = head + b"Content-Length: %d\r\n\r\n" % len(body) + body
        raw.sendall({"hang up": whole, "half": whole[:-9], "garbage": random.randbytes(500)}[kind])


@pytest.mark.slow
def test_nothing_is_lost_or_wrong_between_bad_clients_and_an_end(tiny_run, tmp_path, answered):
    expected = answered("translate", tiny_run.workdir, "\n".join(LINES).encode()).splitlines()
    log = tmp_path / "log"
    with serving(log, f"--workdir={tiny_run.workdir}") as (process, port):
        stopped = float("inf")

        def client(number):
            """Returns [(when it was begun, whether it was answered)] of good requests."""
            choose, outcomes = random.Random(number), []
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
            for _ in range(REQUESTS // CLIENTS):
                kind = choose.choices(["good", "hang up", "half", "garbage"], [85, 5, 5, 5])[0]
                begun = time.monotonic()
                if kind != "good":
                    with contextlib.suppress(ConnectionError):
                        misbehave(port, kind)
                    continue
                chosen = choose.choices(range(len(LINES)), k=choose.choice([1, 1, 1, 5]))
                try:
                    status, answer = ask(connection, text=[LINES[i] for i in chosen])
                except LOST:
                    connection.close()
                    outcomes.append((begun, False))
                else:
                    assert (status, answer) == (
                        200,
                        {"translations": [expected[i] for i in chosen]},
                    )
                    outcomes.append((begun, True))
            return outcomes

        with concurrent.futures.ThreadPoolExecutor(CLIENTS) as pool:
            clients = [pool.submit(client, number) for number in range(CLIENTS)]
            # The end comes while half of the clients are at work.
            concurrent.futures.wait(clients[: CLIENTS // 2])
            stopped = time.monotonic()
            process.send_signal(signal.SIGTERM)
            more = [pool.submit(client, CLIENTS + number) for number in range(2)]
            outcomes = [x for done in [*clients, *more] for x in done.result()]
        assert process.wait(60) == 0
        assert "Traceback" not in log.read_text()
    assert len(outcomes) > REQUESTS / 2
    # What is on its way in the last moment before the signal may come after it.
    assert all(is_answered for begun, is_answered in outcomes if begun < stopped - 0.5)
    assert not all(is_answered for begun, is_answered in outcomes)


@pytest.mark.slow
def test_a_sentence_on_the_page_by_keyboard_alone(tiny_run, tmp_path):
    from selenium.webdriver import ActionChains, Keys

    service = serving(tmp_path / "log", f"--workdir={tiny_run.workdir}")
    with service as (process, port), browser.chromium() as driver:
        browser.open_page(driver, f"http://127.0.0.1:{port}/")
        assert browser.faults(driver) == browser.NONE
        keys = ActionChains(driver)
        for _ in range(2):  # the link to the form's section, then the form
            keys.send_keys(Keys.TAB)
        keys.send_keys(LINES[3], Keys.ENTER).perform()
        headings = "return [...document.querySelectorAll('h2')].map((x) => x.textContent)"
        sections = lambda: driver.execute_script(headings)
        browser.becomes(sections, SECTIONS)
        assert len(driver.find_elements("css selector", "tbody tr")) >= 4
        assert driver.find_element("name", "text").get_attribute("value") == LINES[3]
        word = driver.find_element("css selector", ".pair button")
        word.send_keys("")  # has the focus now
        said = lambda: driver.find_element("css selector", ".said").text.startswith(word.text)
        browser.becomes(said, True)
        list(browser.open_everywhere(driver, driver.current_url))
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0


SECTIONS = ["Translate", "Translations", "Attention", "The beam, step by step"]


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"host": "nowhere.invalid"}, "cannot listen at nowhere.invalid"),
        ({"warm_up": "~/no/such/file"}, "config.serve.warm_up='~/no/such/file' is not a file"),
        ({"also": " no/such/run"}, "no/such/run/config.json does not exist"),
        ({"also": "same"}, "two models have one name"),
    ],
)
def test_a_mistake_is_explained_before_anything_is_loaded(tiny_run, monkeypatch, changes, error):
    advised = []
    monkeypatch.setattr(kernels, "chosen", lambda: kernels.PLAIN._replace(advise=advised.append))
    config = key_tables.set_mode_keys(read_config(tiny_run.workdir), "serve")
    if changes.get("also") == "same":
        changes = {"also": str(tiny_run.workdir)}
    config.serve.update(changes)
    with pytest.raises(UserError, match=re.escape(error)):
        serve.serve(config, tiny_run.workdir)
    assert advised == ["float32"] * ("host" in changes)
