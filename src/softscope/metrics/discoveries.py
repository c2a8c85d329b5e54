"""How many of the rows flagged by a threshold can be familiar ones, whatever threshold is chosen afterwards."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..arrays import Floats, as_vector
from ..errors import SoftscopeError

Counts = NDArray[np.int64]
_HALVINGS = 16  # of the interval in which the envelope's level lies, on a logarithmic scale
_KNOTS = 300


@dataclass(frozen=True)
class DiscoveryBound:
    """For every threshold (descending, the distinct scores of the batch): rows at or above it, and a bound.

    With the confidence asked for, at most `familiar[i]` of the `flagged[i]` rows with score >= `thresholds[i]` are
    familiar ones, for all i at once; so the threshold may be chosen after looking at the batch.
    """

    thresholds: Floats
    flagged: Counts
    familiar: Counts

    @property
    def share(self) -> Floats:
        """The bound on the false discovery proportion at each threshold: `familiar` / `flagged`."""
        return self.familiar / self.flagged

    def at(self, threshold: float) -> tuple[int, int]:
        """(flagged, familiar at most) of the rows with score >= `threshold`."""
        index = int(np.searchsorted(-self.thresholds, -threshold, side="right")) - 1
        return (int(self.flagged[index]), int(self.familiar[index])) if index >= 0 else (0, 0)


def discovery_bound(familiar: Any, scores: Any, confidence: float = 0.95) -> DiscoveryBound:
    """The false discovery proportion among the flagged rows of a batch, bounded for every threshold at once.

    `familiar` are n scores of known inputs, `scores` those of the batch: m rows, among them familiar ones,
    exchangeable with the n, and others of any kind. For k = 1..n let b_k be `known_envelope`: with the confidence
    asked for, no k has more than b_k familiar rows above the k-th largest of the n. A threshold t that k - 1 of the
    n reach flags R(t) rows, of which at most b_k are familiar, and at most as many as at a higher threshold plus the
    rows in between: V(t) = min(R(t), b_k(t), min_{s > t} V(s) + R(t) - R(s)) (Bates et al. 2023, Gazin et al. 2024).
    Ties make the bound larger, never wrong.

    >>> bound = discovery_bound([0.1 * k for k in range(100)], [15.0, 16.0, 5.0, 17.0], confidence=0.9)
    >>> bound.thresholds, bound.familiar
    (array([17., 16., 15.,  5.]), array([1, 1, 1, 2]))
    """
    known = np.sort(as_vector(familiar, "familiar").astype(np.float64))
    batch = as_vector(scores, "scores").astype(np.float64)
    envelope = known_envelope(len(known), len(batch), confidence)
    distinct, counts = np.unique(batch, return_counts=True)
    thresholds, flagged = distinct[::-1], np.cumsum(counts[::-1])
    reached = len(known) - np.searchsorted(known, thresholds, side="left")
    at_most = np.minimum(np.append(envelope, len(batch))[reached], flagged)
    # V(t) - R(t) may only fall as the threshold falls, which makes V the running minimum of this difference plus R.
    return DiscoveryBound(thresholds, flagged, flagged + np.minimum.accumulate(at_most - flagged))


@lru_cache(maxsize=32)
def known_envelope(calibrated: int, fresh: int, confidence: float = 0.95) -> Counts:
    """b_1 <= ... <= b_n: with this confidence no k in 1..n has more than b_k of m fresh scores above the k-th largest.

    `fresh` = m and `calibrated` = n scores are exchangeable; ties only help. b_k is ceil(m q_k), q_k about the quantile
    of the beta distribution with the mean and variance of (fresh scores above) / m. The level of these quantiles is
    the largest for which some k is exceeded with probability at most 1 - confidence, computed exactly over all orders
    of the n + m scores. Fewer than m fresh scores exceed no more, so m may be an upper bound of their number.
    """
    if not 0 < confidence < 1:
        raise SoftscopeError(f"confidence is {confidence}, expected a number between 0 and 1", "0.95 is usual")
    from .compiled import exceeding

    low, high = -40.0, 0.0  # log of the level
    best = np.full(calibrated, fresh, np.int64)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        bounds = _quantiles(calibrated, fresh, np.exp(middle))
        if exceeding(bounds, calibrated, fresh, 1 - confidence) <= 1 - confidence:
            low, best = middle, bounds
        else:
            high = middle
    best.flags.writeable = False  # it is handed out again
    return best


def _quantiles(calibrated: int, fresh: int, level: float) -> Counts:
    """ceil(m q_k) for k = 1..n, q_k computed at some k and interpolated: any bounds will do, their level is exact."""
    from scipy.special import betainccinv

    size = 1 / (1 / fresh + (1 - 1 / fresh) / (calibrated + 2)) - 1
    if size <= 0:  # a single fresh score: it lies above the k-th largest with probability k / (n + 1)
        return (np.arange(1, calibrated + 1) / (calibrated + 1) > level).astype(np.int64)
    steps = np.geomspace(1, calibrated, _KNOTS)
    knots = np.unique(np.rint(np.concatenate([steps, calibrated + 1 - steps])))
    mean = knots / (calibrated + 1)
    upper = np.interp(np.arange(1, calibrated + 1), knots, betainccinv(mean * size, (1 - mean) * size, level))
    return np.maximum.accumulate(np.ceil(fresh * upper).astype(np.int64))
