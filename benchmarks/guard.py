"""What a guard costs in production: inside a ResNet18, as a service on loopback, and watching a stream."""

import asyncio
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from softscope.guard import Guard
from softscope.head import Head

from .measuring import Cost, Row, measure, race

_CLIENTS, _CLASSES, _WIDTH = 50, 10, 512


def run(quick: bool = False) -> Iterator[Row]:
    """Density with 10 components on 512 features throughout."""
    yield _inside(quick)
    guard = _fitted(np.random.default_rng(1).normal(size=(_CLASSES, _WIDTH)).astype(np.float32))
    yield from _service(guard, 1_000 if quick else 100_000)
    yield _watching(guard, 10_000 if quick else 1_000_000)


def _fitted(weight: Any) -> Guard:
    rng = np.random.default_rng(0)
    labels = np.arange(9000) % _CLASSES
    z = np.abs(rng.normal(size=(9000, _WIDTH)) + labels[:, None] / 10).astype(np.float32)
    return Guard.fit(Head(weight), (z[:6000], labels[:6000]), z[6000:])


def _inside(quick: bool) -> Row:
    import torch

    net = _resnet18().eval()
    bare = _resnet18().eval()
    bare.load_state_dict(net.state_dict())
    guarded = _fitted(net[-1].weight.detach().numpy()).wrap(net).eval()
    pixels = 64 if quick else 224
    images = torch.randn(16, 3, pixels, pixels)
    with torch.no_grad():
        guarded(images), bare(images)
        ours, said, theirs, expected = race(lambda: guarded(images), lambda: bare(images), 2 if quick else 9)
    same = bool(torch.equal(said.logits, expected))
    work = f"ResNet18 with a guard inside, {pixels} px, batch 16"
    return Row(work, "the bare model", ours, theirs, target=1 / 1.05, same=same, check="logits equal")


def _resnet18() -> Any:
    from torch import nn, relu

    class Block(nn.Module):
        def __init__(self, width: int, wider: int, stride: int) -> None:
            super().__init__()
            first = nn.Conv2d(width, wider, 3, stride, 1, bias=False)
            second = nn.Conv2d(wider, wider, 3, 1, 1, bias=False)
            self.path = nn.Sequential(first, nn.BatchNorm2d(wider), nn.ReLU(), second, nn.BatchNorm2d(wider))
            side = nn.Sequential(nn.Conv2d(width, wider, 1, stride, bias=False), nn.BatchNorm2d(wider))
            self.side = nn.Identity() if stride == 1 and width == wider else side

        def forward(self, x: Any) -> Any:
            return relu(self.path(x) + self.side(x))

    stem = (nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1))
    sizes = ((64, 64, 1), (64, 64, 1), (64, 128, 2), (128, 128, 1), (128, 256, 2), (256, 256, 1), (256, 512, 2))
    blocks = [Block(*size) for size in (*sizes, (512, 512, 1))]
    return nn.Sequential(*stem, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(_WIDTH, _CLASSES))


def _service(guard: Guard, requests: int) -> Iterator[Row]:
    """`softscope guard serve` in a process of its own, after a tenth of the requests to warm up."""
    row = np.abs(np.random.default_rng(2).normal(size=_WIDTH)).astype(np.float32)
    entry = {"name": "z", "shape": [1, _WIDTH], "datatype": "FP32", "parameters": {"binary_data_size": row.nbytes}}
    head = json.dumps({"inputs": [entry]}).encode()
    with _server(guard) as (port, process):
        asyncio.run(_load(port, head, row.tobytes(), requests // 10))
        memory, before = process.memory_info().rss, process.cpu_times()
        begin = time.perf_counter()
        delays = asyncio.run(_load(port, head, row.tobytes(), requests))
        wall, after = time.perf_counter() - begin, process.cpu_times()
        grown = (process.memory_info().rss - memory) / 1e6
    cpu = after.user + after.system - before.user - before.system
    work = f"{requests:,} requests of one row, {_CLIENTS} clients on loopback"
    load = f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
    note = f"{requests / wall:,.0f} requests/s, {1000 * cpu / requests:.2f} ms of the server's CPU each; {load}"
    yield Row(work, "500 requests/s", Cost(wall, cpu), limit=requests / 500, by="wall", note=note)
    middle, late = np.quantile(delays, [0.5, 0.99])
    half = f"half within {middle:.3f} s"
    yield Row("answers: 99 % within", "250 ms", Cost(late, 0), limit=0.25, by="wall", note=half)
    yield Row("memory that the server gained", "10 MB", Cost(wall, cpu, grown), limit=10, by="peak_mb")


@contextmanager
def _server(guard: Guard) -> Iterator[tuple[int, psutil.Process]]:
    with tempfile.TemporaryDirectory() as folder, socket.socket() as free:
        guard.save(Path(folder) / "guard.safetensors")
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        free.close()
        words = ["guard", "serve", "guard.safetensors", "--port", str(port)]
        server = subprocess.Popen([sys.executable, "-m", "softscope", *words], cwd=folder, stderr=subprocess.DEVNULL)
        try:
            _ready(port)
            yield port, psutil.Process(server.pid)
        finally:
            server.terminate()
            server.wait()


def _ready(port: int) -> None:
    for _ in range(600):
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            time.sleep(0.1)


async def _load(port: int, head: bytes, tail: bytes, requests: int) -> list[float]:
    """Seconds to the answer of each request, from clients that send the next one when they have it."""
    size = len(head) + len(tail)
    lines = f"POST /v2/models/guard/infer HTTP/1.1\r\nHost: x\r\nContent-Length: {size}\r\n"
    message = f"{lines}Inference-Header-Content-Length: {len(head)}\r\n\r\n".encode() + head + tail
    delays: list[float] = []

    async def client(count: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for _ in range(count):
            begin = time.perf_counter()
            writer.write(message)
            answer = (await reader.readuntil(b"\r\n\r\n")).lower()
            assert answer.startswith(b"http/1.1 200"), answer
            await reader.readexactly(int(answer.split(b"\r\ncontent-length: ")[1].split(b"\r\n")[0]))
            delays.append(time.perf_counter() - begin)
        writer.close()

    await asyncio.gather(*(client(requests // _CLIENTS) for _ in range(_CLIENTS)))
    return delays


def _watching(guard: Guard, rows: int) -> Row:
    scores = np.random.default_rng(3).choice(guard.calibration.scores, rows)
    guard.monitor().update_scores(scores[:10])  # numba compiles, or reads its cache, before the clock starts
    ours, _ = measure(lambda: guard.monitor().update_scores(scores))
    return Row(
        f"a monitor over {rows:,} scores", "no peer", ours, note=f"{1e6 * ours.cpu / rows:.2f} microseconds each"
    )
