"""Split-conformal calibration: p-values, thresholds and the false-alarm rate they keep, exact for any sample size.

With n calibration scores and a fresh score s, exchangeable with them, p = (1 + #{cal >= s}) / (n + 1) is at most t
with probability floor(t (n + 1)) / (n + 1) <= t: equality without ties, less with them. Larger = more uncertain.
"""

from bisect import bisect_left
from dataclasses import dataclass
from math import ceil, log1p
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ..arrays import Floats
from ..errors import SoftscopeError

if TYPE_CHECKING:
    from ..metrics import Interval

Whole = NDArray[np.int64]
# The same row scores differently in its last bits among other rows: it must still tie with itself, on the safe side.
_SAME = 1e-12
LEAST_RATE = 1e-9


@dataclass(frozen=True)
class Promise:
    """At most `rate` of known inputs raise an alarm: on average over calibrations, or with `confidence` this guard's.

    An alarm is a score above the l-th largest of n calibration scores, p <= l / (n + 1). A guard's own rate is then
    distributed as Beta(l, n + 1 - l) where scores don't tie, and is stochastically smaller where they do.

    >>> promise = Promise(0.05)
    >>> promise.rank(199)
    10
    >>> f"{promise.own_rate(199):.1%}"
    '5.0% [2.4%, 8.4%]'
    >>> Promise(0.05, confidence=0.95).smallest_calibration
    59
    """

    rate: float
    confidence: float | None = None

    def __post_init__(self) -> None:
        check_rate(self.rate, "false_alarms")
        if self.confidence is not None and not 0 < self.confidence < 1:
            raise SoftscopeError(
                f"confidence is {self.confidence}, expected a number between 0 and 1", "0.95 is nineteen in twenty"
            )

    def rank(self, calibrated: int) -> int:
        """l for n calibration scores, 0 where they are too few.

        On average: l = floor(rate (n + 1)), so that l / (n + 1) <= rate. With confidence: the largest l with
        P(Beta(l, n + 1 - l) <= rate) >= confidence.
        """
        if self.confidence is None:
            largest = int(self.rate * (calibrated + 1)) + 1
            while largest / (calibrated + 1) > self.rate:
                largest -= 1
            return largest
        from scipy.special import betainc

        # The probability falls with l: the number of ranks before the first that fails is the largest that holds.
        confidence, ranks = self.confidence, range(1, calibrated + 1)
        return bisect_left(ranks, True, key=lambda rank: betainc(rank, calibrated + 1 - rank, self.rate) < confidence)

    @property
    def smallest_calibration(self) -> int:
        """The fewest calibration rows with which `rank` is at least 1.

        ceil(1 / rate) - 1 on average; with confidence the smallest n with 1 - (1 - rate)^n >= confidence.
        """
        if self.confidence is not None:
            rows = max(1, ceil(log1p(-self.confidence) / log1p(-self.rate)) - 1)
            return rows if self.rank(rows) else rows + 1
        rows = ceil(1 / self.rate)
        while rows > 1 and 1 / rows <= self.rate:
            rows -= 1
        return rows

    def own_rate(self, calibrated: int) -> "Interval":
        """The false-alarm rate on fresh data: its mean l / (n + 1), and where that of one calibration lies in 95 %."""
        from scipy.special import betaincinv

        from ..metrics import Interval

        rank = self.rank(calibrated)
        low, high = betaincinv(rank, calibrated + 1 - rank, [0.025, 0.975])
        return Interval(rank / (calibrated + 1), float(low), float(high))

    def exceeded(self, calibrated: int) -> float:
        """The probability that a guard's own rate is above `rate`: P(Beta(l, n + 1 - l) > rate)."""
        from scipy.special import betaincc

        rank = self.rank(calibrated)
        return float(betaincc(rank, calibrated + 1 - rank, self.rate))

    def alarm_band(self, calibrated: int, fresh: int, outside: float = 0.05) -> tuple[int, int]:
        """Fewest and most alarms that `fresh` rows like the calibration rows raise, in all but `outside` of cases.

        Alarms are beta-binomial, and more than k of them come with the probability that at most l - 1 of the k + l
        largest of all n + fresh scores are calibration scores: a hypergeometric tail of l terms, exact and cheap.
        """
        from scipy.stats import hypergeom

        rank = self.rank(calibrated)

        def more_than(alarms: int) -> float:
            return float(hypergeom.cdf(rank - 1, calibrated + fresh, calibrated, alarms + rank))

        low = bisect_left(range(fresh), True, key=lambda k: more_than(k) < 1 - outside / 2)
        high = bisect_left(range(fresh), True, key=lambda k: more_than(k) <= outside / 2)
        return low, high


@dataclass(frozen=True)
class Calibration:
    """Calibration scores of one or more groups: `scores` ascending within each, `counts` how many each has.

    `classes` is the predicted class of each score, in the order of `scores`; None in files of softscope 0.1.
    """

    scores: Floats
    counts: Whole
    classes: Whole | None = None

    @classmethod
    def of(cls, scores: Floats, groups: Whole, n_groups: int, classes: Whole | None = None) -> "Calibration":
        """Scores with the group 0..n_groups-1 of each."""
        order = np.lexsort((scores, groups))
        counts = np.bincount(groups, minlength=n_groups).astype(np.int64)
        return cls(scores[order], counts, None if classes is None else classes[order])

    def group(self, number: int) -> Floats:
        """The ascending scores of one group."""
        end = int(self.counts[: number + 1].sum())
        return self.scores[end - int(self.counts[number]) : end]

    def p_values(self, scores: Floats, groups: Whole) -> Floats:
        """(1 + #{cal >= s}) / (n + 1) of each score among the calibration scores of its own group."""
        out = np.empty(len(scores))
        order = np.argsort(groups, kind="stable")
        present, starts = np.unique(groups[order], return_index=True)
        for number, rows in zip(present, np.split(order, starts[1:])):
            calibration = self.group(int(number))
            asked = scores[rows] - _SAME * np.abs(scores[rows])
            above = len(calibration) - np.searchsorted(calibration, asked, side="left")
            out[rows] = (1 + above) / (len(calibration) + 1)
        return out

    def levels(self, promise: Promise) -> Floats:
        """For each group the largest p-value that is an alarm, l / (n + 1)."""
        return np.array([promise.rank(int(n)) / (int(n) + 1) for n in self.counts])

    def thresholds(self, promise: Promise) -> Floats:
        """For each group the score above which, and only above which, there is an alarm: its l-th largest."""
        return np.array([self.group(g)[-promise.rank(int(n))] for g, n in enumerate(self.counts)])


def check_rate(rate: float, name: str) -> float:
    """`rate` if it lies between 0 and 1, and not so near to 0 that no number of rows could keep it."""
    if not LEAST_RATE <= rate < 1:
        raise SoftscopeError(f"{name} is {rate}, expected a rate between 0 and 1", "0.05 is one in twenty")
    return float(rate)


def benjamini_hochberg(p_values: Floats, rate: float) -> NDArray[np.bool_]:
    """Which hypotheses to reject so that at most `rate` of the rejected are expected to be false ones.

    Conformal p-values that share calibration scores are positively dependent in the way this needs (Bates et al. 2023).
    """
    from scipy.stats import false_discovery_control

    rejected: NDArray[np.bool_] = false_discovery_control(p_values) <= rate
    return rejected
