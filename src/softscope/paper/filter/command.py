"""A scan as its user sees it: a bar, a picture of the finds renewed while it runs, and a summary."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ...engine import Engine
from ...progress import bar
from ...runs import Store
from .networks import Scanned
from .scan import Range, scan_in_store, told
from .statistics import QUANTITIES, Statistics, exact_binomial, log_odds_of, percent

if TYPE_CHECKING:
    from rich.table import Table

LEVELS = (0.5, 0.9, 0.99, 0.999, 0.9999)
_PICTURE_SECONDS = 10.0


@dataclass(frozen=True)
class ScanSummary:
    """What a scan found, in words and as plain values; `seconds` is its wall time, whenever it ran."""

    what: Range
    names: tuple[str, ...]
    statistics: Statistics
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
    draw: Callable[[Statistics], None],
    threads: int | None = None,
) -> ScanSummary:
    """Scan in the store, with a bar and with `draw` called every few seconds; resumes what was stopped."""
    drawn = time.monotonic()
    with bar(show=engine.progress) as progress:
        tell = told(progress, what.stop - what.start)

        def watch(done: int, statistics: Statistics) -> None:
            nonlocal drawn
            tell(done, statistics)
            if time.monotonic() - drawn > _PICTURE_SECONDS:
                draw(statistics)
                drawn = time.monotonic()

        run = store.run({"network": network.digest, "seed": what.seed}, kind="filter")
        statistics, seconds = scan_in_store(run, network, what, engine, threads=threads, watch=watch)
    draw(statistics)
    return ScanSummary(what, tuple(names), statistics, seconds)
