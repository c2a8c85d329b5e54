"""A guard as a service: features in, uncertainty, p, alarm and class out; drift and alarms for Prometheus.

Open Inference Protocol (KServe V2) over HTTP. Nothing in a request names a file; bodies are bounded in size and time.
"""

import asyncio
import os
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .. import __version__
from ..errors import SoftscopeError
from .guard import Guard
from .judging import judge
from .meters import CONTENT_TYPE, Meters
from .monitor import Monitor
from .protocol import JSON, error_body, metadata, read_request, response

if TYPE_CHECKING:
    from fastapi import FastAPI

BODY_BYTES, BODY_SECONDS = 1 << 24, 30.0
_ROWS_TOGETHER = 4096
_SAVE_EVERY = 10_000  # rows
_LENGTH = b"inference-header-content-length"


class Service:
    """A guard, its monitor, and what Prometheus reads of both."""

    def __init__(self, guard: Guard, *, rate: float = 0.01, state: str | os.PathLike[str] | None = None) -> None:
        self.guard, self._state = guard, state
        stored = state is not None and Path(state).exists()
        self.monitor = Monitor.load(state, guard) if stored and state is not None else guard.monitor(rate)
        self._lock = threading.Lock()
        self._unsaved = 0
        self.meters = Meters(guard, self.monitor)

    def judge(self, rows: NDArray) -> dict[str, NDArray]:
        """The outputs for rows in the order they came; those that could be scored also go to monitor and meters.

        A row that can't be scored has class -1.
        """
        judged = judge(self.guard, rows)
        good = ~judged.bad
        with self._lock:
            self.monitor.update_scores(judged.scores[good])
            self.meters.count(judged.classes[good], judged.alarms[good], judged.p_values[good])
            self._unsaved += len(rows)
            if self._unsaved >= _SAVE_EVERY:
                self._save()
        return {"uncertainty": judged.scores, "p": judged.p_values, "alarm": judged.alarms, "class": judged.classes}

    def close(self) -> None:
        """Keep the monitor's state, where there is a place for it."""
        with self._lock:
            self._save()

    def _save(self) -> None:
        self._unsaved = 0
        if self._state is not None:
            self.monitor.save(self._state)


class Batcher:
    """Judges the rows of all requests that wait together: one product for many clients."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._waiting: asyncio.Queue[tuple[NDArray, asyncio.Future[dict[str, NDArray]]]] = asyncio.Queue()

    async def judge(self, rows: NDArray) -> dict[str, NDArray]:
        """`Service.judge` of one request's rows, or a SoftscopeError that names one that can't be scored."""
        future: asyncio.Future[dict[str, NDArray]] = asyncio.get_running_loop().create_future()
        await self._waiting.put((rows, future))
        values = await future
        if (values["class"] < 0).any():
            row = int((values["class"] < 0).argmax())
            raise SoftscopeError(f"row {row} can't be scored", "Send finite features")
        return values

    async def run(self) -> None:
        """Work until cancelled."""
        while True:
            taken = [await self._waiting.get()]
            while not self._waiting.empty() and sum(len(rows) for rows, _ in taken) < _ROWS_TOGETHER:
                taken.append(self._waiting.get_nowait())
            for dtype in {rows.dtype for rows, _ in taken}:
                await self._judge([entry for entry in taken if entry[0].dtype == dtype])

    async def _judge(self, taken: list[tuple[NDArray, "asyncio.Future[dict[str, NDArray]]"]]) -> None:
        try:
            values = await asyncio.to_thread(self._service.judge, np.concatenate([rows for rows, _ in taken]))
        except Exception as error:
            for _, future in taken:
                if not future.done():
                    future.set_exception(error)
            return
        start = 0
        for rows, future in taken:
            if not future.done():
                future.set_result({name: value[start : start + len(rows)] for name, value in values.items()})
            start += len(rows)


class Inference:
    """ASGI middleware that answers POSTs to `path` itself; FastAPI's own layers would cost as much as the answer."""

    def __init__(self, app: Any, service: Service, batcher: Batcher, model: str, limits: tuple[int, float]) -> None:
        self._app, self._service, self._batcher, self._model = app, service, batcher, model
        self._path, self._features = f"/v2/models/{model}/infer", service.guard.head.n_features
        self._bytes, self._seconds = limits

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        """One request."""
        if scope["type"] != "http" or scope["path"] != self._path or scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        status, content, headers = await self._answer(dict(scope["headers"]).get(_LENGTH), receive)
        self._service.meters.requests[status] += 1
        headers = [*headers, (b"content-length", str(len(content)).encode())]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": content})

    async def _answer(self, length: bytes | None, receive: Any) -> tuple[int, bytes, list[tuple[bytes, bytes]]]:
        """Status, body and headers."""
        try:
            body = await _body(receive, self._bytes, self._seconds)
            asked = read_request(body, length, self._features)
            content, headers = response(self._model, asked, await self._batcher.judge(asked.rows))
            return 200, content, headers
        except _RefusedError as refused:
            return refused.status, error_body(str(refused)), [*JSON, (b"connection", b"close")]
        except SoftscopeError as error:
            return 400, error_body(str(error)), JSON


class _RefusedError(Exception):
    """A body that is not read to its end."""

    def __init__(self, status: int, what: str) -> None:
        super().__init__(what)
        self.status = status


async def _body(receive: Any, most: int, seconds: float) -> bytes:
    """The request's body, of at most `most` bytes and within `seconds`."""
    chunks: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(seconds):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise _RefusedError(400, "the connection was closed before the body ended")
                chunks.append(message.get("body", b""))
                size += len(chunks[-1])
                if size > most:
                    raise _RefusedError(413, f"more than {most} bytes")
                if not message.get("more_body", False):
                    return b"".join(chunks)
    except TimeoutError:
        raise _RefusedError(408, f"no body in {seconds:g} s") from None


def make_app(
    service: Service, name: str = "guard", *, body_bytes: int = BODY_BYTES, body_seconds: float = BODY_SECONDS
) -> "FastAPI":
    """The HTTP application."""
    from fastapi import FastAPI, Response

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        work = asyncio.create_task(batcher.run())
        yield
        work.cancel()
        service.close()

    # No pages for people: what is served is what is listed here.
    app = FastAPI(lifespan=lifespan, openapi_url=None, docs_url=None, redoc_url=None)
    batcher = Batcher(service)
    limits = (body_bytes, body_seconds)
    app.add_middleware(Inference, service=service, batcher=batcher, model=name, limits=limits)

    @app.get("/v2")
    async def server() -> dict[str, Any]:
        return {"name": "softscope", "version": __version__, "extensions": ["binary_tensor_data"]}

    @app.get("/v2/health/live")
    @app.get("/v2/health/ready")
    @app.get(f"/v2/models/{name}/ready")
    async def ready() -> dict[str, Any]:
        return {"live": True, "ready": True}

    @app.get(f"/v2/models/{name}")
    async def model() -> dict[str, Any]:
        return metadata(name, service.guard.head.n_features)

    @app.get("/metrics")
    async def metrics() -> Any:
        return Response(service.meters.text(), media_type=CONTENT_TYPE)

    return app


def serve(service: Service, host: str, port: int, name: str, **limits: Any) -> None:
    """Serve until SIGTERM or Ctrl-C: requests under way are answered, then the monitor is saved."""
    try:
        import fastapi  # noqa: F401
        import orjson  # noqa: F401
        import prometheus_client  # noqa: F401
        import uvicorn
    except ImportError as error:
        raise SoftscopeError(
            "fastapi, uvicorn, orjson and prometheus-client are needed", "pip install 'softscope[serve]'"
        ) from error
    uvicorn.run(
        make_app(service, name, **limits),
        host=host,
        port=port,
        log_level="warning",
        access_log=False,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=10,
        server_header=False,
        proxy_headers=False,
    )
