"""Common batches: who shares them, who waits, and what a failure or a lost client does."""

import asyncio
import threading

import pytest

from transformer.tools.serve import batching
from transformer.tools.serve.batching import Batcher


class Recorder:
    """Answers in capitals, and keeps the batches; waits in each until `go` is set."""

    def __init__(self):
        self.batches, self.go = [], threading.Event()
        self.go.set()

    def __call__(self, requests, numbers):
        texts = [request.source for request in requests]
        self.batches.append(
            [f"{text}{number}" for text, number in zip(texts, numbers, strict=True)]
        )
        assert self.go.wait(60)
        if "bad" in texts:
            raise ValueError("bad")
        return [text.upper() for text in texts]


def run(scenario, *, batch_lines=4, wait=0.0):
    """Returns the batches of a scenario, an async function of (batcher, recorder)."""

    async def main():
        recorder = Recorder()
        batcher = Batcher(recorder, workers=1, batch_lines=batch_lines, wait=wait)
        await scenario(batcher, recorder)
        assert batcher.num_waiting() == 0
        batcher.close()
        return recorder.batches

    return asyncio.run(main())


async def begun(recorder, count):
    while len(recorder.batches) < count:
        await asyncio.sleep(0.001)


def test_a_short_request_shares_the_next_batch_of_a_long_one():
    async def scenario(batcher, recorder):
        long, short = batcher.submit(["a"] * 4, {}), batcher.submit(["b"], {})
        assert await asyncio.gather(*short, *long) == ["B", "A", "A", "A", "A"]

    assert run(scenario, batch_lines=2) == [["a0", "b0"], ["a1", "a2"], ["a3"]]


def test_lines_gather_while_all_workers_are_busy():
    async def scenario(batcher, recorder):
        recorder.go.clear()
        first = batcher.submit(["a"], {})
        await begun(recorder, 1)
        later = [*batcher.submit(["b"], {}), *batcher.submit(["c"], {})]
        assert batcher.num_waiting() == 2
        recorder.go.set()
        assert await asyncio.gather(*first, *later) == ["A", "B", "C"]

    assert run(scenario) == [["a0"], ["b0", "c0"]]


@pytest.mark.parametrize("wait", [0.0, 60.0])
def test_who_comes_alone_does_not_wait_for_others(wait):
    async def scenario(batcher, recorder):
        for _ in range(3):
            assert await asyncio.gather(*batcher.submit(["a"], {})) == ["A"]

    assert run(scenario, wait=wait) == [["a0"]] * 3


@pytest.mark.parametrize(("wait", "batches"), [(0.0, 3), (60.0, 2)])
def test_who_came_with_others_waits_for_them(wait, batches):
    async def scenario(batcher, recorder):
        await asyncio.gather(*batcher.submit(["a", "b"], {}))
        first = batcher.submit(["a"], {})
        await asyncio.sleep(0.05)
        # The batch is full with these.
        assert await asyncio.gather(*first, *batcher.submit(["b", "c", "d"], {})) == [*"ABCD"]

    assert len(run(scenario, wait=wait)) == batches


def test_long_lines_fill_a_batch(monkeypatch):
    monkeypatch.setattr(batching, "BATCH_CHARACTERS", 5)

    async def scenario(batcher, recorder):
        await asyncio.gather(*batcher.submit(["aaaaaaa", "bb", "bb", "bb", "c"], {}))

    assert run(scenario) == [["aaaaaaa0"], ["bb1", "bb2", "bb3"], ["c4"]]


def test_a_line_fails_by_itself():
    async def scenario(batcher, recorder):
        lines = [*batcher.submit(["a", "bad"], {}), *batcher.submit(["b"], {})]
        first, failed, last = await asyncio.gather(*lines, return_exceptions=True)
        assert (first, type(failed), last) == ("A", ValueError, "B")
        assert await asyncio.gather(*batcher.submit(["a"], {})) == ["A"]

    assert run(scenario)[0] == ["a0", "b0", "bad1"]
