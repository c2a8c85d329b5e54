"""Split-conformal calibration: p-values, thresholds and the false-alarm rate they keep, exact for any sample size.

With n calibration scores and a fresh score s, exchangeable with them, p = (1 + #{cal >= s}) / (n + 1) is at most t
with probability floor(t (n + 1)) / (n + 1) <= t: equality without ties, less with them. Larger = more uncertain.
"""

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from math import ceil
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


@dataclass(frozen=True)
class Calibration:
    """Calibration scores of one or more groups: `scores` ascending within each, `counts` how many each has."""

    scores: Floats
    counts: Whole

    @classmethod
    def of(cls, scores: Floats, groups: Whole, n_groups: int) -> "Calibration":
        """Scores with the group 0..n_groups-1 of each."""
        return cls(scores[np.lexsort((scores, groups))], np.bincount(groups, minlength=n_groups).astype(np.int64))

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

    def thresholds(self, rate: float) -> Floats:
        """For each group the score above which, and only above which, p <= rate: its l-th largest, l = `rank`."""
        return np.array([self.group(g)[-rank(rate, int(n))] for g, n in enumerate(self.counts)])


def rank(rate: float, calibrated: int) -> int:
    """l = floor(rate (n + 1)), the number of p-values 1/(n+1), 2/(n+1), ... that are at most `rate`."""
    found = int(rate * (calibrated + 1)) + 1
    while found / (calibrated + 1) > rate:
        found -= 1
    return found


def smallest_calibration(rate: float) -> int:
    """ceil(1 / rate) - 1: the fewest calibration rows with which any p-value can be as small as `rate`."""
    rows = ceil(1 / rate)
    while rows > 1 and 1 / rows <= rate:
        rows -= 1
    return rows


def check_rate(rate: float, name: str) -> float:
    """`rate` if it lies between 0 and 1, else a SoftscopeError."""
    if not 0 < rate < 1:
        raise SoftscopeError(f"{name} is {rate}, expected a rate between 0 and 1", "0.05 is one in twenty")
    return float(rate)


def benjamini_hochberg(p_values: Floats, rate: float) -> NDArray[np.bool_]:
    """Which hypotheses to reject so that at most `rate` of the rejected are expected to be false ones.

    All with p <= p_(k), the k-th smallest, for the largest k with p_(k) <= k rate / m. Conformal p-values that share
    calibration scores are positively dependent in the way this needs (Bates et al. 2023).
    """
    ordered = np.sort(p_values)
    passing = np.flatnonzero(ordered * len(ordered) / np.arange(1, len(ordered) + 1) <= rate)
    return p_values <= ordered[passing[-1]] if len(passing) else np.zeros(len(p_values), bool)


def kept_rate(rate: float, calibrated: int) -> "Interval":
    """The false-alarm rate on fresh data: its mean l / (n + 1), and where that of one calibration lies in 95 %.

    Given its calibration scores, a guard's own rate is distributed as Beta(l, n + 1 - l) where there are no ties.
    """
    from scipy.special import betaincinv

    from ..metrics import Interval

    found = rank(rate, calibrated)
    low, high = betaincinv(found, calibrated + 1 - found, [0.025, 0.975])
    return Interval(found / (calibrated + 1), float(low), float(high))


def alarm_band(rate: float, calibrated: int, fresh: int) -> tuple[int, int]:
    """Fewest and most alarms that `fresh` rows like the calibration rows raise, in at least 95 % of cases.

    Alarms are beta-binomial, and more than k of them come with the probability that at most l - 1 of the k + l
    largest of all n + fresh scores are calibration scores: a hypergeometric tail of l terms, exact and cheap.
    """
    found = rank(rate, calibrated)
    low = _first(lambda k: _more_than(k, found, calibrated, fresh) < 0.975, fresh)
    high = _first(lambda k: _more_than(k, found, calibrated, fresh) <= 0.025, fresh)
    return low, high


def _more_than(alarms: int, found: int, calibrated: int, fresh: int) -> float:
    """P(more than `alarms` of `fresh` rows score above the `found`-th largest of `calibrated` scores)."""
    drawn = alarms + found
    theirs = np.arange(max(0, drawn - fresh), found)
    terms = _log_choose(calibrated, theirs) + _log_choose(fresh, drawn - theirs)
    return float(np.exp(terms - _log_choose(calibrated + fresh, np.array([drawn]))).sum())


def _log_choose(n: int, k: Whole) -> Floats:
    from scipy.special import gammaln

    logs: Floats = gammaln(n + 1.0) - gammaln(k + 1.0) - gammaln(n - k + 1.0)
    return logs


def _first(holds: Callable[[int], bool], most: int) -> int:
    """The smallest number in 0..most from which on `holds` is true."""
    return bisect_left(range(most), True, key=holds)
