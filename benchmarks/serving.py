"""How fast --mode=serve answers, beside one line at a time, and beside CTranslate2 behind it.

    pip install ctranslate2==4.8.5
    python -m benchmarks.serving --workdir runs/multi30k --file lines.txt

1, 8 and 64 clients each send one line, wait for its translation, and send the next, until all lines
of the file are translated; before that, once without a clock. The servers take turns, each in a
process of its own: ours, ours with batches of one line, and the same HTTP application with
CTranslate2 on the same weights. Clients and server share the cores.
"""

import argparse
import concurrent.futures
import http.client
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import ctranslate2
import numpy as np
import uvicorn
from ml_collections import ConfigDict

from benchmarks import decode
from transformer.decoding.translator import Hypothesis, Request
from transformer.runtime import startup
from transformer.tasks import translation
from transformer.tools.serve import application, served
from transformer.workdir import key_tables, saved_config

CLIENTS = (1, 8, 64)
ENGINES = ("this", "this, one by one", "CTranslate2", "CTranslate2, one by one")
CORES = len(os.sched_getaffinity(0))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workdir", type=Path, required=True)
    parser.add_argument("--file", type=Path, required=True)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--port", type=int, default=8765)
    parser.add_argument("--engine", choices=ENGINES, help="serves (for the program itself)")
    parser.add_argument("--folder", type=Path, help="of the converted model (likewise)")
    arguments = parser.parse_args()
    if arguments.engine:
        serve(arguments)
        return
    with tempfile.TemporaryDirectory() as folder:
        arguments.folder = Path(folder)
        decode.convert(arguments)
        results = [turn(arguments, engine) for _ in range(arguments.turns) for engine in ENGINES]
    print("clients | sentences/s | median, ms | 95 %, ms | same as this | server")
    _, first = results[0]
    for engine in ENGINES:
        turns = [result for name, result in results if name == engine]
        for clients in CLIENTS:
            rates = [len(x[clients][1]) / x[clients][0] for x in turns]
            times = [1000 * s for x in turns for s, _ in x[clients][1]]
            pairs = zip(turns[0][clients][1], first[1][1], strict=True)
            same = np.mean([a == b for (_, a), (_, b) in pairs])
            print(
                f"{clients:7} {statistics.median(rates):13.0f} {statistics.median(times):12.1f} "
                f"{np.percentile(times, 95):10.1f} {same:14.2%}   {engine}"
            )


def turn(arguments: argparse.Namespace, engine: str) -> tuple[str, dict]:
    """A server's turn: (engine, {clients: (seconds, [(seconds, translation) of each line])})."""
    command = [sys.executable, "-m", "benchmarks.serving", f"--engine={engine}"]
    command += [f"--{x}={getattr(arguments, x)}" for x in ("workdir", "file", "folder", "port")]
    server = subprocess.Popen(command, env={**os.environ, **startup.ALLOCATOR})
    try:
        while True:
            try:
                ask(http.client.HTTPConnection("127.0.0.1", arguments.port), ".")
                break
            except ConnectionRefusedError:
                if server.poll() is not None:
                    sys.exit(f"the server {engine} ended with status {server.returncode}")
                time.sleep(0.2)
        lines, by_clients = decode.lines(arguments), {}
        for clients in CLIENTS:
            load(arguments.port, lines, clients)
            by_clients[clients] = load(arguments.port, lines, clients)
        return engine, by_clients
    finally:
        server.terminate()
        server.wait()


def load(port: int, lines: list[str], clients: int) -> tuple[float, list[tuple[float, str]]]:
    """All lines by so many clients: (seconds, [(seconds, translation) of each line])."""

    def client(number: int) -> list[tuple[float, str]]:
        connection = http.client.HTTPConnection("127.0.0.1", port)
        return [ask(connection, line) for line in lines[number::clients]]

    start = time.perf_counter()
    with concurrent.futures.ThreadPoolExecutor(clients) as pool:
        answers = list(pool.map(client, range(clients)))
    seconds = time.perf_counter() - start
    # Line 9 of 8 clients is the second of client 1.
    return seconds, [answers[i % clients][i // clients] for i in range(len(lines))]


def ask(connection: http.client.HTTPConnection, line: str) -> tuple[float, str]:
    """Translates a line: (seconds, translation)."""
    start = time.perf_counter()
    body, headers = json.dumps({"text": line}), {"Content-Type": "application/json"}
    connection.request("POST", "/translate", body, headers)
    answer = json.loads(connection.getresponse().read())
    return time.perf_counter() - start, answer["translations"][0]


def serve(arguments: argparse.Namespace) -> None:
    """Runs the server of one engine until it is terminated."""
    startup.schedule_for_memory()  # as launch.py
    config = saved_config.read_with_defaults(arguments.workdir)
    startup.set_compilation_cache(config.compilation_cache)
    config.decode.length_penalty = "power"  # the only one that CTranslate2 has
    options = key_tables.set_mode_keys(ConfigDict(), "serve").serve
    if arguments.engine.endswith("one by one"):
        options.update(batch_lines=1, batch_wait=0.0)
    if arguments.engine.startswith("this"):
        model = served.load(config, arguments.workdir, "model", ["model"], options)
    else:
        model = theirs(arguments, config.decode)
    app = application.application({"model": model}, options)
    uvicorn.run(app, port=arguments.port, log_level="warning", access_log=False)


def theirs(arguments: argparse.Namespace, decode: ConfigDict) -> served.Served:
    """CTranslate2's model."""
    run = translation.load(saved_config.read_with_defaults(arguments.workdir), arguments.workdir)
    source, target = run.vocabulary
    engine = ctranslate2.Translator(
        str(arguments.folder), device="cpu", inter_threads=CORES, intra_threads=1
    )

    def translate(lines: list[Request], numbers: list[int], count: int) -> list[list[Hypothesis]]:
        tokens = source.processor.encode([x.source for x in lines], out_type=str)
        options = {"beam_size": decode.beam_width, "length_penalty": decode.length_alpha}
        longest = max(map(len, tokens)) + decode.extra_length
        results = engine.translate_batch(tokens, max_decoding_length=longest, **options)
        texts = target.processor.decode_pieces([result.hypotheses[0] for result in results])
        return [[Hypothesis(text, 0.0)] for text in texts]

    return served.Served(translate, lambda *_: "", 1, CORES)


if __name__ == "__main__":
    main()
