"""A bar for a scan on stderr: inputs per second, time left, and the best confidence so far."""

import sys
from types import TracebackType
from typing import Self

import numpy as np

from .statistics import Statistics


class ScanBar:
    """Call it with (inputs done, statistics so far); shows nothing unless `show` and stderr is a terminal."""

    def __init__(self, inputs: int, *, show: bool = True) -> None:
        self._bar = None
        if show and sys.stderr.isatty():
            from rich import progress
            from rich.console import Console

            columns = (
                progress.BarColumn(),
                progress.TaskProgressColumn(),
                progress.TextColumn("{task.fields[speed]}"),
                progress.TimeRemainingColumn(),
                progress.TextColumn("{task.fields[best]}"),
            )
            self._bar = progress.Progress(*columns, console=Console(stderr=True), transient=True)
            self._task = self._bar.add_task("scan", total=inputs, speed="", best="")

    def __enter__(self) -> Self:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def __call__(self, done: int, found: Statistics) -> None:
        if self._bar is None:
            return
        speed = self._bar.tasks[0].speed
        shown = "" if speed is None else f"{speed / 1e6:.2f} M inputs/s"
        best = f"most confident {percent(float(found.odds.max()))}"
        self._bar.update(self._task, completed=done, speed=shown, best=best)


def percent(log_odds: float) -> str:
    """The confidence as a percentage that never rounds up to 100: 99.9988 %."""
    if log_odds == -np.inf:
        return "none"
    doubt = max(1.0 / (1.0 + np.exp(min(log_odds, 80.0))), 1e-13)  # smaller would be lost beside 100
    digits = max(1, int(np.ceil(-np.log10(doubt))))
    return f"{np.floor((100 - 100 * doubt) * 10**digits) / 10**digits:.{digits}f} %"
