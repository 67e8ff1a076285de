"""Middleware for all requests: limits of the body, and metrics."""

import asyncio
import time

import prometheus_client
from prometheus_client import Counter, Gauge, Histogram
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send


class Metrics:
    """The metrics of /metrics, for Prometheus, including this process's."""

    def __init__(self):
        self.registry = prometheus_client.CollectorRegistry()
        prometheus_client.ProcessCollector(registry=self.registry)
        base = {"namespace": "transformer", "registry": self.registry}
        labels = ["path", "status"]
        self.requests = Counter("requests", "Requests answered", labels, **base)
        about = "Time to the end of an answer"
        buckets = [*(0.01 * 2**k for k in range(13)), float("inf")]  # 0.01, 0.02, ... 41 seconds
        self.seconds = Histogram("request_duration_seconds", about, labels, buckets=buckets, **base)
        powers = [4**k for k in range(7)]
        self.lines = Histogram("batch_lines", "Lines in a batch", ["model"], buckets=powers, **base)
        self.waiting = Gauge("waiting_lines", "Lines in no batch yet", **base)


class Guard:
    """Limits the body of each request, in bytes and in seconds, and counts and times requests."""

    def __init__(self, app: ASGIApp, *, max_bytes: int, timeout: float, metrics: Metrics):
        self._app, self._max_bytes, self._timeout = app, max_bytes, timeout
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        start = time.perf_counter()
        end = asyncio.get_running_loop().time() + self._timeout
        size, is_whole = 0, False  # bytes of the body so far; whether all have arrived
        status = 500  # of a request that fails before its answer begins

        async def limited() -> Message:
            nonlocal size, is_whole
            if is_whole:  # the next message is the disconnect
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
