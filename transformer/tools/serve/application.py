"""The service over HTTP: what it is asked, how it answers, and its limits."""

import asyncio
import concurrent.futures
import contextlib
import itertools
import json
import logging
import re
import time
from collections.abc import AsyncIterator, Mapping
from typing import Annotated, Any

import prometheus_client
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse, Response, StreamingResponse
from ml_collections import ConfigDict
from prometheus_client import Counter, Gauge, Histogram
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

import transformer
from transformer.decoding.translator import Hypothesis
from transformer.errors import quantity
from transformer.tools.serve.batching import Batcher
from transformer.tools.serve.served import Served

BYTES_PER_CHARACTER = 12  # at most, in JSON: a character beyond U+FFFF is \uD83D\uDE00


# Checked up to the first that is none: a list may be as long as the body.
Texts = Annotated[list[str], Field(fail_fast=True)]


class TranslateRequest(BaseModel, extra="forbid", strict=True):
    """What POST /translate is asked."""

    text: str | Texts = Field(
        description="What to translate. Each line of a text is translated by itself.",
        examples=["나는 사과를 좋아해"],
    )
    model: str = Field("", description="A name in /health; the first if it is left out.")
    num_hypotheses: int = Field(1, ge=1, description="How many of the best are answered.")
    stream: bool = Field(False, description="A line of JSON for each line, as soon as it is done.")


class Translation(BaseModel):
    """A hypothesis, and its score: log P over the length penalty."""

    text: str
    score: float


class TranslateAnswer(BaseModel):
    """What POST /translate answers, in the order of the texts."""

    translations: list[str]
    hypotheses: list[list[Translation]] | None = Field(
        None, description="Of each text, best first, if num_hypotheses is above 1."
    )


class Error(BaseModel):
    """Why a request has no answer."""

    error: str


class Metrics:
    """What /metrics says, in Prometheus's format, and of this process."""

    def __init__(self):
        self.registry = prometheus_client.CollectorRegistry()
        prometheus_client.ProcessCollector(registry=self.registry)
        metric = lambda kind, name, *args, **options: kind(
            f"transformer_{name}", *args, registry=self.registry, **options
        )
        labels, buckets = ["path", "status"], [*(0.01 * 2**k for k in range(13)), float("inf")]
        self.requests = metric(Counter, "requests", "Requests answered", labels)
        about = "Time to the end of an answer"
        self.seconds = metric(Histogram, "request_duration_seconds", about, labels, buckets=buckets)
        powers = [4**k for k in range(7)]
        self.lines = metric(Histogram, "batch_lines", "Lines in a batch", ["model"], buckets=powers)
        self.waiting = metric(Gauge, "waiting_lines", "Lines in no batch yet")


class Guard:
    """Limits the body of each request, in bytes and in seconds, and counts and times requests."""

    def __init__(self, app: ASGIApp, *, max_bytes: int, timeout: float, metrics: Metrics):
        self._app, self._max_bytes, self._timeout = app, max_bytes, timeout
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        size, is_whole, status, start = 0, False, 500, time.perf_counter()
        end = asyncio.get_running_loop().time() + self._timeout

        async def limited() -> Message:
            nonlocal size, is_whole
            if is_whole:  # what comes now is the client's end
                return await receive()
            try:
                async with asyncio.timeout_at(end):
                    message = await receive()
            except TimeoutError:
                raise HTTPException(408, "the request's body did not arrive in time") from None
            size += len(message.get("body", b""))
            is_whole = not message.get("more_body", False)
            if size > self._max_bytes:
                raise HTTPException(413, f"the body is longer than {self._max_bytes:,} bytes")
            return message

        async def with_status(message: Message) -> None:
            nonlocal status
            status = message.get("status", status)
            await send(message)

        try:
            await self._app(scope, limited, with_status)
        finally:
            path = getattr(scope.get("route"), "path", "other")
            self._metrics.requests.labels(path, status).inc()
            self._metrics.seconds.labels(path, status).observe(time.perf_counter() - start)


def application(models: Mapping[str, Served], options: ConfigDict) -> FastAPI:
    """Returns the service of models by their names; `options` are config.serve."""
    metrics, batchers = Metrics(), {}

    def batcher(name: str, count: int) -> Batcher:
        def translate(lines: list[str], numbers: list[int]) -> list[list[Hypothesis]]:
            metrics.lines.labels(name).observe(len(lines))
            return models[name].translate(lines, numbers, count)

        return Batcher(
            translate,
            workers=models[name].workers,
            batch_lines=options.batch_lines,
            wait=options.batch_wait,
        )

    def num_waiting() -> int:
        return sum(x.num_waiting() for x in batchers.values())

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        # A thread for each batch at a time, and one for the page.
        threads = 1 + sum(2 * model.workers for model in models.values())
        executor = concurrent.futures.ThreadPoolExecutor(threads)
        asyncio.get_running_loop().set_default_executor(executor)
        for name, model in models.items():
            for count in {1, model.num_hypotheses}:
                batchers[name, count] = batcher(name, count)
        metrics.waiting.set_function(num_waiting)
        yield
        for each in batchers.values():
            each.close()

    app = FastAPI(
        title="Translation",
        version=transformer.__version__,
        lifespan=lifespan,
        docs_url=None,  # these pages load scripts from elsewhere
        redoc_url=None,
        generate_unique_id_function=lambda route: route.name,
    )
    app.add_middleware(
        Guard,
        max_bytes=BYTES_PER_CHARACTER * (options.max_characters + options.max_lines) + 1024,
        timeout=options.timeout,
        metrics=metrics,
    )

    def submit(name: str, lines: list[str], count: int) -> list[asyncio.Future]:
        """Begins to translate; an HTTPException where a limit is exceeded."""
        name = name or next(iter(models))
        # JSON can spell half a surrogate pair, which is no text: it becomes '?', as in lines.py.
        lines = [line.encode("utf-8", "replace").decode() for line in lines]
        if name not in models:
            raise HTTPException(404, f"no model {name!r}: expected {', '.join(models)}")
        if sum(map(len, lines)) > options.max_characters:
            raise HTTPException(413, f"more than {quantity(options.max_characters, 'character')}")
        if max(map(len, lines), default=0) > options.max_line:
            most = quantity(options.max_line, "character")
            raise HTTPException(413, f"a line of more than {most}")
        if len(lines) > options.max_lines:
            raise HTTPException(413, f"more than {quantity(options.max_lines, 'line')}")
        if count > models[name].num_hypotheses:
            limit = models[name].num_hypotheses
            raise HTTPException(422, f"num_hypotheses must be at most {limit}, found {count}")
        if num_waiting() + len(lines) > options.max_waiting:
            raise HTTPException(503, "too many lines wait, try again", {"Retry-After": "1"})
        key = (name, 1 if count == 1 else models[name].num_hypotheses)
        return batchers[key].submit(lines)

    errors = {code: {"model": Error} for code in (400, 404, 408, 413, 415, 422, 500, 503, 504)}
    responses = {**errors, 200: {"content": {"application/x-ndjson": {}}}}  # the latter: a stream

    answer_model = {"response_model": TranslateAnswer, "response_model_exclude_none": True}

    @app.post("/translate", responses=responses, **answer_model)
    async def translate(asked: TranslateRequest, request: Request) -> Any:
        """Translates a text, or several."""
        texts = [asked.text] if isinstance(asked.text, str) else asked.text
        parts, count = [re.split("\r?\n", text) for text in texts], asked.num_hypotheses
        futures = submit(asked.model, [line for part in parts for line in part], count)
        if asked.stream:
            places = [(i, j) for i, part in enumerate(parts) for j in range(len(part))]
            lines = streamed(places, futures, count, options.timeout)
            return StreamingResponse(lines, media_type="application/x-ndjson")
        found = iter(await all_of(futures, request, options.timeout))
        several = [joined(list(itertools.islice(found, len(part))), count) for part in parts]
        answer = {"translations": [hypotheses[0]["text"] for hypotheses in several]}
        return answer | ({"hypotheses": several} if count > 1 else {})

    @app.head("/health", include_in_schema=False)
    @app.get("/health")
    async def health() -> dict[str, Any]:
        """Says that the service answers, and by which models."""
        return {"status": "ok", "models": list(models)}

    @app.get("/metrics", response_class=Response)
    async def metrics_text() -> Response:
        """Counts, times and sizes, for Prometheus."""
        text = prometheus_client.generate_latest(metrics.registry)
        return Response(text, media_type=prometheus_client.CONTENT_TYPE_LATEST)

    page_lock = asyncio.Lock()  # one page at a time: drawing is not what the service is for

    @app.get("/", response_class=HTMLResponse, include_in_schema=False)
    async def page(request: Request, text: str = "", model: str = "") -> str:
        name, text = model or next(iter(models)), " ".join(text.split())
        count = models[name].num_hypotheses if name in models else 1
        [hypotheses] = await all_of(submit(name, [text], count), request, options.timeout)
        try:
            async with asyncio.timeout(options.timeout), page_lock:
                return await asyncio.to_thread(models[name].page, text, hypotheses)
        except TimeoutError:
            raise HTTPException(504, "too many pages are asked for, try again") from None

    app.exception_handler(HTTPException)(
        lambda request, error: error_response(error.status_code, error.detail, error.headers)
    )
    app.exception_handler(RequestValidationError)(invalid)
    app.exception_handler(Exception)(lambda request, error: error_response(500, failure(error)))
    return app


async def all_of(futures: list[asyncio.Future], request: Request, timeout: float) -> list[Any]:
    """Returns all answers; drops lines in no batch yet if the client leaves or waits long."""

    async def collect() -> list[Any]:
        return [await future for future in futures]

    await request.body()  # of a GET, too: what comes after it is the client's end
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
    """Yields a line of JSON for each answer, in order; one with "error" is the last."""
    try:
        for (text, line), future in zip(places, futures, strict=True):
            hypotheses = joined([await asyncio.wait_for(future, timeout)], count)
            answer = {"text": text, "line": line, "translation": hypotheses[0]["text"]}
            answer |= {"hypotheses": hypotheses} if count > 1 else {}
            yield json.dumps(answer, ensure_ascii=False) + "\n"
    except TimeoutError:
        yield json.dumps({"error": f"not translated within {timeout:g} seconds"}) + "\n"
    except Exception as error:
        logging.exception("a line of a stream failed")
        yield json.dumps({"error": failure(error)}) + "\n"
    finally:
        drop(futures)


def drop(futures: list[asyncio.Future]) -> None:
    """Cancels what has no answer yet; an exception that nobody waits for is not logged."""
    for future in futures:
        if not future.cancel() and not future.cancelled():
            future.exception()


def failure(error: Exception) -> str:
    """Returns what a client is told of an exception, whose text is for the log alone."""
    return f"{type(error).__name__}: the log has more"


def joined(lines: list[list[Hypothesis]], count: int) -> list[dict[str, Any]]:
    """Joins the k-th hypotheses of a text's lines into the text's k-th, whose score is their sum.

    The line with the fewest hypotheses limits their number.
    """
    return [
        {"text": "\n".join(x.text for x in kth), "score": sum(x.score for x in kth)}
        for kth in zip(*(hypotheses[:count] for hypotheses in lines), strict=False)
    ]


def error_response(
    status: int, error: str, headers: Mapping[str, str] | None = None
) -> JSONResponse:
    """Returns an answer that says why there is none."""
    return JSONResponse({"error": error}, status, headers)


def invalid(request: Request, error: RequestValidationError) -> JSONResponse:
    """Returns an answer that names what is wrong in a request."""
    faults = error.errors()
    if "json" not in request.headers.get("content-type", ""):
        return error_response(415, "expected the header Content-Type: application/json")
    if faults[0]["type"] == "json_invalid":
        return error_response(400, f"the body is not JSON: {faults[0]['ctx']['error']}")
    # The first few alone: a long list can have as many faults as elements.
    faults = {".".join(map(str, x["loc"][1:2])) or "body": x["msg"] for x in faults[:20]}
    if faults.get("text", "Field required") != "Field required":
        faults["text"] = "must be a string or a list of strings"
    return error_response(
        422, "; ".join(f"{place}: {message}" for place, message in faults.items())
    )
