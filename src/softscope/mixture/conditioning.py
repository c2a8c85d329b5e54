"""Covariances that can be inverted: Cholesky factors, what had to be done to get them, and in which precision.

The ridge is absolute, as in scikit-learn. Where it is not enough a relative one is added, and where a component has
no scatter of its own it takes the pooled covariance: both are reported, never silent. `Statistics` is what each kind of
covariance is made from.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from ..arrays import Floats
from ..blas import one_blas_thread
from .moments import Moments

Covariance = Literal["full", "tied", "diagonal", "spherical"]
# A whitened coordinate may be off by this much (root mean square) before float64 takes over: it biases a mean
# log-likelihood by less than one part in a million.
FLOAT32_ERROR = 3e-4


@dataclass(frozen=True)
class Conditioning:
    """How one component's covariance came out. `condition` is of the covariance with its ridge (1-norm estimate),
    `rank` of the covariance without it (both None where nobody measured them); `remedy` is empty where the ridge asked
    for was enough."""

    component: int
    count: float
    rank: int | None
    condition: float | None
    ridge: float
    precision: str
    remedy: str = ""


@dataclass(frozen=True)
class Factor:
    """Inverse Cholesky factor L^-1 (lower, Fortran order, float32 or float64) of a covariance, and sum log diag L."""

    inverse: NDArray
    half_log_det: float
    ridge: float = 0.0
    remedy: str = ""

    @property
    def precision(self) -> str:
        """Name of the dtype the whitening runs in."""
        return str(self.inverse.dtype)

    def whiten(self, centred: NDArray) -> NDArray:
        """L^-1 of each row of `centred` [n, H], which is of the factor's dtype and is overwritten."""
        centred = np.ascontiguousarray(centred)  # its transpose is Fortran-ordered: the product is made in place
        if len(centred):
            _blas("trmm", self.inverse)(1.0, self.inverse, centred.T, lower=1, overwrite_b=1)
        return centred


def factor_state(weights: Floats, means: Floats, factors: Sequence[Factor]) -> dict[str, NDArray]:
    """Arrays that rebuild components with these factors, float64 if one of them is."""
    wide = np.float64 if any(factor.inverse.dtype == np.float64 for factor in factors) else np.float32
    return {
        "weights": weights,
        "means": means,
        "factors": np.stack([np.ascontiguousarray(factor.inverse, dtype=wide) for factor in factors]),
        "half_log_dets": np.array([factor.half_log_det for factor in factors]),
    }


def factors_in(state: Mapping[str, NDArray]) -> list[Factor]:
    """The factors that `factor_state` kept."""
    pairs = zip(state["factors"], state["half_log_dets"])
    return [Factor(np.asfortranarray(inverse), float(half)) for inverse, half in pairs]


class Statistics(ABC):
    """What EM sums over the rows of K components, and the maximum-likelihood components these sums make.

    `counts` = sum r, `sums` = sum r (x - shift) of each component about a shift; `summed` names all that is added up.
    """

    covariance: Covariance
    summed: tuple[str, ...] = ("counts", "sums")

    def __init__(self, shifts: Floats, ridge: float) -> None:
        self.ridge = ridge
        self.counts = np.zeros(len(shifts))
        self.sums = np.zeros(shifts.shape)

    @classmethod
    @abstractmethod
    def about(cls, means: Floats, whole: Moments, rows: Any) -> Self:
        """Empty statistics of groups with these means among `rows` with the moments `whole`."""

    @abstractmethod
    def empty(self, means: Floats) -> Self:
        """Empty statistics of the same kind about other means."""

    @abstractmethod
    def add(self, x: NDArray, responsibilities: Floats) -> None:
        """Add rows [n, H] with their responsibilities [n, K]."""

    def merge(self, other: Self) -> None:
        """Add the statistics of other rows about the same shifts. New arrays: what Ray hands over is read-only."""
        for name in self.summed:
            setattr(self, name, getattr(self, name) + getattr(other, name))

    @abstractmethod
    def components(self) -> tuple[Any, NDArray[np.int64]]:
        """The maximum-likelihood components with the ridge on the diagonal, and which of the K were kept."""

    @abstractmethod
    def conditioning(self, components: Any, kept: NDArray[np.int64], *, measured: bool) -> tuple[Conditioning, ...]:
        """How the covariances came out; rank and condition number only where they are `measured`."""

    def _kept(self) -> tuple[NDArray[np.int64], Floats, Floats]:
        """Components with at least one point's worth of responsibility (or half of all there is); weights, offsets."""
        kept = np.flatnonzero(self.counts >= min(1.0, 0.5 * self.counts.sum()))
        return kept, self.counts[kept] / self.counts[kept].sum(), self.sums[kept] / self.counts[kept, None]


@one_blas_thread()
def factorise(covariance: Floats, ridge: float, remedy: str = "") -> Factor:
    """The factor of covariance + ridge I, with the smallest relative ridge that makes it invertible where it isn't.

    Only the lower triangle of `covariance` is read.
    """
    from scipy.linalg import lapack

    diagonal = np.maximum(np.diagonal(covariance), 0.0)
    typical = float(diagonal.mean()) or 1.0
    extra = 0.0
    for exponent in range(-10, 1):
        shifted = np.array(covariance, order="F")
        np.fill_diagonal(shifted, diagonal + ridge + extra)
        lower, failed = lapack.dpotrf(shifted, lower=1, overwrite_a=1, clean=1)
        if not failed and _invertible(np.diagonal(lower), diagonal + ridge + extra):
            return _factor(lower, diagonal + ridge + extra, ridge + extra, remedy)
        extra = typical * 10.0**exponent
        remedy = ", ".join([remedy.split(", relative")[0]] * bool(remedy) + [f"relative ridge 1e{exponent}"])
    raise AssertionError("a covariance plus its own mean variance is positive definite")


@one_blas_thread()
def describe(component: int, count: float, covariance: Floats | None, factor: Factor) -> Conditioning:
    """What a component's factor took, and the rank and condition number of its `covariance` (lower triangle read).

    These two cost as much as a factor; without `covariance` they are left out.
    """
    from scipy.linalg import lapack

    if covariance is None:
        return Conditioning(component, count, None, None, factor.ridge, factor.precision, factor.remedy)
    rank = int(lapack.dpstrf(np.array(covariance, order="F"), lower=1, overwrite_a=1)[2])
    shifted = np.array(covariance, order="F")
    shifted[np.diag_indices_from(shifted)] += factor.ridge
    size = np.tril(shifted)
    np.abs(size, out=size)
    norm = float((size.sum(axis=0) + size.sum(axis=1) - np.diagonal(size)).max())
    del size
    lower, _ = lapack.dpotrf(shifted, lower=1, overwrite_a=1)
    reciprocal = float(lapack.dpocon(lower, norm, uplo="L")[0])
    condition = 1.0 / reciprocal if reciprocal > 0 else float("inf")
    return Conditioning(component, count, rank, condition, factor.ridge, factor.precision, factor.remedy)


def dropped(component: int, count: float) -> Conditioning:
    """The report's line for a component that was left without points."""
    return Conditioning(component, count, 0, float("inf"), 0.0, "", "dropped")


def _invertible(pivots: Floats, diagonal: Floats) -> bool:
    return bool(np.all(pivots**2 > len(pivots) * np.finfo(np.float64).eps * diagonal))


def _factor(lower: Floats, diagonal: Floats, ridge: float, remedy: str) -> Factor:
    from scipy.linalg import lapack

    half_log_det = float(np.log(np.diagonal(lower)).sum())
    inverse, _ = lapack.dtrtri(lower, lower=1, overwrite_c=1)
    # sum_ij (L^-1)_ij^2 Sigma_jj / H: the mean square of the terms that cancel in a whitened coordinate of size 1.
    terms = float(np.einsum("ij,ij,j->", inverse, inverse, diagonal)) / len(lower)
    if np.sqrt(terms) * np.finfo(np.float32).eps < FLOAT32_ERROR and max(inverse.max(), -inverse.min()) < 1e15:
        inverse = inverse.astype(np.float32, order="F")
    return Factor(inverse, half_log_det, ridge, remedy)


def _blas(name: str, array: NDArray) -> Any:
    from scipy.linalg import blas

    return getattr(blas, ("s" if array.dtype == np.float32 else "d") + name)
