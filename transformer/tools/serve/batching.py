"""Lines of several requests, translated in common batches."""

import asyncio
import collections
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple


class Line(NamedTuple):
    """A line of a request, and the future of its answer."""

    text: str
    number: int  # in its request, from 0
    answer: asyncio.Future


class Batcher:
    """Collects lines, and translates them by `translate(texts, numbers)` in threads.

    If a worker is idle, a line waits `wait` seconds for others to share its batch; while all are
    busy, lines gather. A batch of at most `batch_lines` takes a line of each request in turn, so
    that a short request does not wait for the end of a long one. Made within an event loop.
    """

    def __init__(
        self,
        translate: Callable[[list[str], list[int]], Sequence[Any]],
        *,
        workers: int,
        batch_lines: int,
        wait: float,
    ):
        self._translate, self._batch_lines, self._wait = translate, batch_lines, wait
        self._requests: collections.deque[collections.deque[Line]] = collections.deque()
        self._arrived = asyncio.Event()
        self._tasks = [asyncio.create_task(self._work()) for _ in range(workers)]

    def submit(self, texts: Sequence[str]) -> list[asyncio.Future]:
        """Returns the future answer of each line; a line whose future is cancelled is left out."""
        future = asyncio.get_running_loop().create_future
        lines = [Line(text, number, future()) for number, text in enumerate(texts)]
        if lines:
            self._requests.append(collections.deque(lines))
            self._arrived.set()
        return [line.answer for line in lines]

    def num_waiting(self) -> int:
        """Returns the number of lines in no batch yet."""
        return sum(map(len, self._requests))

    def close(self) -> None:
        """Ends the workers; what they have begun is lost."""
        for task in self._tasks:
            task.cancel()

    async def _work(self) -> None:
        while True:
            await self._arrived.wait()
            if self.num_waiting() < self._batch_lines:
                await asyncio.sleep(self._wait)
            if batch := self._take():
                await self._answer(batch)

    def _take(self) -> list[Line]:
        """Takes the lines of a batch; those of requests A B B B and C, two of a batch: A C."""
        batch = []
        while self._requests and len(batch) < self._batch_lines:
            request = self._requests.popleft()
            line = request.popleft()
            if request:
                self._requests.append(request)
            if not line.answer.done():
                batch.append(line)
        if not self._requests:
            self._arrived.clear()
        return batch

    async def _answer(self, batch: list[Line]) -> None:
        texts, numbers, futures = zip(*batch, strict=True)
        try:
            answers = await asyncio.to_thread(self._translate, list(texts), list(numbers))
        except Exception as error:
            for future in futures:
                if not future.done():
                    future.set_exception(error)
            return
        for future, answer in zip(futures, answers, strict=True):
            if not future.done():
                future.set_result(answer)
