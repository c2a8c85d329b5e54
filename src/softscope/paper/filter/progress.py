"""How far a scan is, with the best confidence so far."""

import numpy as np

from ...progress import Progress
from .scan import Watch
from .statistics import Statistics


def told(progress: Progress, inputs: int) -> Watch:
    """A watch of a scan over so many inputs that tells `progress`."""

    def watch(done: int, statistics: Statistics) -> None:
        progress(f"scan, most confident {percent(float(statistics.odds.max()))}", done, inputs)

    return watch


def percent(log_odds: float) -> str:
    """The confidence as a percentage that never rounds up to 100: 99.9988 %."""
    if log_odds == -np.inf:
        return "none"
    doubt = max(1.0 / (1.0 + np.exp(min(log_odds, 80.0))), 1e-13)  # smaller would be lost beside 100
    digits = max(1, int(np.ceil(-np.log10(doubt))))
    return f"{np.floor((100 - 100 * doubt) * 10**digits) / 10**digits:.{digits}f} %"
