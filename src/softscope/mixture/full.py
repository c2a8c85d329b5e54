"""Mixture components with a full covariance, each its own or one for all: densities, and what EM sums over chunks."""

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ..arrays import Floats, chunk_rows, spans
from .bounds import KEEP_NATS, SAMPLE, Bounds, spread_sample
from .conditioning import Conditioning, Covariance, Factor, Statistics, describe, factor_state, factorise, factors_in
from .moments import ClassMoments, Moments

NEGLIGIBLE = 1e-13  # responsibilities below this leave a float64 sum as it is
_WORTH_BOUNDING = 3e9  # multiplications below which choosing and compiling the bound costs more than it saves


class FullComponents:
    """log w_k + log N(z; mu_k, Sigma_k) of K components, each whitened by its own inverse Cholesky factor."""

    def __init__(
        self, weights: Floats, means: Floats, factors: Sequence[Factor], sample: NDArray | None = None
    ) -> None:
        self.weights, self.means, self.factors = weights, means, list(factors)
        self._sample = sample
        self._bounds: Bounds | None = None
        half_log_dets = np.array([factor.half_log_det for factor in factors])
        with np.errstate(divide="ignore"):
            self._constants = np.log(weights) - half_log_dets - 0.5 * means.shape[1] * np.log(2 * np.pi)

    def log_joint(self, x: NDArray) -> Floats:
        """[n, K]; -inf where a component is more than 60 nats below the best of its row."""
        with np.errstate(over="ignore", invalid="ignore"):  # rows beyond float32 are done again in float64
            return self._bounded(x) if self._worth_bounding(x) else self.dense(x)

    def dense(self, x: NDArray) -> Floats:
        """[n, K], every component evaluated."""
        joint = np.empty((len(x), len(self.means)))
        for k in range(len(self.means)):
            joint[:, k] = self._component(x, k)
        return joint

    def _worth_bounding(self, x: NDArray) -> bool:
        classes, features = self.means.shape
        return bool(classes > 2 and float(len(x)) * classes * features**2 > _WORTH_BOUNDING)

    def _bounded(self, x: NDArray) -> Floats:
        bounds = self._bounds_for(x)
        if not bounds.width:
            return self.dense(x)
        upper = bounds.upper(x)
        upper[~np.isfinite(upper).all(axis=1)] = np.inf  # rows beyond float32 rule nothing out
        joint = np.full(upper.shape, -np.inf)
        leading = upper.argmax(axis=1)
        order = np.argsort(leading, kind="stable")
        best = np.empty(len(x))
        for k, rows in _groups(leading[order], order):
            best[rows] = joint[rows, k] = self._component(x, k, rows)
        left = upper > (best - KEEP_NATS)[:, None]
        left[np.arange(len(x)), leading] = False
        for k, rows in _groups(*left.T.nonzero()):
            joint[rows, k] = self._component(x, k, rows)
        return joint

    def _bounds_for(self, x: NDArray) -> Bounds:
        if self._bounds is None:
            sample = x if self._sample is None else self._sample
            sample = sample[:: max(1, len(sample) // SAMPLE)][:SAMPLE]
            self._bounds = Bounds(self.factors, self.means, self._constants, sample)
        return self._bounds

    def _component(self, x: NDArray, k: int, rows: NDArray | None = None) -> Floats:
        """log w_k + log N_k of the chosen rows of x, or of all."""
        factor = self.factors[k]
        mean = self.means[k].astype(x.dtype)
        out = np.empty(len(x) if rows is None else len(rows))
        for span in spans(len(out), chunk_rows(x.shape[1])):
            chosen = x[span] if rows is None else x[rows[span]]
            # In the rows' own type, then rounded once.
            white = factor.whiten((chosen - mean).astype(factor.inverse.dtype, copy=False))
            squares = np.einsum("ij,ij->i", white, white)
            far = np.flatnonzero(~np.isfinite(squares))
            out[span] = squares
            if len(far):
                out[span.start + far] = _far_squares(factor, chosen[far].astype(np.float64) - self.means[k])
        out *= -0.5
        out += self._constants[k]
        return out

    def state(self) -> dict[str, NDArray]:
        return factor_state(self.weights, self.means, self.factors)

    @classmethod
    def from_state(cls, state: dict[str, NDArray]) -> "FullComponents":
        return cls(state["weights"], state["means"], factors_in(state))


class FullStatistics(Statistics):
    """sum r, sum r (x - s), sum r (x - s)(x - s)' of each component about a shift s near its mean, in float64."""

    covariance: Covariance = "full"
    summed = ("counts", "sums", "scatters")

    def __init__(self, shifts: Floats, ridge: float, sample: NDArray | None = None) -> None:
        super().__init__(shifts, ridge)
        self.shifts, self.sample = shifts, sample
        classes, features = shifts.shape
        # Each in Fortran order, lower triangle only: what dsyrk and dpotrf work on in place.
        self.scatters = np.zeros((classes, features, features)).transpose(0, 2, 1)

    @classmethod
    def about(cls, means: Floats, whole: Moments, rows: Any) -> Self:
        return cls(means, 0.0, spread_sample(rows))  # what the bounds are weighed on

    def empty(self, means: Floats) -> Self:
        return type(self)(means, self.ridge, self.sample)

    def __setstate__(self, state: dict[str, Any]) -> None:
        # A pickle forgets the order in memory that dsyrk needs to work in place.
        self.__dict__.update(state)
        self.scatters = np.ascontiguousarray(self.scatters.transpose(0, 2, 1)).transpose(0, 2, 1)

    def add(self, x: NDArray, responsibilities: Floats) -> None:
        for k, rows in _groups(*(responsibilities > NEGLIGIBLE).T.nonzero()):
            self._add(k, x, rows, responsibilities[rows, k])

    def _add(self, k: int, x: NDArray, rows: NDArray, weights: Floats) -> None:
        from scipy.linalg import blas

        self.counts[k] += weights.sum()
        for span in spans(len(rows), chunk_rows(x.shape[1])):
            centred = x[rows[span]].astype(np.float64)
            centred -= self.shifts[k]
            self.sums[k] += weights[span] @ centred
            centred *= np.sqrt(weights[span])[:, None]
            blas.dsyrk(1.0, centred.T, beta=1.0, c=self.scatters[k], lower=1, overwrite_c=1)

    def components(self) -> tuple[FullComponents, NDArray[np.int64]]:
        kept, weights, offsets = self._kept()
        factors = [self._factor(int(k)) for k in kept]
        return FullComponents(weights, self.shifts[kept] + offsets, factors, self.sample), kept

    def conditioning(
        self, components: FullComponents, kept: NDArray[np.int64], *, measured: bool
    ) -> tuple[Conditioning, ...]:
        return tuple(
            describe(k, float(self.counts[k]), self._covariance(k) if measured else None, factor)
            for k, factor in zip(kept.tolist(), components.factors)
        )

    def _factor(self, k: int) -> Factor:
        # Fewer than two points have no scatter of their own.
        if self.counts[k] < 2:
            return factorise(self._pooled, self.ridge, "pooled covariance")
        return factorise(self._covariance(k), self.ridge)

    def _covariance(self, k: int) -> Floats:
        """Lower triangle of component k's maximum-likelihood covariance."""
        from scipy.linalg import blas

        covariance: Floats = self.scatters[k].copy(order="F")
        blas.dsyr(-1.0 / self.counts[k], self.sums[k], lower=1, a=covariance, overwrite_a=1)
        covariance /= self.counts[k]
        return covariance

    @cached_property
    def _pooled(self) -> Floats:
        filled = np.flatnonzero(self.counts > 0)
        within: Floats = sum((self._covariance(int(k)) * self.counts[k] for k in filled), np.zeros(1))
        return np.asarray(within / self.counts.sum())


class TiedComponents:
    """log w_k + log N(z; mu_k, Sigma): norm(y - m_k)^2 between whitened rows and whitened means."""

    def __init__(self, weights: Floats, means: Floats, factor: Factor) -> None:
        self.weights, self.means, self.factor = weights, means, factor
        self._centre = weights @ means
        self._white = factor.whiten((means - self._centre).astype(factor.inverse.dtype)).astype(np.float64)
        self._squares = np.einsum("kh,kh->k", self._white, self._white)
        with np.errstate(divide="ignore"):
            self._constants = np.log(weights) - factor.half_log_det - 0.5 * means.shape[1] * np.log(2 * np.pi)

    def log_joint(self, x: NDArray) -> Floats:
        centred = np.empty(x.shape, self.factor.inverse.dtype)
        np.subtract(x, self._centre.astype(x.dtype, copy=False), out=centred, casting="same_kind")
        white = self.factor.whiten(centred)
        distances = np.empty((len(x), len(self.weights)))
        for span in spans(len(x), chunk_rows(x.shape[1])):
            wide = white[span].astype(np.float64)
            np.matmul(wide, self._white.T, out=distances[span])
            distances[span] *= -2.0
            distances[span] += np.einsum("ij,ij->i", wide, wide)[:, None]
        distances += self._squares
        joint: Floats = self._constants - 0.5 * np.maximum(distances, 0.0)
        return joint

    def state(self) -> dict[str, NDArray]:
        return factor_state(self.weights, self.means, [self.factor])

    @classmethod
    def from_state(cls, state: dict[str, NDArray]) -> "TiedComponents":
        return cls(state["weights"], state["means"], factors_in(state)[0])


class TiedStatistics(Statistics):
    """sum r and sum r (x - centre) of each component; the scatter of all rows together is the same in every pass."""

    covariance: Covariance = "tied"

    def __init__(self, shifts: Floats, ridge: float, whole: Moments) -> None:
        super().__init__(shifts, ridge)
        self.whole = whole

    @classmethod
    def about(cls, means: Floats, whole: Moments, rows: Any) -> Self:
        return cls(means, 0.0, whole)

    @classmethod
    def of_classes(cls, moments: ClassMoments) -> "TiedStatistics":
        """The statistics of classes whose moments are at hand."""
        made = cls(moments.means, 0.0, moments.whole)
        made.counts = moments.counts
        made.sums = moments.counts[:, None] * (moments.means - made.whole.mean)
        return made

    def empty(self, means: Floats) -> Self:
        return type(self)(means, self.ridge, self.whole)

    def add(self, x: NDArray, responsibilities: Floats) -> None:
        self.counts += responsibilities.sum(axis=0)
        self.sums += responsibilities.T @ (x - self.whole.mean)

    def components(self) -> tuple[TiedComponents, NDArray[np.int64]]:
        kept, weights, offsets = self._kept()
        return TiedComponents(weights, self.whole.mean + offsets, factorise(self._covariance(), self.ridge)), kept

    def conditioning(
        self, components: TiedComponents, kept: NDArray[np.int64], *, measured: bool
    ) -> tuple[Conditioning, ...]:
        """One line, for the covariance all components share."""
        covariance = self._covariance() if measured else None
        return (describe(-1, float(self.counts[kept].sum()), covariance, components.factor),)

    def _covariance(self) -> Floats:
        offsets = self.sums / np.sqrt(np.maximum(self.counts, np.finfo(float).tiny))[:, None]
        covariance: Floats = offsets.T @ offsets
        np.subtract(self.whole.scatter, covariance, out=covariance)
        covariance /= self.whole.count
        return covariance


def _far_squares(factor: Factor, centred: Floats) -> Floats:
    """Squared distances that overflow float32, in float64."""
    white = centred @ factor.inverse.astype(np.float64).T
    return np.asarray(np.einsum("ij,ij->i", white, white))


def _groups(keys: NDArray, rows: NDArray) -> Iterator[tuple[int, NDArray]]:
    """(key, its rows) for keys in ascending order, already sorted."""
    if len(keys):
        edges = np.flatnonzero(np.diff(keys)) + 1
        for key, group in zip(keys[np.concatenate(([0], edges))], np.split(rows, edges)):
            yield int(key), group
