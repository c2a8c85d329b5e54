"""Mergeable moments in float64, of all rows or by class, and the whitening they define.

Memory is O(H^2 + K H) however many rows there are.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..arrays import Floats
from ..blas import one_blas_thread

T = TypeVar("T")
# Directions with less than this share of the largest variance are rounding, not spread.
RANK_TOLERANCE = 1e-12
#: Columns beyond which a covariance is whitened by its Cholesky factor, where it has one: eigenvectors of 4,096 columns
#: take 20 times as long, for the same distances.
WIDE = 2048
# Condition up to which all directions of a Cholesky factor count, well within RANK_TOLERANCE.
_SOUND = 1e10
# Share of the largest variance up to which a column's is the rounding of a constant.
_DEAD = 1e-28


def in_tree_order(parts: Sequence[T], merge: Callable[[T, T], T]) -> T:
    """All parts merged, neighbours first: an order that depends on their number alone, whoever was done first."""
    while len(parts) > 1:
        pairs = [merge(one, other) for one, other in zip(parts[::2], parts[1::2])]
        parts = [*pairs, *parts[len(parts) - len(parts) % 2 :]]
    return parts[0]


@dataclass(frozen=True)
class Moments:
    """`count` = sum w, `mean` [H], `scatter` [H, H] = sum w (x - mean)(x - mean)'.

    Two sets of rows merge by Chan, Golub and LeVeque's update, so that a file is summed chunk by chunk without the
    cancellation of sum(x x') - n mean mean'.
    """

    count: float
    mean: Floats
    scatter: Floats

    @classmethod
    def of(cls, rows: NDArray, weights: Any = None) -> "Moments":
        """Moments of one chunk of rows, each with its weight (1 where none are given)."""
        x = np.asarray(rows, np.float64)
        w = np.ones(len(x)) if weights is None else np.asarray(weights, np.float64)
        count = float(w.sum())
        if count <= 0:
            return cls(0.0, np.zeros(x.shape[1]), np.zeros((x.shape[1], x.shape[1])))
        mean = w @ x / count
        centred = (x - mean) * np.sqrt(w)[:, None]
        return cls(count, mean, centred.T @ centred)

    @classmethod
    def over(cls, chunks: Any) -> "Moments":
        """Moments of an iterable of chunks."""
        return reduce(cls.merge, (cls.of(chunk) for chunk in chunks))

    def merge(self, other: "Moments") -> "Moments":
        count = self.count + other.count
        if count == 0:
            return self
        step = other.mean - self.mean
        share = other.count / count
        between = np.outer(step, step) * (self.count * share)
        return Moments(count, self.mean + step * share, self.scatter + other.scatter + between)

    @property
    def covariance(self) -> Floats:
        """Maximum-likelihood covariance, scatter / count."""
        return self.scatter / max(self.count, 1.0)


@dataclass(frozen=True)
class ClassMoments:
    """`counts` [K], `means` [K, H] and `within` [H, H], the scatter of rows about the mean of their own class.

    Merging adds to `within` each class's step between the two means (Chan, Golub, LeVeque), so nothing large is ever
    subtracted: tight classes far apart keep their digits.
    """

    counts: Floats
    means: Floats
    within: Floats

    @classmethod
    def of(cls, rows: NDArray, labels: NDArray[np.int64], classes: int) -> "ClassMoments":
        """Moments of one chunk of labelled rows."""
        wide = rows.astype(np.float64)
        counts = np.bincount(labels, minlength=classes).astype(np.float64)
        sums = np.zeros((classes, wide.shape[1]))
        order = np.argsort(labels, kind="stable")
        present = np.flatnonzero(counts)
        sums[present] = np.add.reduceat(wide[order], (np.cumsum(counts) - counts)[present].astype(np.int64))
        means = sums / np.maximum(counts, 1.0)[:, None]
        wide -= means[labels]
        return cls(counts, means, wide.T @ wide)

    def merge(self, other: "ClassMoments") -> "ClassMoments":
        counts = self.counts + other.counts
        share = other.counts / np.maximum(counts, 1.0)
        steps = other.means - self.means
        scaled = steps * np.sqrt(self.counts * share)[:, None]
        within = self.within + other.within
        within += scaled.T @ scaled
        return ClassMoments(counts, self.means + steps * share[:, None], within)

    @property
    def mean(self) -> Floats:
        mean: Floats = self.counts @ self.means / self.counts.sum()
        return mean

    @property
    def whole(self) -> Moments:
        """Moments of all rows, whatever their class."""
        rows, scatter = float(self.counts.sum()), self.total_covariance
        scatter *= rows
        return Moments(rows, self.mean, scatter)

    @property
    def tied_covariance(self) -> Floats:
        """Maximum-likelihood covariance shared by the classes."""
        covariance: Floats = self.within / self.counts.sum()
        return covariance

    @property
    def total_covariance(self) -> Floats:
        """Maximum-likelihood covariance of all rows about their common mean."""
        steps = (self.means - self.mean) * np.sqrt(self.counts)[:, None]
        covariance: Floats = steps.T @ steps
        covariance += self.within
        covariance /= self.counts.sum()
        return covariance

    @cached_property
    def tied_axes(self) -> tuple[Floats, Floats]:
        """Eigenvalues, ascending, and eigenvectors (columns) of `tied_covariance`, made once for all who need them."""
        return _axes(self.tied_covariance)

    @cached_property
    def total_axes(self) -> tuple[Floats, Floats]:
        """Eigenvalues, ascending, and eigenvectors (columns) of `total_covariance`, made once for all who need them."""
        return _axes(self.total_covariance)

    @cached_property
    def tied_whitening(self) -> tuple["Whitening", float]:
        """`Whitening.of` the tied covariance about the mean of all rows, made once for all who need it."""
        return Whitening.of(self.tied_covariance, self.mean, lambda: self.tied_axes)

    @property
    def total_whitening(self) -> tuple["Whitening", float]:
        """`Whitening.of` the total covariance about the mean of all rows."""
        return Whitening.of(self.total_covariance, self.mean, lambda: self.total_axes)

    @property
    def total_rank(self) -> int:
        """How many directions the rows of all classes together span."""
        factor = cholesky(self.total_covariance)
        if factor is not None:
            return len(factor.lower)
        values, _ = self.total_axes
        return int((values > RANK_TOLERANCE * max(values[-1], 0.0)).sum())

    @property
    def total_root(self) -> Floats:
        """R with R'R = `total_covariance`: rows of standard normal numbers times R have that covariance."""
        factor = cholesky(self.total_covariance)
        if factor is None:
            return symmetric_root(*self.total_axes)
        if factor.alive is None:
            return factor.lower.T
        root = np.zeros((len(self.mean), len(self.mean)))
        root[np.ix_(factor.alive, factor.alive)] = factor.lower.T
        return root


def symmetric_root(values: Floats, vectors: Floats) -> Floats:
    """The symmetric root of a covariance from its eigenvalues and eigenvectors (columns)."""
    # Eigenvalues below 0 are rounding: the covariance of fewer rows than features has none.
    root: Floats = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
    return root


def _axes(covariance: Floats) -> tuple[Floats, Floats]:
    with one_blas_thread():
        values, vectors = np.linalg.eigh(covariance)
    return values, vectors


@dataclass(frozen=True)
class Cholesky:
    """`lower` L with L L' the covariance of the columns `alive` (None: all), and its condition number (estimated)."""

    lower: Floats
    condition: float
    alive: NDArray[np.bool_] | None


@one_blas_thread()
def cholesky(covariance: Floats) -> Cholesky | None:
    """The factor of `covariance`, which is overwritten; units that never change are left out.

    None, and `covariance` as it was or no longer of use, where eigenvectors are called for: up to WIDE columns, and
    where another direction has next to no variance.
    """
    from scipy.linalg import lapack

    if len(covariance) <= WIDE:
        return None
    variances = np.diagonal(covariance)
    alive = variances > _DEAD * variances.max()
    if not alive.any():
        return None
    if not alive.all():
        covariance = covariance[np.ix_(alive, alive)]
    norm = max(float(np.abs(row).sum()) for row in covariance)
    lower, failed = lapack.dpotrf(covariance.T, lower=1, overwrite_a=1, clean=1)
    if failed:
        return None
    reciprocal = float(lapack.dpocon(lower, norm, uplo="L")[0])
    return Cholesky(lower, 1.0 / reciprocal, None if alive.all() else alive) if reciprocal * _SOUND > 1.0 else None


@dataclass(frozen=True)
class Whitening:
    """`origin` [H] and `matrix` [H, r] with y = (z - origin) matrix of unit covariance; r is the covariance's rank."""

    origin: Floats
    matrix: Floats

    @classmethod
    def of(
        cls, covariance: Floats, origin: Floats, axes: Callable[[], tuple[Floats, Floats]]
    ) -> tuple["Whitening", float]:
        """By the Cholesky factor of `covariance` (overwritten) where it is wide and has one, else by its `axes`."""
        from scipy.linalg import lapack

        factor = cholesky(covariance)
        if factor is None:
            return cls.by(axes(), origin)
        with one_blas_thread():
            inverse, _ = lapack.dtrtri(factor.lower, lower=1, overwrite_c=1)
        matrix = inverse.T
        if factor.alive is not None:
            matrix = np.zeros((len(origin), len(inverse)))
            matrix[factor.alive] = inverse.T
        return cls(origin, matrix), factor.condition

    @classmethod
    def by(cls, axes: tuple[Floats, Floats], origin: Floats) -> tuple["Whitening", float]:
        """From the eigenvalues and eigenvectors of a covariance, with the condition number of what is kept.

        Directions without variance are left out: distances are those of the pseudo-inverse.
        """
        values, vectors = axes
        kept = values > RANK_TOLERANCE * max(values[-1], 0.0)
        condition = float(values[-1] / values[kept][0]) if kept.any() else float("inf")
        return cls(origin, np.ascontiguousarray(vectors[:, kept] / np.sqrt(values[kept]))), condition

    @property
    def rank(self) -> int:
        """r."""
        return int(self.matrix.shape[1])

    @cached_property
    def _triangular(self) -> bool:
        """Whether half the products are by 0, as with the inverse of a Cholesky factor."""
        square = len(self.matrix) == self.rank > WIDE
        return square and not any(row[:number].any() for number, row in enumerate(self.matrix))

    def __call__(self, rows: NDArray) -> Floats:
        """Whitened rows, float64 [N, r]."""
        centred = rows - self.origin
        if not self._triangular or not len(rows):
            return np.asarray(centred @ self.matrix)
        from scipy.linalg import blas

        # Transposed, both are in Fortran's order: the product takes the place of the centred rows.
        return np.asarray(blas.dtrmm(1.0, self.matrix.T, centred.T, lower=1, overwrite_b=1).T)
