"""Bootstrap over inputs: one draw of test inputs and of each OOD set's, on which every score is judged alike.

The low side of every AUROC is test, the high side OOD.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..arrays import Floats
from ..metrics import Interval
from ..provenance import cores

_BLOCK_BYTES = 1 << 26

RowNumbers = NDArray[np.int64]
Weights = NDArray[np.uint8]


@dataclass(frozen=True)
class Contest:
    """A score on some test and OOD rows, sorted once so that the AUROC of a resample takes linear time."""

    low: RowNumbers  # numbers of the test rows, by ascending score
    high: RowNumbers  # numbers of the OOD rows
    first: RowNumbers  # of the test rows, how many score lower than each OOD row
    last: RowNumbers  # lower or equal

    @classmethod
    def of(cls, test: NDArray, ood: NDArray, low: RowNumbers, high: RowNumbers) -> "Contest":
        """Between the rows `low` of the scores `test` and the rows `high` of the scores `ood`."""
        order = np.argsort(test[low], kind="stable")
        ascending, queries = test[low][order], ood[high]
        first, last = np.searchsorted(ascending, queries, "left"), np.searchsorted(ascending, queries, "right")
        return cls(low[order], high, first, last)

    def value(self) -> float:
        """P(U_ood > U_test) + 1/2 P(equal)."""
        return int((self.first + self.last).sum()) / (2 * self.low.size * self.high.size)

    def draws(self, test: Weights, ood: Weights) -> Floats:
        """The same under each row of weights [draws, rows], NaN where a side has none."""
        from .compiled import resampled_aurocs

        out: Floats = resampled_aurocs(self.low, self.high, self.first, self.last, test, ood)
        return out


#: A quantity to resample: the mean AUROC of its contests (several where rows compete only within their fold).
Contests = tuple[Contest, ...]


def value_of(contests: Contests) -> float:
    """The mean AUROC of `contests`."""
    return float(np.mean([contest.value() for contest in contests]))


def resampled(
    contests: Mapping[tuple[str, str], Contests], test: int, ood: Mapping[str, int], count: int, seed: int
) -> dict[tuple[str, str], Floats]:
    """`count` resampled values of each quantity, keyed by (OOD set, quantity): all of them on the same resamples."""
    out = {key: np.empty(count) for key in contests}
    with ThreadPoolExecutor(cores()) as pool:
        for span, weights, others in _resamples(test, ood, count, seed):

            def work(key: tuple[str, str]) -> Floats:
                name, _ = key
                draws = [contest.draws(weights, others[name]) for contest in contests[key]]  # noqa: B023
                return _known_mean(np.array(draws))

            for key, values in zip(contests, pool.map(work, contests)):
                out[key][span] = values
    return out


def bootstrap_interval(value: float, draws: Floats) -> Interval:
    """The 95 % percentile interval of `draws`, stretched to hold `value`; resamples that lack a side don't count."""
    known = draws[~np.isnan(draws)]
    low, high = np.quantile(known, [0.025, 0.975]) if known.size else (value, value)
    return Interval(value, min(value, float(low)), max(value, float(high)))


def widened(interval: Interval, other: Interval, least: float = 0.0) -> Interval:
    """`interval` made to reach at least as far below and above its value as `other` does, within [`least`, 1].

    For AUROCs near 1, where hardly a resample differs and the bootstrap alone would claim to know too much.
    """
    low = min(interval.low, interval.value - (other.value - other.low))
    high = max(interval.high, interval.value + (other.high - other.value))
    return Interval(interval.value, max(least, low), min(1.0, high))


def stretch(interval: Interval, factor: float) -> Interval:
    """`interval` with both arms `factor` times as long."""
    below, above = factor * (interval.value - interval.low), factor * (interval.high - interval.value)
    return Interval(interval.value, interval.value - below, interval.value + above)


def complement(interval: Interval) -> Interval:
    """1 - x."""
    return Interval(1.0 - interval.value, 1.0 - interval.high, 1.0 - interval.low)


def mean_of(intervals: Iterable[Interval]) -> Interval:
    """The mean, with the interval it has if all errors go together: never too narrow."""
    table = np.array([[each.value, each.low, each.high] for each in intervals])
    value, low, high = table.mean(axis=0)
    return Interval(value, min(value, low), max(value, high))


def independent_mean(intervals: Sequence[Interval]) -> Interval:
    """The mean, with the interval it has if all errors are independent: never too wide."""
    value = float(np.mean([each.value for each in intervals]))
    below = math.hypot(*(each.value - each.low for each in intervals)) / len(intervals)
    above = math.hypot(*(each.high - each.value for each in intervals)) / len(intervals)
    return Interval(value, value - below, value + above)


def _resamples(
    test: int, ood: Mapping[str, int], count: int, seed: int
) -> Iterator[tuple[slice, Weights, dict[str, Weights]]]:
    """How often each test row and each row of each OOD set is drawn, with replacement: a block of draws at a time."""
    step = max(1, _BLOCK_BYTES // (test + sum(ood.values())))
    sides = [test, *ood.values()]
    generators = [np.random.default_rng([seed, 1, side]) for side in range(len(sides))]
    for start in range(0, count, step):
        span = slice(start, min(count, start + step))
        first, *others = (_drawn(rows, span.stop - start, generator) for rows, generator in zip(sides, generators))
        yield span, first, dict(zip(ood, others))


def _known_mean(draws: Floats) -> Floats:
    """Over the first axis, without NaN; NaN where there is nothing else."""
    known = ~np.isnan(draws)
    counts = known.sum(axis=0)
    return np.where(counts > 0, np.where(known, draws, 0.0).sum(axis=0) / np.maximum(counts, 1), np.nan)


def _drawn(rows: int, draws: int, generator: np.random.Generator) -> Weights:
    out = np.empty((draws, rows), np.uint8)
    for draw in range(draws):
        # No row is drawn more than 255 times in `rows` tries (for 256 rows of the same input: once in 10^500).
        out[draw] = np.bincount(generator.integers(0, rows, rows), minlength=rows)
    return out
