"""What a scan keeps of its inputs: whole numbers and the finds, so that parts merge to the same bits in any order.

Per predicted class: a histogram of the log-odds of the largest probability, log(p / (1 - p)) (E1 without saturation,
larger = more confident), of U_entropy (E2), norm(z) and max cos; and the k most confident inputs with their numbers.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...arrays import Floats
from ...errors import SoftscopeError
from ...metrics import Interval

QUANTITIES = ("log_odds", "entropy", "norm", "cosine")
BINS = {"log_odds": 16384, "entropy": 512, "norm": 512, "cosine": 512}
STARTS = np.concatenate([[0], np.cumsum(list(BINS.values()))]).astype(np.int64)
_ODDS_LOW, _ODDS_WIDTH = -4.0, 1 / 256


def scales(classes: int) -> Floats:
    """Low end and bins per unit of log-odds, entropy and cosine, for `compiled.collect`."""
    return np.array(
        [[_ODDS_LOW, 1 / _ODDS_WIDTH], [0.0, BINS["entropy"] / np.log(classes)], [-1.0, BINS["cosine"] / 2]]
    )


def edges(quantity: str, classes: int) -> Floats:
    """The bins' edges; what lies outside is counted in the first or last bin."""
    steps = np.arange(BINS[quantity] + 1)
    if quantity == "norm":
        # Even steps within an octave, 32 of them: the leading bits of a float32.
        return np.ldexp(1.0 + (steps % 32) / 32, steps // 32 - 8)
    low, per_unit = scales(classes)[{"log_odds": 0, "entropy": 1, "cosine": 2}[quantity]]
    return np.asarray(low + steps / per_unit)


@dataclass
class ScanStatistics:
    """Of `inputs` inputs: `counts` int64 [K, bins], and of each class the `odds` [K, k], largest first, and `numbers`.

    A class with fewer than k finds has -inf in `odds` for the rest.
    """

    inputs: int
    counts: NDArray[np.int64]
    odds: Floats
    numbers: NDArray[np.uint64]

    @classmethod
    def empty(cls, classes: int, top: int) -> "ScanStatistics":
        """Of no input at all."""
        counts = np.zeros((classes, int(STARTS[-1])), dtype=np.int64)
        return cls(0, counts, np.full((classes, top), -np.inf), np.zeros((classes, top), dtype=np.uint64))

    @property
    def classes(self) -> int:
        """K."""
        return len(self.counts)

    def merge(self, other: "ScanStatistics") -> None:
        """Add the inputs of `other`, which are others than ours; in any order the result is the same to the bit."""
        if self.odds.shape != other.odds.shape or self.counts.shape != other.counts.shape:
            raise SoftscopeError("statistics of two different scans", "Merge parts of one scan")
        self.inputs += other.inputs
        self.counts += other.counts
        top = self.odds.shape[1]
        odds, numbers = (
            np.concatenate(pair, axis=1) for pair in ((self.odds, other.odds), (self.numbers, other.numbers))
        )
        for k in range(self.classes):
            kept = np.lexsort((numbers[k], -odds[k]))[:top]
            self.odds[k], self.numbers[k] = odds[k, kept], numbers[k, kept]

    def histogram(self, quantity: str, predicted: int | None = None) -> NDArray[np.int64]:
        """Counts by bin, of one predicted class or of all inputs."""
        at = QUANTITIES.index(quantity)
        part = self.counts[:, STARTS[at] : STARTS[at + 1]]
        return np.asarray(part.sum(axis=0) if predicted is None else part[predicted])

    @property
    def predicted(self) -> NDArray[np.int64]:
        """How many inputs each class got."""
        return np.asarray(self.counts[:, : STARTS[1]].sum(axis=1))

    def quantile(self, quantity: str, share: float) -> Interval:
        """The bin that holds the quantile, as an interval, with its middle as the value."""
        heights = self.histogram(quantity)
        if heights.sum() == 0 or not 0 <= share <= 1:
            raise SoftscopeError(f"no quantile {share} of {quantity}", "Ask for 0 to 1, of inputs that were scanned")
        bin_ = int(np.searchsorted(np.cumsum(heights), max(1, np.ceil(share * heights.sum()))))
        low, high = edges(quantity, self.classes)[bin_ : bin_ + 2]
        return Interval((low + high) / 2, low, high)

    def share_above(self, log_odds: float) -> Interval:
        """Share of all inputs with at least these log-odds: exact binomial, 95 %.

        Exact at multiples of 1/256 (the bins' edges); in between, the interval covers both edges.
        """
        heights = self.histogram("log_odds")
        place = (log_odds - _ODDS_LOW) / _ODDS_WIDTH
        near, far = (int(np.clip(f(place), 0, BINS["log_odds"])) for f in (np.floor, np.ceil))
        most, least = int(heights[near:].sum()), int(heights[far:].sum())
        value = (most + (least - most) * (place - near if far > near else 0.0)) / self.inputs
        return Interval(value, exact_binomial(least, self.inputs).low, exact_binomial(most, self.inputs).high)

    def to_tensors(self) -> dict[str, NDArray]:
        """Arrays for a checkpoint."""
        inputs = np.array([self.inputs], dtype=np.int64)
        return {"inputs": inputs, "counts": self.counts, "odds": self.odds, "numbers": self.numbers}

    @classmethod
    def from_tensors(cls, kept: Mapping[str, Any]) -> "ScanStatistics":
        """What `to_tensors` gave, writeable."""
        arrays = {name: np.array(kept[name]) for name in ("counts", "odds", "numbers")}
        return cls(int(kept["inputs"][0]), **arrays)


def exact_binomial(successes: int, rows: int) -> Interval:
    """The share with Clopper and Pearson's 95 % interval: quantiles of Beta(s, n - s + 1) and Beta(s + 1, n - s)."""
    from scipy.special import betaincinv

    if not 0 <= successes <= rows or rows == 0:
        raise SoftscopeError(f"{successes} of {rows} inputs is no share", "Count successes among at least one input")
    low = 0.0 if successes == 0 else float(betaincinv(successes, rows - successes + 1, 0.025))
    high = 1.0 if successes == rows else float(betaincinv(successes + 1, rows - successes, 0.975))
    return Interval(successes / rows, low, high)


def log_odds_of(confidence: float) -> float:
    """log(p / (1 - p)).

    >>> round(log_odds_of(0.99), 3)
    4.595
    """
    if not 0 < confidence < 1:
        raise SoftscopeError(f"confidence {confidence}", "Give a probability between 0 and 1")
    return float(np.log(confidence) - np.log1p(-confidence))


def percent(log_odds: float) -> str:
    """The confidence as a percentage that never rounds up to 100: 99.9988 %."""
    if log_odds == -np.inf:
        return "none"
    doubt = max(1.0 / (1.0 + np.exp(min(log_odds, 80.0))), 1e-13)  # smaller would be lost beside 100
    digits = max(1, int(np.ceil(-np.log10(doubt))))
    return f"{np.floor((100 - 100 * doubt) * 10**digits) / 10**digits:.{digits}f} %"
