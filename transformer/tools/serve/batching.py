"""Translates the lines of several requests in common batches."""

import asyncio
import collections
import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from transformer.decoding.translator import Request

BATCH_CHARACTERS = 16_000  # of a batch's lines; the last line may exceed it


class Line(NamedTuple):
    """A line of a request, and the future of its answer."""

    text: str
    number: int  # in its request, from 0
    terms: Mapping[str, str]
    answer: asyncio.Future


class Batcher:
    """Collects lines, and translates them by `translate(requests, numbers)` in threads.

    Lines gather while all workers are busy. A worker takes them at once if the last batch had a
    single line and no batch is in progress, as with a single client. Otherwise it waits up to
    `wait` seconds for a full batch, because clients that have just been answered may ask again. A
    batch has at most `batch_lines` lines, or about BATCH_CHARACTERS. It takes a line of each
    request in turn, so that a short request does not wait for a long one. Create a Batcher within
    an event loop.
    """

    def __init__(
        self,
        translate: Callable[[list[Request], list[int]], Sequence[Any]],
        *,
        workers: int,
        batch_lines: int,
        wait: float,
    ):
        self._translate, self._batch_lines, self._wait = translate, batch_lines, wait
        self._requests: collections.deque[collections.deque[Line]] = collections.deque()
        self._arrived, self._full = asyncio.Event(), asyncio.Event()
        self._last = self._in_progress = 0  # lines of the newest batch, and of all in progress
        self._tasks = [asyncio.create_task(self._work()) for _ in range(workers)]

    def submit(self, texts: Sequence[str], terms: Mapping[str, str]) -> list[asyncio.Future]:
        """Returns the future answer of each line; lines with a cancelled future are left out."""
        future = asyncio.get_running_loop().create_future
        lines = [Line(text, number, terms, future()) for number, text in enumerate(texts)]
        if lines:
            self._requests.append(collections.deque(lines))
            self._mark()
        return [line.answer for line in lines]

    def num_waiting(self) -> int:
        """Returns the number of lines in no batch yet, without cancelled lines."""
        return sum(not line.answer.done() for request in self._requests for line in request)

    def close(self) -> None:
        """Ends the workers, and drops their batches in progress."""
        for task in self._tasks:
            task.cancel()

    async def _work(self) -> None:
        while True:
            await self._arrived.wait()
            if self._wait and (self._last > 1 or self._in_progress):
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._full.wait(), self._wait)
            if batch := self._take():
                self._last = len(batch)
                self._in_progress += len(batch)
                await self._answer(batch)
                self._in_progress -= len(batch)

    def _take(self) -> list[Line]:
        """Takes the lines of a batch: of the requests [A, B, B, B] and [C], first A and C."""
        batch, size = [], 0
        while self._requests and len(batch) < self._batch_lines and size < BATCH_CHARACTERS:
            request = self._requests.popleft()
            line = request.popleft()
            if request:
                self._requests.append(request)
            if not line.answer.done():
                batch.append(line)
                size += len(line.text)
        self._mark()
        return batch

    def _mark(self) -> None:
        """Sets the events for waiting lines, and for a full batch."""
        count = sum(map(len, self._requests))
        for event, least in ((self._arrived, 1), (self._full, self._batch_lines)):
            event.set() if count >= least else event.clear()

    async def _answer(self, batch: list[Line]) -> None:
        """Answers a batch; if it fails, line by line, so that only a faulty line fails."""
        requests = [Request(line.text, terms=line.terms) for line in batch]
        numbers, futures = [x.number for x in batch], [x.answer for x in batch]
        try:
            answers = await asyncio.to_thread(self._translate, requests, numbers)
        except Exception as error:  # of any kind, for the line's client
            if len(batch) > 1:
                for line in batch:
                    await self._answer([line])
            elif not futures[0].done():
                futures[0].set_exception(error)
            return
        for future, answer in zip(futures, answers, strict=True):
            if not future.done():
                future.set_result(answer)
