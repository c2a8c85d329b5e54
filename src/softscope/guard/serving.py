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
from .guard import Guard, judged
from .monitor import Monitor
from .protocol import metadata, read_request, response

if TYPE_CHECKING:
    from fastapi import FastAPI

BODY_BYTES, BODY_SECONDS = 1 << 24, 30.0
_ROWS_TOGETHER = 4096
_SAVE_EVERY = 10_000  # rows
_P_EDGES = (0.001, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)


class Service:
    """A guard, its monitor, and what Prometheus reads of both."""

    def __init__(self, guard: Guard, *, rate: float = 0.01, state: str | os.PathLike[str] | None = None) -> None:
        self.guard, self._state = guard, state
        stored = state is not None and Path(state).exists()
        self.monitor = Monitor.load(state, guard) if stored and state is not None else guard.monitor(rate)
        self._lock = threading.Lock()
        self._unsaved = 0
        self.meters = Meters(guard)
        self.meters.drift(self.monitor)

    def judge(self, rows: NDArray) -> dict[str, NDArray]:
        """The outputs for rows in the order they came; those that could be scored also go to monitor and meters.

        A row that can't be scored has class -1.
        """
        scores, classes = judged(self.guard, rows)
        good = np.flatnonzero(classes >= 0)
        groups = classes[good] if self.guard.per_class else np.zeros(len(good), np.int64)
        p_values, alarms = np.zeros(len(rows)), np.ones(len(rows), bool)
        p_values[good] = self.guard.calibration.p_values(scores[good], groups)
        alarms[good] = self.guard.alarming(p_values[good], groups)
        with self._lock:
            self.monitor.update_scores(scores[good])
            self.meters.count(classes[good], alarms[good], p_values[good])
            self.meters.drift(self.monitor)
            self._unsaved += len(rows)
            if self._unsaved >= _SAVE_EVERY:
                self._save()
        return {"uncertainty": scores, "p": p_values, "alarm": alarms, "class": classes}

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


class Meters:
    """Counters for Prometheus, all called softscope_...."""

    def __init__(self, guard: Guard) -> None:
        from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info

        self.registry = CollectorRegistry()
        names = [guard.head.class_name(number) for number in range(guard.head.n_classes)]
        inputs = Counter("softscope_inputs", "Inputs judged, by predicted class.", ["class"], registry=self.registry)
        alarms = Counter("softscope_alarms", "Alarms, by predicted class.", ["class"], registry=self.registry)
        self._inputs = [inputs.labels(name) for name in names]
        self._alarms = [alarms.labels(name) for name in names]
        self._p = Histogram("softscope_p_value", "p-values of inputs.", buckets=_P_EDGES, registry=self.registry)
        self.requests = Counter("softscope_requests", "Requests, by HTTP status.", ["status"], registry=self.registry)
        self._evidence = Gauge(
            "softscope_drift_evidence_log10", "Largest evidence of a change so far, log10.", registry=self.registry
        )
        self._alarm = Gauge("softscope_drift_alarm", "1 from the drift alarm on.", registry=self.registry)
        promised = Gauge("softscope_promised_false_alarms", "The promised rate.", registry=self.registry)
        promised.set(guard.false_alarms)
        Info("softscope_guard", "The guard in service.", registry=self.registry).info(
            {"sha256": guard.sha256, "estimator": guard.estimator.info.name, "softscope": __version__}
        )

    def count(self, classes: NDArray[np.int64], alarms: NDArray[np.bool_], p_values: NDArray) -> None:
        """One request's inputs."""
        for number in np.unique(classes):
            own = classes == number
            self._inputs[number].inc(int(own.sum()))
            self._alarms[number].inc(int(alarms[own].sum()))
        for value in p_values.tolist():
            self._p.observe(value)

    def drift(self, monitor: Monitor) -> None:
        """The monitor's evidence."""
        evidence = monitor.evidence
        self._evidence.set(evidence.log_largest / np.log(10))
        self._alarm.set(int(evidence.alarm))

    def text(self) -> bytes:
        """All meters as Prometheus reads them."""
        from prometheus_client import generate_latest

        return generate_latest(self.registry)


def make_app(
    service: Service, name: str = "guard", *, body_bytes: int = BODY_BYTES, body_seconds: float = BODY_SECONDS
) -> "FastAPI":
    """The HTTP application."""
    from fastapi import FastAPI, Request, Response
    from fastapi.responses import JSONResponse

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        work = asyncio.create_task(batcher.run())
        yield
        work.cancel()
        service.close()

    # No pages for people: what is served is what is listed here.
    app = FastAPI(lifespan=lifespan, openapi_url=None, docs_url=None, redoc_url=None)
    features = service.guard.head.n_features
    batcher = Batcher(service)

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
        return metadata(name, features)

    @app.get("/metrics")
    async def metrics() -> Response:
        return Response(service.meters.text(), media_type="text/plain; version=0.0.4; charset=utf-8")

    async def infer(request: Request) -> Response:
        body = await _body(request, body_bytes, body_seconds)
        if isinstance(body, int):
            status, what = body, {413: f"more than {body_bytes} bytes", 408: f"no body in {body_seconds:g} s"}[body]
            return JSONResponse({"error": what}, status, headers={"Connection": "close"})
        try:
            asked = read_request(body, request.headers.get("inference-header-content-length"), features)
            values = await batcher.judge(asked.rows)
        except SoftscopeError as error:
            return JSONResponse({"error": str(error)}, 400)
        content, headers = response(name, asked, values)
        return Response(content, headers=headers)

    @app.post(f"/v2/models/{name}/infer")
    async def counted(request: Request) -> Response:
        answer = await infer(request)
        service.meters.requests.labels(str(answer.status_code)).inc()
        return answer

    # FastAPI reads annotations by name, and these names live in this function.
    counted.__annotations__ = {"request": Request, "return": Response}
    return app


async def _body(request: Any, most: int, seconds: float) -> bytes | int:
    """The request's body, or the HTTP status to refuse it with."""
    chunks: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(seconds):
            async for chunk in request.stream():
                size += len(chunk)
                if size > most:
                    return 413
                chunks.append(chunk)
    except TimeoutError:
        return 408
    return b"".join(chunks)


def serve(service: Service, host: str, port: int, name: str, **limits: Any) -> None:
    """Serve until SIGTERM or Ctrl-C: requests under way are answered, then the monitor is saved."""
    try:
        import fastapi  # noqa: F401
        import prometheus_client  # noqa: F401
        import uvicorn
    except ImportError as error:
        raise SoftscopeError(
            "fastapi, uvicorn and prometheus-client are needed", "pip install 'softscope[serve]'"
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
    )
