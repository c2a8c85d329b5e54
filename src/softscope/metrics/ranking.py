"""AUROC with DeLong's interval and paired test, average precision, FPR at a stated recall, ROC curve: all from ranks.

Nothing here bins, squashes or rescales a score, so any increasing function of a score gives the same numbers.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from statistics import NormalDist
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ..arrays import Floats
from ..errors import SoftscopeError
from .interval import Z95, Interval, wilson
from .order import Counts, as_scores, count, placements, sort

Side = Literal["unfamiliar", "familiar"]


@dataclass(frozen=True)
class Comparison:
    """First AUROC minus second on the same inputs, and the two-sided p-value of "there is no difference"."""

    difference: Interval
    p_value: float


@dataclass(frozen=True)
class RocCurve:
    """Points of the ROC curve from (0, 0) to (1, 1); positive = unfamiliar, flagged where the score >= threshold."""

    thresholds: Floats
    false_positive_rate: Floats
    recall: Floats


def auroc(familiar: Any, unfamiliar: Any, *, comparisons: int = 1) -> Interval:
    """P(U_unfamiliar > U_familiar) + 1/2 P(equal) over all pairs: positive = unfamiliar. Exact, ties count one half.

    The interval is Wilson's with DeLong's variance V = S10 / n + S01 / m (S: variance of each side's placements),
    that is with a (1 - a) / V effective rows. Where few rows are misordered V is hardly known, so it is drawn towards
    its upper bound a (1 - a) / min(n, m) by half a pseudo-row beside the min(n, m) min(a, 1 - a) that speak; this
    leaves V as it is on large samples and keeps the interval honest up to a = 1, where DeLong's own has no width.
    With `comparisons` > 1 it is the interval that covers so many AUROCs at once with 95 % (Bonferroni).

    >>> print(f"{auroc([0.1, 0.2, 0.4, 0.3], [0.5, 0.9, 0.35, 0.8]):.2f}")
    0.94 [0.49, 1.00]
    """
    low, high = sort(as_scores(familiar, "familiar")), sort(as_scores(unfamiliar, "unfamiliar"))
    n, m = low.size, high.size
    twice, squares_low, squares_high = placements(low, high)
    value = twice / (2 * n * m)
    variance = _variance(squares_low / (2 * m) ** 2, n) + _variance(squares_high / (2 * n) ** 2, m)
    return _wilson(value, variance, min(n, m), _quantile(comparisons))


def auroc_difference(
    familiar_a: Any, unfamiliar_a: Any, familiar_b: Any, unfamiliar_b: Any, *, comparisons: int = 1
) -> Comparison:
    """AUROC of score a minus AUROC of score b on the same inputs, row by row, with a paired interval and DeLong's test.

    The test is z = (A - B) / sqrt(S10 / n + S01 / m), S the variances of the difference of placements. The interval
    joins those of the two AUROCs (`auroc`), so that it keeps a width up to the ends, where DeLong's has none: with
    l, u the ends of each and r the correlation of the two by DeLong's variances, the lower end is
    A - B - sqrt((A - l_A)^2 + (u_B - B)^2 - 2 r (A - l_A)(u_B - B)), the upper one likewise (Zou and Donner's MOVER).
    Where nothing varies r is 0, and where few rows are misordered it is hardly known: it is drawn towards 0 by half a
    pseudo-row, as V is in `auroc`. Two scores that order all inputs alike don't differ: 0 [0, 0]. With
    `comparisons` > 1 it is the interval that covers so many differences at once with 95 % (Bonferroni).
    """
    a = as_scores(familiar_a, "familiar_a"), as_scores(unfamiliar_a, "unfamiliar_a")
    b = as_scores(familiar_b, "familiar_b"), as_scores(unfamiliar_b, "unfamiliar_b")
    for one, other, side in ((a[0], b[0], "familiar"), (a[1], b[1], "unfamiliar")):
        if one.size != other.size:
            raise SoftscopeError(
                f"{side}: {one.size} rows of score a, {other.size} of score b", "Score the same inputs with both"
            )
    z = _quantile(comparisons)
    placed_a, placed_b = _placements_by_row(*a), _placements_by_row(*b)
    value = int((placed_a[1] - placed_b[1]).sum()) / (2 * a[0].size * a[1].size)
    variance_a, variance_b, variance = (
        _placed_variance(*sides) for sides in (placed_a, placed_b, [x - y for x, y in zip(placed_a, placed_b)])
    )
    first, second = _placed_interval(placed_a, variance_a, z), _placed_interval(placed_b, variance_b, z)
    scale = math.sqrt(variance_a * variance_b)
    together = min(1.0, max(-1.0, (variance_a + variance_b - variance) / (2 * scale))) if scale > 0 else 0.0
    speaking = min(a[0].size, a[1].size) * min(min(one.value, 1 - one.value) for one in (first, second))
    together *= speaking / (speaking + 0.5)
    if variance == 0 and _ordered_alike(np.concatenate(a), np.concatenate(b)):
        return Comparison(Interval(0.0, 0.0, 0.0), 1.0)
    below = _joined(first.value - first.low, second.high - second.value, together)
    above = _joined(first.high - first.value, second.value - second.low, together)
    error = math.sqrt(variance) if variance > 0 else (below if value > 0 else above) / z
    p_value = math.erfc(abs(value) / error / math.sqrt(2)) if value and error > 0 else 1.0
    return Comparison(Interval(value, max(-1.0, value - below), min(1.0, value + above)), p_value)


def _quantile(comparisons: int) -> float:
    return Z95 if comparisons == 1 else NormalDist().inv_cdf(1 - 0.025 / comparisons)


def _placed_variance(low: NDArray, high: NDArray) -> float:
    n, m = low.size, high.size
    return _variance(_squares(low) / (2 * m) ** 2, n) + _variance(_squares(high) / (2 * n) ** 2, m)


def _placed_interval(placed: tuple[Counts, Counts], variance: float, z: float) -> Interval:
    n, m = placed[0].size, placed[1].size
    return _wilson(int(placed[1].sum()) / (2 * n * m), variance, min(n, m), z)


def _joined(one: float, other: float, together: float) -> float:
    # The arm of a difference from the arms of its two parts.
    return math.sqrt(max(0.0, one * one + other * other - 2 * together * one * other))


def _ordered_alike(a: Floats, b: Floats) -> bool:
    # Whether two scores rank all inputs the same way, ties included.
    return bool(np.array_equal(np.unique(a, return_inverse=True)[1], np.unique(b, return_inverse=True)[1]))


def average_precision(familiar: Any, unfamiliar: Any, positive: Side = "unfamiliar") -> Interval:
    """Area under precision against recall as a step function: mean over the positives of the precision at their score.

    positive="familiar" ranks the least uncertain first. Equal scores share one threshold. Unlike AUROC it depends on
    the ratio of the two sides. The interval is Wilson's with the variance of the linearised mean, as for `auroc`.
    """
    wanted, others = _oriented(familiar, unfamiliar, positive)
    below, upto = count(wanted, wanted)
    caught, false = wanted.size - below, others.size - count(others, wanted)[0]
    flagged = (caught + false).astype(np.float64)
    precision = caught / flagged
    # What one more positive or one more of the others at a score does to the mean: it moves every precision below it.
    gain = precision + np.append(0.0, np.cumsum(false / flagged**2))[upto]
    loss = np.append(0.0, np.cumsum(caught / flagged**2))[count(wanted, others)[1]] * (others.size / wanted.size)
    variance = _variance(_squares(gain), wanted.size) + _variance(_squares(loss), others.size)
    return _wilson(float(precision.mean()), variance, wanted.size if others.size > 1 else 1)


def fpr_at_recall(familiar: Any, unfamiliar: Any, recall: float = 0.95, positive: Side = "unfamiliar") -> Interval:
    """Share of the other side that is flagged too when at least `recall` of the positive side is flagged.

    positive="unfamiliar" flags U >= t, positive="familiar" flags U <= t, at the strictest t among the positive scores
    that reaches the recall; all rows equal to t are flagged, nothing is interpolated. `recall` is read as the decimal
    that is printed (0.07 of 100 rows are 7). The interval adds, in quadrature, Wilson's for the share and what the
    uncertainty of t itself (an order statistic) does to it.
    """
    if not 0 < recall <= 1:
        raise SoftscopeError(f"recall: expected a share above 0 and at most 1, found {recall}", "Use 0.95 for 95 %")
    wanted, others = _oriented(familiar, unfamiliar, positive)
    aim = Fraction(str(float(recall))) * wanted.size
    half = Z95 * math.sqrt(wanted.size * recall * (1 - recall))

    def flagged(rank: int) -> float:
        if rank < 1 or rank > wanted.size:
            return float(rank > wanted.size)
        return 1 - int(np.searchsorted(others, wanted[wanted.size - rank], "left")) / others.size

    share = wilson(flagged(math.ceil(aim)), others.size)
    least, most = flagged(math.ceil(float(aim) - half)), flagged(math.floor(float(aim) + half) + 1)
    low = share.value - math.hypot(share.value - share.low, max(0.0, share.value - least))
    high = share.value + math.hypot(share.high - share.value, max(0.0, most - share.value))
    return Interval(share.value, max(0.0, low), min(1.0, high))


def roc_curve(familiar: Any, unfamiliar: Any, points: int = 200) -> RocCurve:
    """The ROC curve, positive = unfamiliar, exact at about `points` thresholds spread evenly over both sides' ranks."""
    if points < 2:
        raise SoftscopeError(f"points: expected at least 2, found {points}", "A curve needs two points")
    low, high = sort(as_scores(familiar, "familiar")), sort(as_scores(unfamiliar, "unfamiliar"))
    picked = [side[np.linspace(0, side.size - 1, min(side.size, points // 2)).astype(np.int64)] for side in (low, high)]
    thresholds = np.append(np.unique(np.concatenate(picked))[::-1], -np.inf)
    false = 1 - np.searchsorted(low, thresholds, "left") / low.size
    true = 1 - np.searchsorted(high, thresholds, "left") / high.size
    return RocCurve(np.append(np.inf, thresholds), np.append(0.0, false), np.append(0.0, true))


def balanced(familiar: int, unfamiliar: int, seed: int = 0) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Which rows to keep of `familiar` and of `unfamiliar` rows: all of the smaller side, as many of the larger one.

    Takes counts, not scores, so that every estimator is judged on the same rows. Drawn without replacement; ascending.
    """
    for rows, side in ((familiar, "familiar"), (unfamiliar, "unfamiliar")):
        if rows < 1:
            raise SoftscopeError(f"the {side} side has {rows} rows", "Give at least one row on each side")
    size = min(familiar, unfamiliar)
    generator = np.random.default_rng(seed)

    def keep(rows: int) -> NDArray[np.int64]:
        drawn = np.arange(rows) if rows == size else generator.choice(rows, size, replace=False, shuffle=False)
        return np.sort(drawn).astype(np.int64)

    return keep(familiar), keep(unfamiliar)


def _variance(squares: float, rows: int) -> float:
    # Of a mean of `rows` placements; one row alone shows no spread.
    return squares / (rows - 1) / rows if rows > 1 else 0.0


def _wilson(value: float, variance: float, rows: int, z: float = Z95) -> Interval:
    # Wilson's interval with value (1 - value) / variance effective rows, drawn towards `rows` where few rows speak.
    speaking = rows * min(value, 1 - value) if rows > 1 else 0.0
    spread = variance / (value * (1 - value)) if speaking > 0 else 0.0
    return wilson(value, (speaking + 0.5) / (speaking * spread + 0.5 / rows), z)


def _placements_by_row(familiar: Floats, unfamiliar: Floats) -> tuple[Counts, Counts]:
    # Twice the number of unfamiliar rows above each familiar one, and of familiar rows below each unfamiliar one.
    order_low, order_high = np.argsort(familiar), np.argsort(unfamiliar)
    low, high = familiar[order_low], unfamiliar[order_high]
    of_low, of_high = np.empty(low.size, np.int64), np.empty(high.size, np.int64)
    below, upto = count(high, low)
    of_low[order_low] = 2 * high.size - (below + upto)
    below, upto = count(low, high)
    of_high[order_high] = below + upto
    return of_low, of_high


def _squares(values: NDArray) -> float:
    # About their mean; taken from the first one before, so that equal values give exactly 0.
    shifted = (values - values[0]).astype(np.float64)
    return float(np.square(shifted - shifted.mean()).sum())


def _oriented(familiar: Any, unfamiliar: Any, positive: Side) -> tuple[Floats, Floats]:
    # Ascending scores of the positive and of the other side, larger = more like the positive side.
    low, high = sort(as_scores(familiar, "familiar")), sort(as_scores(unfamiliar, "unfamiliar"))
    if positive == "unfamiliar":
        return high, low
    if positive == "familiar":
        return -low[::-1], -high[::-1]
    raise SoftscopeError(f"positive: expected 'unfamiliar' or 'familiar', found {positive!r}", "Name the class to find")
