"""A bar for a scan: inputs per second, time left, and the best confidence so far."""

from typing import Any

import numpy as np

from ...progress import Bar
from .statistics import Statistics


class ScanBar(Bar):
    """Call it with (inputs done, statistics so far)."""

    def __init__(self, inputs: int, *, show: bool = True) -> None:
        super().__init__("scan", inputs, _columns, show=show, speed="", best="")

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


def _columns() -> tuple[Any, ...]:
    from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn

    speed, best = TextColumn("{task.fields[speed]}"), TextColumn("{task.fields[best]}")
    return BarColumn(), TaskProgressColumn(), speed, TimeRemainingColumn(), best
