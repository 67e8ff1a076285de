"""The HTTP service: its endpoints and limits."""

import asyncio
import concurrent.futures
import contextlib
import itertools
import json
import logging
import re
from collections.abc import AsyncIterator, Mapping
from typing import Any

import prometheus_client
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, Response, StreamingResponse
from ml_collections import ConfigDict
from starlette.exceptions import HTTPException

import transformer
from transformer.decoding.translator import Hypothesis
from transformer.errors import quantity
from transformer.modes.lines import encodable
from transformer.tools.serve import guard, schema
from transformer.tools.serve.batching import Batcher
from transformer.tools.serve.served import Served

BYTES_PER_CHARACTER = 12  # at most, in JSON, where a character above U+FFFF is \uD83D\uDE00


class Service:
    """A service of models by name, each with a queue of lines; `options` are config.serve."""

    def __init__(self, models: Mapping[str, Served], options: ConfigDict):
        self.models, self.options, self.metrics = models, options, guard.Metrics()
        self.batchers: dict[tuple[str, int], Batcher] = {}  # by model and number of hypotheses
        self.page_lock = asyncio.Lock()  # one page at a time, because translation has precedence

    @contextlib.asynccontextmanager
    async def lifespan(self, app: FastAPI) -> AsyncIterator[None]:
        """Context manager of threads and queues while the service runs."""
        # A thread for each concurrent batch, and one for the page.
        threads = 1 + sum(2 * model.workers for model in self.models.values())
        executor = concurrent.futures.ThreadPoolExecutor(threads)
        asyncio.get_running_loop().set_default_executor(executor)
        for name, model in self.models.items():
            for count in {1, model.num_hypotheses}:
                self.batchers[name, count] = self._batcher(name, count)
        self.metrics.waiting.set_function(self.num_waiting)
        yield
        for batcher in self.batchers.values():
            batcher.close()

    def _batcher(self, name: str, count: int) -> Batcher:
        def translate(lines: list[Any], numbers: list[int]) -> list[list[Hypothesis]]:
            self.metrics.lines.labels(name).observe(len(lines))
            return self.models[name].translate(lines, numbers, count)

        return Batcher(
            translate,
            workers=self.models[name].workers,
            batch_lines=self.options.batch_lines,
            wait=self.options.batch_wait,
        )

    def num_waiting(self) -> int:
        """Returns the number of lines in no batch yet."""
        return sum(batcher.num_waiting() for batcher in self.batchers.values())

    def submit(self, name: str, lines: list[str], count: int, terms: dict) -> list[asyncio.Future]:
        """Starts to translate lines; HTTPException if a limit is exceeded."""
        name = name or next(iter(self.models))
        lines = [*map(encodable, lines)]
        if name not in self.models:
            raise HTTPException(404, f"no model {name!r}: expected {', '.join(self.models)}")
        lengths = [*map(len, lines)]
        for size, most, what, unit in (
            (sum(lengths), self.options.max_characters, "", "character"),
            (max(lengths, default=0), self.options.max_line, "a line of ", "character"),
            (len(lines), self.options.max_lines, "", "line"),
        ):
            if size > most:
                raise HTTPException(413, f"{what}more than {quantity(most, unit)}")
        if count > (limit := self.models[name].num_hypotheses):
            raise HTTPException(422, f"num_hypotheses must be at most {limit}, found {count}")
        if terms and not self.models[name].takes_terms:
            raise HTTPException(422, "terms need a server with decode.method=terminology")
        if self.num_waiting() + len(lines) > self.options.max_waiting:
            raise HTTPException(503, "too many lines wait, try again", {"Retry-After": "1"})
        terms = {encodable(key): encodable(value) for key, value in terms.items()}
        return self.batchers[name, 1 if count == 1 else limit].submit(lines, terms)

    async def translate(self, asked: schema.TranslateRequest, request: Request) -> Any:
        """Translates a text, or several."""
        texts = [asked.text] if isinstance(asked.text, str) else asked.text
        parts, count = [re.split("\r?\n", text) for text in texts], asked.num_hypotheses
        lines = [line for part in parts for line in part]
        futures = self.submit(asked.model, lines, count, asked.terms)
        if asked.stream:
            places = [(i, j) for i, part in enumerate(parts) for j in range(len(part))]
            lines = streamed(places, futures, count, self.options.timeout)
            return StreamingResponse(lines, media_type="application/x-ndjson")
        answers = iter(await all_of(futures, request, self.options.timeout))
        several = [best_of(list(itertools.islice(answers, len(part))), count) for part in parts]
        answer = {"translations": [hypotheses[0]["text"] for hypotheses in several]}
        is_more = count > 1 or any(map(says_more, several))
        return answer | ({"hypotheses": several} if is_more else {})

    async def health(self) -> dict[str, Any]:
        """Status, and the names of the models."""
        return {"status": "ok", "models": list(self.models)}

    async def metrics_text(self) -> Response:
        """Counts, times and sizes, for Prometheus."""
        text = prometheus_client.generate_latest(self.metrics.registry)
        return Response(text, media_type=prometheus_client.CONTENT_TYPE_LATEST)

    async def page(self, request: Request, text: str = "", model: str = "") -> str:
        """Shows how a text is translated."""
        name = model or next(iter(self.models))
        text = " ".join(text.split())
        count = self.models[name].num_hypotheses if name in self.models else 1
        submitted = self.submit(name, [text], count, {})
        [hypotheses] = await all_of(submitted, request, self.options.timeout)
        try:
            async with asyncio.timeout(self.options.timeout), self.page_lock:
                return await asyncio.to_thread(self.models[name].page, text, hypotheses)
        except TimeoutError:
            raise HTTPException(504, "too many pages are asked for, try again") from None


def application(models: Mapping[str, Served], options: ConfigDict) -> FastAPI:
    """Returns the app that serves models by name; `options` are config.serve."""
    service = Service(models, options)
    app = FastAPI(
        title="Translation",
        version=transformer.__version__,
        lifespan=service.lifespan,
        docs_url=None,  # these pages load scripts from elsewhere
        redoc_url=None,
        generate_unique_id_function=lambda route: route.name,
    )
    app.add_middleware(
        guard.Guard,
        max_bytes=BYTES_PER_CHARACTER * (options.max_characters + options.max_lines) + 1024,
        timeout=options.timeout,
        metrics=service.metrics,
    )
    errors = {
        code: {"model": schema.Error} for code in (400, 404, 408, 413, 415, 422, 500, 503, 504)
    }
    app.post(
        "/translate",
        responses={**errors, 200: {"content": {"application/x-ndjson": {}}}},  # the latter: streams
        response_model=schema.TranslateAnswer,
        response_model_exclude_none=True,
    )(service.translate)
    app.get("/health")(service.health)
    app.head("/health", include_in_schema=False)(service.health)
    app.get("/metrics", response_class=Response)(service.metrics_text)
    app.get("/", response_class=HTMLResponse, include_in_schema=False)(service.page)
    app.exception_handler(HTTPException)(schema.refused)
    app.exception_handler(RequestValidationError)(schema.invalid)
    app.exception_handler(Exception)(
        lambda request, error: schema.error_response(500, schema.failure(error))
    )
    return app


async def all_of(futures: list[asyncio.Future], request: Request, timeout: float) -> list[Any]:
    """Returns all answers; after a disconnect or a timeout, drops the lines still waiting."""

    async def collect() -> list[Any]:
        return [await future for future in futures]

    await request.body()  # even of a GET, because the next message is the disconnect
    disconnected = asyncio.ensure_future(request.receive())
    answers = asyncio.ensure_future(collect())
    try:
        first = asyncio.FIRST_COMPLETED
        await asyncio.wait([answers, disconnected], timeout=timeout, return_when=first)
        if answers.done():
            return answers.result()
        if disconnected.done():
            raise HTTPException(499, "the client has gone")
        raise HTTPException(504, f"not translated within {timeout:g} seconds")
    finally:
        disconnected.cancel()
        answers.cancel()
        drop(futures)


async def streamed(
    places: list[tuple[int, int]], futures: list[asyncio.Future], count: int, timeout: float
) -> AsyncIterator[str]:
    """Yields a line of JSON for each answer, in order; a line with "error" is the last."""
    try:
        for (text, line), future in zip(places, futures, strict=True):
            hypotheses = best_of([await asyncio.wait_for(future, timeout)], count)
            answer = {"text": text, "line": line, "translation": hypotheses[0]["text"]}
            answer |= {"hypotheses": hypotheses} if count > 1 or says_more(hypotheses) else {}
            yield json.dumps(answer, ensure_ascii=False) + "\n"
    except TimeoutError:
        yield json.dumps({"error": f"not translated within {timeout:g} seconds"}) + "\n"
    except Exception as error:  # any error of a model, because the status has been sent
        logging.exception("a line of a stream failed")
        yield json.dumps({"error": schema.failure(error)}) + "\n"
    finally:
        drop(futures)


def drop(futures: list[asyncio.Future]) -> None:
    """Cancels futures without an answer, and marks exceptions as retrieved, not to be logged."""
    for future in futures:
        if not future.cancel() and not future.cancelled():
            future.exception()


def best_of(lines: list[list[Hypothesis]], count: int) -> list[dict[str, Any]]:
    """Returns up to `count` hypotheses of a text, joined from those of its lines.

    A line with fewer than the others, such as a blank line, repeats its last.
    """
    hypotheses = []
    for rank in range(min(count, max(map(len, lines)))):
        ranked = [line[min(rank, len(line) - 1)] for line in lines]
        confidences = [x.confidence for x in ranked]
        joined = Hypothesis(
            text="\n".join(x.text for x in ranked),
            score=sum(x.score for x in ranked),
            missing=sum((x.missing for x in ranked), ()),
            confidence=None if None in confidences else min(confidences),
            words=sum((x.words for x in ranked), ()),
            flagged=None if ranked[0].flagged is None else any(x.flagged for x in ranked),
        )
        hypotheses.append({"text": joined.text, **joined.details()})
    return hypotheses


def says_more(hypotheses: list[dict[str, Any]]) -> bool:
    """Returns whether the best hypothesis has more than a text and a score."""
    return len(hypotheses[0]) > 2
