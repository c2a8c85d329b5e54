"""A scan as its user sees it: a bar, a picture of the finds renewed while it runs, and a report."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ...engine import Engine
from ...files import writable_folder, write_bytes
from ...progress import bar
from ...runs import Store
from . import inputs
from .networks import Folded, Scanned
from .progress import percent, told
from .scan import Range, scan_in_store
from .statistics import QUANTITIES, Statistics, exact_binomial, log_odds_of

if TYPE_CHECKING:
    from rich.table import Table

LEVELS = (0.5, 0.9, 0.99, 0.999, 0.9999)
_PICTURE_SECONDS = 10.0


@dataclass(frozen=True)
class Report:
    """What a scan found, in words and as plain values; `seconds` is its wall time, whenever it ran."""

    what: Range
    names: tuple[str, ...]
    statistics: Statistics
    seconds: float

    def to_dict(self) -> dict[str, Any]:
        """Plain values: finds, shares with their exact 95 % intervals, quantiles, time."""
        found = self.statistics
        shares = (0.01, 0.25, 0.5, 0.75, 0.99)
        return {
            "inputs": found.inputs,
            "seed": self.what.seed,
            "seconds": self.seconds,
            "inputs_per_second": found.inputs / max(self.seconds, 1e-9),
            "above": [{"confidence": p, **found.share_above(log_odds_of(p)).to_dict()} for p in LEVELS],
            "quantiles": {q: {f"{s:g}": found.quantile(q, s).value for s in shares} for q in QUANTITIES},
            "classes": [self._class(k) for k in range(found.classes)],
        }

    def table(self) -> "Table":
        """A line a class: how much of the space it gets, and its most confident input."""
        from rich.box import SIMPLE_HEAD
        from rich.table import Table
        from rich.text import Text

        shown = Table("class", "share of inputs", "most confident", "input number", box=SIMPLE_HEAD)
        for name, k in zip(self.names, range(self.statistics.classes)):
            own = self.statistics.predicted[k] / self.statistics.inputs
            best, number = self.statistics.odds[k, 0], self.statistics.numbers[k, 0]
            found = best > -np.inf
            shown.add_row(Text(name), f"{own:.2%}", percent(float(best)), f"{number:,}" if found else "")
        return shown

    def summary(self) -> str:
        """Shares of the space above confidences, and the speed."""
        parts = (f"{self.statistics.share_above(log_odds_of(p)):.2e} above {p:g}" for p in LEVELS)
        speed = self.statistics.inputs / max(self.seconds, 1e-9) / 1e6
        return "\n".join(
            [f"{self.statistics.inputs:,} inputs in {self.seconds:.1f} s ({speed:.2f} M/s); share [95 %]:", *parts]
        )

    def _class(self, k: int) -> dict[str, Any]:
        found = self.statistics
        finds = [
            {"number": int(number), "log_odds": float(odds)}
            for number, odds in zip(found.numbers[k], found.odds[k])
            if odds > -np.inf
        ]
        share = exact_binomial(int(found.predicted[k]), found.inputs).to_dict()
        return {"name": self.names[k], "share": share, "finds": finds}


def run_scan(
    network: Scanned,
    what: Range,
    store: Store,
    engine: Engine,
    *,
    names: Sequence[str],
    picture: Path,
    threads: int | None = None,
) -> Report:
    """Scan in the store, with a bar and with `picture` renewed every few seconds; resumes what was stopped."""
    writable_folder(picture.parent)  # before hours of work, not after
    drawn = time.monotonic()
    with bar(show=engine.progress) as progress:
        tell = told(progress, what.stop - what.start)

        def watch(done: int, found: Statistics) -> None:
            nonlocal drawn
            tell(done, found)
            if time.monotonic() - drawn > _PICTURE_SECONDS:
                _draw(network, what, found, names, picture)
                drawn = time.monotonic()

        run = store.run({"network": network.digest, "seed": what.seed}, kind="filter")
        found, seconds = scan_in_store(run, network, what, engine, threads=threads, watch=watch)
    _draw(network, what, found, names, picture)
    return Report(what, tuple(names), found, seconds)


def _draw(network: Scanned, what: Range, found: Statistics, names: Sequence[str], picture: Path) -> None:
    from ...reporting.style import to_png
    from ..plots.filter import finds_figure

    images = inputs.images(what.seed, found.numbers.ravel(), network.shape)
    images = images.reshape(*found.numbers.shape, *network.shape)
    remark = f"Most confident of {found.inputs:,} inputs drawn uniformly"
    visible = 8 if isinstance(network, Folded) else None
    write_bytes(picture, to_png(finds_figure(images, found.odds, names, remark, visible)))
