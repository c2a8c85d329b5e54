"""Gaussian kernel density (E8): one isotropic Gaussian on every training row, and its bandwidth by held-out likelihood.

    p(z) = (1/N) sum_n N(z; x_n, h^2 I)

The training rows stay in memory; everything else is made block by block, so memory beyond them doesn't grow with N.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ..arrays import Floats, chunk_rows, spans, square_norms
from ..errors import SoftscopeError

QUERY_ROWS = 512
CENTRE_ROWS = 2048
HELD_OUT_ROWS = 1024
GRID = 16

# Below this a term can't move a sum that holds a 1, and exp would return denormals, which are slow.
_NEGLIGIBLE = -80.0
# Products are float32 while their rounding, about norm(x) norm(c) 2^-24 sqrt(H), stays below a thousandth of sqrt(H),
# the scale on which the log density varies within one kernel; float64 beyond.
_TOLERANCE = 1e-3
_UNIT_ROUNDOFF = 2.0**-24
# Two rows nearer than this share of their squared norms are the same row, seen through float64 rounding.
_SAME = 1e-13


@dataclass(frozen=True)
class Kernels:
    """A kernel density: `centres` [N, H] = (x_n - origin) / bandwidth, in float32 where that is exact enough."""

    centres: NDArray
    origin: Floats
    bandwidth: float

    @classmethod
    def on(cls, rows: NDArray, bandwidth: float) -> "Kernels":
        """A kernel of `bandwidth` on each of `rows`, measured from their mean to keep products small."""
        origin = rows.mean(axis=0, dtype=np.float64)
        blocks = list(spans(len(rows), chunk_rows(rows.shape[1])))
        radius2 = max(square_norms((rows[span] - origin) / bandwidth).max() for span in blocks)
        centres = np.empty(rows.shape, np.float32 if _UNIT_ROUNDOFF * radius2 <= _TOLERANCE else np.float64)
        for span in blocks:
            centres[span] = (rows[span] - origin) / bandwidth
        return cls(centres, origin, float(bandwidth))

    def log_density(self, rows: NDArray) -> Floats:
        """log p(z) of each row, float64 [N], finite wherever z is."""
        out = np.empty(len(rows))
        for span in spans(len(rows), QUERY_ROWS):
            queries = (rows[span] - self.origin) / self.bandwidth
            norms2 = square_norms(queries)
            wide = self._needs_float64(norms2)
            sums = np.empty(len(queries))
            for chosen, dtype in ((wide, np.float64), (~wide, np.float32)):
                if chosen.any():
                    sums[chosen] = self._log_sums(queries[chosen].astype(dtype))
            out[span] = sums - 0.5 * norms2
        return np.asarray(out - np.log(len(self.centres)) + _log_normaliser(self.bandwidth, len(self.origin)))

    @cached_property
    def _half_norms2(self) -> Floats:
        halves = [square_norms(self.centres[s]) / 2 for s in spans(len(self.centres), CENTRE_ROWS)]
        return np.concatenate(halves)

    def _needs_float64(self, norms2: Floats) -> NDArray[np.bool_]:
        # Each row decides for itself, so that scores don't depend on the rows they are scored with.
        if self.centres.dtype == np.float64:
            return np.ones(len(norms2), bool)
        radius2 = 2 * self._half_norms2.max()
        rounding = _UNIT_ROUNDOFF * np.sqrt(norms2 * radius2)
        return np.asarray(rounding > _TOLERANCE * np.maximum(1.0, norms2 / len(self.origin)))

    def _log_sums(self, queries: NDArray) -> Floats:
        """log sum_n exp(x . c_n - norm(c_n)^2 / 2), with a running maximum over blocks of centres."""
        top = np.full(len(queries), -np.inf)
        total = np.zeros(len(queries))
        for span in spans(len(self.centres), CENTRE_ROWS):
            terms = queries @ self.centres[span].astype(queries.dtype, copy=False).T
            terms -= self._half_norms2[span].astype(queries.dtype)
            higher = np.maximum(top, terms.max(axis=1))
            total *= np.exp(np.maximum(top - higher, _NEGLIGIBLE))
            terms -= higher.astype(queries.dtype)[:, None]
            total += _exp_sum(terms)
            top = higher
        return top + np.log(total)


@dataclass(frozen=True)
class Bandwidth:
    """A bandwidth, the mean held-out log density it reaches, and on how many held-out rows that was read."""

    value: float
    log_likelihood: float
    held_out: int


def held_out_bandwidth(rows: NDArray, seed: int = 0) -> Bandwidth:
    """The bandwidth under which rows left out of the density are most likely.

    Maximises mean_i log (1/n_i) sum_j N(x_i; x_j, h^2 I) over h, where i runs over up to HELD_OUT_ROWS rows drawn by
    `seed` (all, where there are no more) and j over all rows but i and those equal to it, which would otherwise
    reward h = 0. At a maximum h^2 H is the mean squared distance weighted by the kernels, so it lies between the mean
    squared distance to the nearest row and that to all rows: a grid over this bracket, refined around its best point
    and there read off a parabola in log h.
    """
    rows = np.ascontiguousarray(rows)
    picked = np.random.default_rng(seed).permutation(len(rows))[:HELD_OUT_ROWS]
    search = _HeldOut(rows, np.sort(picked))
    low, high = search.bracket
    for _ in range(2):
        grid = np.geomspace(low, high, GRID)
        likelihoods = search.log_likelihoods(grid)
        best = int(likelihoods.argmax())
        low, high = grid[max(best - 1, 0)], grid[min(best + 1, GRID - 1)]
    if 0 < best < GRID - 1 and low < high:
        value, likelihood = _vertex(np.log(grid[best - 1 : best + 2]), likelihoods[best - 1 : best + 2])
        return Bandwidth(float(np.exp(value)), likelihood, len(search.queries))
    return Bandwidth(float(grid[best]), float(likelihoods[best]), len(search.queries))


class _HeldOut:
    """Squared distances from held-out rows to all others, block by block, and what is read off them."""

    def __init__(self, rows: NDArray, picked: NDArray[np.int64]) -> None:
        self.rows = rows
        self.origin = rows.mean(axis=0, dtype=np.float64)
        self.queries = rows[picked] - self.origin
        nearest, self.others, far = self._survey()
        usable = self.others > 0
        if not usable.any():
            raise SoftscopeError(
                "kde: the training rows are all equal, so no bandwidth can be read off them",
                "Pass bandwidth=, or check the features",
            )
        self.queries, self.nearest, self.others = self.queries[usable], nearest[usable], self.others[usable]
        width = rows.shape[1]
        farthest = (far[usable] / self.others).mean()
        self.bracket = float(np.sqrt(self.nearest.mean() / width)), float(np.sqrt(farthest / width))

    def log_likelihoods(self, grid: Floats) -> Floats:
        """Mean held-out log density under each bandwidth of `grid`."""
        sums = np.zeros((len(grid), len(self.queries)))
        unit = self.bracket[1] ** 2
        for distances in self._blocks():
            # In units of the widest bandwidth, where float32 can hold it whatever the scale of the features.
            excess = np.maximum((self.nearest[:, None] - distances) / unit, -1e30).astype(np.float32)
            terms = np.empty_like(excess)
            for row, bandwidth in zip(sums, grid):
                np.multiply(excess, np.float32(0.5 * unit / bandwidth**2), out=terms)
                row += _exp_sum(terms)
        peaks = -0.5 * self.nearest / grid[:, None] ** 2
        densities = peaks + np.log(sums) - np.log(self.others)
        return np.asarray(densities.mean(axis=1) + [_log_normaliser(h, self.rows.shape[1]) for h in grid])

    def _survey(self) -> tuple[Floats, Floats, Floats]:
        nearest = np.full(len(self.queries), np.inf)
        others, far = np.zeros(len(self.queries)), np.zeros(len(self.queries))
        for distances in self._blocks():
            nearest = np.minimum(nearest, distances.min(axis=1))
            counted = np.isfinite(distances)
            others += counted.sum(axis=1)
            far += np.where(counted, distances, 0.0).sum(axis=1)
        return nearest, others, far

    def _blocks(self) -> Iterator[Floats]:
        """Squared distances to consecutive rows; infinite to the held-out row itself and to its duplicates."""
        norms2 = square_norms(self.queries)[:, None]
        for span in spans(len(self.rows), max(1, CENTRE_ROWS // 2)):
            block = self.rows[span] - self.origin
            scale = norms2 + square_norms(block)
            distances = scale - 2 * (self.queries @ block.T)
            distances[distances <= _SAME * scale] = np.inf
            yield distances


def _exp_sum(terms: NDArray) -> Floats:
    """Sum of exp(terms) along each row, float64; overwrites `terms`, none of which is above 0."""
    np.maximum(terms, terms.dtype.type(_NEGLIGIBLE), out=terms)
    np.exp(terms, out=terms)
    return np.asarray(terms.sum(axis=1), np.float64)


def _vertex(x: Floats, y: Floats) -> tuple[float, float]:
    """Where the parabola through three evenly spaced points, the middle one the highest, has its top, and how high."""
    left, right = y[1] - y[0], y[1] - y[2]
    bend = left + right
    shift = 0.5 * (left - right) / bend if bend > 0 else 0.0
    return float(x[1] + shift * (x[2] - x[1])), float(y[1] + 0.25 * (left - right) * shift)


def _log_normaliser(bandwidth: float, width: int) -> float:
    return float(-0.5 * width * np.log(2 * np.pi) - width * np.log(bandwidth))
