"""`softscope score` over 10^5 to 5 10^7 rows of 64 features: cost by rows, memory, and Ray beside the local engine."""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
import psutil

from softscope.engine import ENGINES
from softscope.guard import Guard
from softscope.head import Head
from softscope.provenance import cores

from .measuring import Cost, Row

_CLASSES, _WIDTH, _FILE = 10, 64, 100_000
_SIZES = (10**5, 10**6, 10**7, 5 * 10**7)
_LINEAR, _OVERHEAD, _MEMORY = 1.25, 1.15, 1.25  # a row may cost, Ray take, and memory grow by so much


def run(quick: bool = False) -> Iterator[Row]:
    """A guard on a density of 10 full components; files of 100,000 rows (25.6 MB), about 5 to a unit of work."""
    sizes = (10**5, 5 * 10**5, 10**6) if quick else _SIZES
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _write_inputs(folder, max(sizes))
        costs = {rows: _scored(folder, rows, "local") for rows in sizes}
        on_ray = {rows: _scored(folder, rows, "ray") for rows in (sizes[1], sizes[-1])}
        same = _manifest(folder, sizes[-1], "local") == _manifest(folder, sizes[-1], "ray")
    yield from _sizes(costs)
    yield from _ray(costs, on_ray, same)


def _sizes(costs: dict[int, Cost]) -> Iterator[Row]:
    """Linear in rows: one more row costs as much among many as among few, and memory stays."""
    sizes = list(costs)
    for rows, cost in costs.items():
        yield Row(f"{rows:,} rows, {cores()} workers", "no peer", cost, note=f"{cost.wall:.0f} s")
    # The fewest rows are one unit, which one worker does: what two workers cost begins with the next size.
    steps = list(pairwise(sizes[1:]))
    for less, more in steps:
        one, other = _marginal(costs, less, more), _marginal(costs, *steps[0])
        yield Row(
            f"one more row, {less:,} to {more:,}",
            "one more row, {:,} to {:,}".format(*steps[0]),
            one,
            other,
            target=1 / _LINEAR,
            note=f"{1 / one.cpu:,.0f} rows per second of a core's time",
        )
        work = f"memory of all processes, {more:,} rows"
        yield Row(work, f"{less:,} rows", costs[more], costs[less], target=1 / _MEMORY, by="peak_mb")


def _ray(costs: dict[int, Cost], on_ray: dict[int, Cost], same: bool) -> Iterator[Row]:
    """Ray on this machine alone, its start included, and for one more row."""
    few, many = on_ray
    walls = " and ".join(f"{cost.wall:.0f} s" for cost in (on_ray[many], costs[many]))
    yield Row(
        f"{many:,} rows on Ray, {cores()} workers",
        "the local engine",
        on_ray[many],
        costs[many],
        target=1 / _OVERHEAD,
        same=same,
        check="names, rows and alarms of all outputs equal",
        note=f"{walls}; start and end of Ray and {few:,} rows: {on_ray[few].cpu:.1f} s; "
        f"load average of the machine meanwhile {os.getloadavg()[2]:.0f}",
    )
    ours, theirs = (_marginal(each, few, many) for each in (on_ray, costs))
    yield Row(f"one more row on Ray, {few:,} to {many:,}", "the local engine", ours, theirs, target=1 / _OVERHEAD)


def _write_inputs(folder: Path, rows: int) -> None:
    rng = np.random.default_rng(0)
    weight = rng.normal(size=(_CLASSES, _WIDTH)).astype(np.float32)

    def draw(count: int) -> tuple[np.ndarray, np.ndarray]:
        labels = rng.integers(0, _CLASSES, count)
        return weight[labels] + rng.standard_normal((count, _WIDTH), np.float32), labels

    Guard.fit(Head(weight), draw(6000), draw(3000)[0], "density").save(folder / "guard.safetensors")
    for number in range(rows // _FILE):
        np.save(folder / f"{number:05}.npy", draw(_FILE)[0])


def _scored(folder: Path, rows: int, engine: str) -> Cost:
    """The command in a process of its own; CPU seconds and memory of it and of all that it starts, Ray's included."""
    inputs = folder / f"in-{rows}"
    inputs.mkdir(exist_ok=True)
    for number in range(rows // _FILE):
        link = inputs / f"{number:05}.npy"
        if not link.exists():
            os.link(folder / link.name, link)
    words = ["score", inputs, "--guard", folder / "guard.safetensors", "-o", _output(folder, rows, engine), "-q"]
    command = [sys.executable, "-m", "softscope", *map(str, words), "--engine", engine, "--workers", str(cores())]
    begin = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    cpu, memory = _watched(process)
    assert process.returncode in (0, 3), command
    return Cost(time.perf_counter() - begin, cpu, memory)


def _watched(process: "subprocess.Popen[bytes]") -> tuple[float, float]:
    """CPU seconds and the most MB of a process and all below it, looked at ten times a second until it ends."""
    spent: dict[tuple[int, float], float] = {}
    most = 0.0
    root = psutil.Process(process.pid)
    while process.poll() is None:
        now = 0.0
        for one in [root, *_below(root)]:
            try:
                times, memory = one.cpu_times(), one.memory_info()
            except psutil.Error:
                continue
            spent[one.pid, one.create_time()] = times.user + times.system
            now += memory.rss - memory.shared  # what is its own: Ray's store and mapped files are counted nowhere twice
        most = max(most, now / 1e6)
        time.sleep(0.1)
    return sum(spent.values()), most


def _below(root: psutil.Process) -> list[psutil.Process]:
    try:
        children: list[psutil.Process] = root.children(recursive=True)
        return children
    except psutil.Error:
        return []


def _marginal(costs: dict[int, Cost], less: int, more: int) -> Cost:
    """What one more row costs: the start of processes is in both sizes, and goes."""
    step = more - less
    return Cost((costs[more].wall - costs[less].wall) / step, (costs[more].cpu - costs[less].cpu) / step)


def _output(folder: Path, rows: int, engine: str) -> Path:
    assert engine in ENGINES
    return folder / f"out-{engine}-{rows}"


def _manifest(folder: Path, rows: int, engine: str) -> list[object]:
    said = json.loads((_output(folder, rows, engine) / "_manifest.json").read_text())
    return [said[name] for name in ("rows", "bad", "alarms", "files")]
