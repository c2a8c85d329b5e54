"""The scan: a range of input numbers through a network, on threads, in shards, from where it was stopped.

    statistics = scan(scanned(net), seed=0, stop=2**27, threads=2)

The bits of the result depend on network, seed and range alone: not on threads, shards, or where it was interrupted.
`run_scan` is a scan as its user sees it: a bar, a picture of the finds renewed while it runs, and a summary.
"""

import os
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ...canonical import fingerprint
from ...engine import Engine, limited_threads
from ...errors import SoftscopeError
from ...files import read_safetensors, write_safetensors
from ...progress import Progress, bar
from ...provenance import cores
from ...runs import Draft, Run, StepResult, Store
from .networks import Scanned
from .statistics import QUANTITIES, ScanStatistics, exact_binomial, log_odds_of, percent

if TYPE_CHECKING:
    from rich.table import Table

BLOCK = 1 << 18  # inputs a thread takes at once: a fraction of a second
CHECKPOINT_SECONDS = 5.0
SHARDS = 64  # on a cluster
LEVELS = (0.5, 0.9, 0.99, 0.999, 0.9999)
_PICTURE_SECONDS = 10.0
Watch = Callable[[int, ScanStatistics], None]  # how many inputs are done, and what they gave so far


@dataclass(frozen=True)
class Range:
    """The inputs `start` to `stop` of `seed`, and how many finds to keep of each class."""

    seed: int
    start: int
    stop: int
    top: int = 5

    def __post_init__(self) -> None:
        if not 0 <= self.start < self.stop <= 1 << 63 or self.start % BLOCK:
            raise SoftscopeError(
                f"inputs {self.start} to {self.stop}: not a range to scan",
                f"Start at a multiple of {BLOCK}, stop after it",
            )
        if self.top < 1:
            raise SoftscopeError(f"{self.top} finds of each class", "Keep at least 1")

    def shards(self, count: int) -> "list[Range]":
        """The same inputs in at most `count` parts of whole blocks."""
        blocks = -(-(self.stop - self.start) // BLOCK)
        cuts = [self.start + BLOCK * (blocks * i // count) for i in range(count)] + [self.stop]
        return [Range(self.seed, a, b, self.top) for a, b in pairwise(cuts) if a < b]


def scan(
    network: Scanned,
    what: Range,
    *,
    threads: int | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    watch: Watch | None = None,
) -> ScanStatistics:
    """Statistics of `what`; with `checkpoint`, a file, a second call continues where the first was killed."""
    if threads is not None and threads < 1:
        raise SoftscopeError(f"a scan can't run on {threads} threads", "Use at least 1")
    path = None if checkpoint is None else Path(checkpoint)
    owner = fingerprint([what.seed, what.start, what.stop, what.top, network.digest])
    statistics, at = _resumed(path, owner, ScanStatistics.empty(network.classes, what.top), what.start)
    saved = time.monotonic()
    with limited_threads(1):  # each of our threads multiplies its own small matrices
        for stop, part in _blocks(network, what, at, threads or cores()):
            statistics.merge(part)
            if watch is not None:
                watch(stop - what.start, statistics)
            if path is not None and time.monotonic() - saved > CHECKPOINT_SECONDS:
                write_safetensors(path, statistics.to_tensors(), {"owner": owner, "next": str(stop)})
                saved = time.monotonic()
    return statistics


def told(progress: Progress, inputs: int) -> Watch:
    """A watch of a scan over so many inputs that tells `progress`."""

    def watch(done: int, statistics: ScanStatistics) -> None:
        progress(f"scan, most confident {percent(float(statistics.odds.max()))}", done, inputs)

    return watch


def scan_in_store(
    run: Run, network: Scanned, what: Range, engine: Engine, *, threads: int | None = None, watch: Watch | None = None
) -> tuple[ScanStatistics, float]:
    """Statistics of `what` and the wall seconds behind them, in steps of `run` that resume; on Ray in shards.

    `watch` sees the scan only where it runs in this process.
    """
    if engine.name == "local":
        steps = [_stored(run, network, cores() if threads is None else threads, watch, what)]
    else:
        work = partial(_stored, run, network, 1, None)
        steps = engine.map(work, what.shards(SHARDS), threads=1, label="shards")
    whole = ScanStatistics.empty(network.classes, what.top)
    for step in steps:
        whole.merge(ScanStatistics.from_tensors(step.tensors("statistics")))
    return whole, sum(float(step.provenance.get("seconds", 0.0)) for step in steps)


@dataclass(frozen=True)
class ScanSummary:
    """What a scan found, in words and as plain values; `seconds` is its wall time, whenever it ran."""

    what: Range
    names: tuple[str, ...]
    statistics: ScanStatistics
    seconds: float

    def to_dict(self) -> dict[str, Any]:
        """Plain values: finds, shares with their exact 95 % intervals, quantiles, time."""
        statistics = self.statistics
        shares = (0.01, 0.25, 0.5, 0.75, 0.99)
        return {
            "inputs": statistics.inputs,
            "seed": self.what.seed,
            "seconds": self.seconds,
            "inputs_per_second": statistics.inputs / max(self.seconds, 1e-9),
            "above": [{"confidence": p, **statistics.share_above(log_odds_of(p)).to_dict()} for p in LEVELS],
            "quantiles": {q: {f"{s:g}": statistics.quantile(q, s).value for s in shares} for q in QUANTITIES},
            "classes": [self._class(k) for k in range(statistics.classes)],
        }

    def table(self) -> "Table":
        """One line per class: how much of the space it gets, and its most confident input."""
        from rich.box import SIMPLE_HEAD
        from rich.table import Table
        from rich.text import Text

        shown = Table("class", "share of inputs", "most confident", "input number", box=SIMPLE_HEAD)
        for name, k in zip(self.names, range(self.statistics.classes)):
            own = self.statistics.predicted[k] / self.statistics.inputs
            best, number = self.statistics.odds[k, 0], self.statistics.numbers[k, 0]
            reached = best > -np.inf
            shown.add_row(Text(name), f"{own:.2%}", percent(float(best)), f"{number:,}" if reached else "")
        return shown

    def summary(self) -> str:
        """Shares of the space above confidences, and the speed."""
        parts = (f"{self.statistics.share_above(log_odds_of(p)):.2e} above {p:g}" for p in LEVELS)
        speed = self.statistics.inputs / max(self.seconds, 1e-9) / 1e6
        return "\n".join(
            [f"{self.statistics.inputs:,} inputs in {self.seconds:.1f} s ({speed:.2f} M/s); share [95 %]:", *parts]
        )

    def _class(self, k: int) -> dict[str, Any]:
        statistics = self.statistics
        finds = [
            {"number": int(number), "log_odds": float(odds)}
            for number, odds in zip(statistics.numbers[k], statistics.odds[k])
            if odds > -np.inf
        ]
        share = exact_binomial(int(statistics.predicted[k]), statistics.inputs).to_dict()
        return {"name": self.names[k], "share": share, "finds": finds}


def run_scan(
    network: Scanned,
    what: Range,
    store: Store,
    engine: Engine,
    *,
    names: Sequence[str],
    draw: Callable[[ScanStatistics], None],
    threads: int | None = None,
) -> ScanSummary:
    """Scan in the store, with a bar and with `draw` called every few seconds; resumes what was stopped."""
    drawn = time.monotonic()
    with bar(show=engine.progress) as progress:
        tell = told(progress, what.stop - what.start)

        def watch(done: int, statistics: ScanStatistics) -> None:
            nonlocal drawn
            tell(done, statistics)
            if time.monotonic() - drawn > _PICTURE_SECONDS:
                draw(statistics)
                drawn = time.monotonic()

        run = store.run({"network": network.digest, "seed": what.seed}, kind="filter")
        statistics, seconds = scan_in_store(run, network, what, engine, threads=threads, watch=watch)
    draw(statistics)
    return ScanSummary(what, tuple(names), statistics, seconds)


def _stored(run: Run, network: Scanned, threads: int, watch: Watch | None, what: Range) -> StepResult:
    def produce(draft: Draft) -> None:
        checkpoint = draft.scratch / "scan.safetensors"
        statistics = scan(network, what, threads=threads, checkpoint=checkpoint, watch=watch)
        draft.tensors(statistics.to_tensors(), "statistics")

    inputs = {"network": network.digest, "seed": what.seed, "top": what.top}
    return run.step(f"scan-{what.start}-{what.stop}", produce, inputs=inputs)


def _blocks(network: Scanned, what: Range, at: int, threads: int) -> Iterator[tuple[int, ScanStatistics]]:
    """(stop, statistics) of each block in order, with `threads` at work and little waiting to be taken."""
    starts = iter(range(at, what.stop, BLOCK))
    waiting: deque[tuple[int, Future[ScanStatistics]]] = deque()
    with ThreadPoolExecutor(threads) as pool:
        try:
            while True:
                while len(waiting) < 2 * threads and (start := next(starts, None)) is not None:
                    stop = min(start + BLOCK, what.stop)
                    waiting.append((stop, pool.submit(_block, network, what, start, stop)))
                if not waiting:
                    return
                stop, future = waiting.popleft()
                yield stop, future.result()
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _block(network: Scanned, what: Range, start: int, stop: int) -> ScanStatistics:
    part = ScanStatistics.empty(network.classes, what.top)
    network.scan(what.seed, start, stop, part)
    return part


def _resumed(path: Path | None, owner: str, empty: ScanStatistics, start: int) -> tuple[ScanStatistics, int]:
    """What the checkpoint holds if it is whole and of this very scan, else nothing."""
    if path is None or not path.exists():
        return empty, start
    try:
        tensors, metadata = read_safetensors(path)
    except SoftscopeError:
        return empty, start
    if metadata.get("owner") != owner:
        return empty, start
    return ScanStatistics.from_tensors(tensors), int(metadata["next"])
