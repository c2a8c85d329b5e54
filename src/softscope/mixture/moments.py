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
        """Moments of both sets of rows together."""
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
        """Moments of both sets of rows together."""
        counts = self.counts + other.counts
        share = other.counts / np.maximum(counts, 1.0)
        steps = other.means - self.means
        scaled = steps * np.sqrt(self.counts * share)[:, None]
        return ClassMoments(counts, self.means + steps * share[:, None], self.within + other.within + scaled.T @ scaled)

    @property
    def mean(self) -> Floats:
        """Mean of all rows."""
        mean: Floats = self.counts @ self.means / self.counts.sum()
        return mean

    @property
    def whole(self) -> Moments:
        """Moments of all rows, whatever their class."""
        rows = float(self.counts.sum())
        return Moments(rows, self.mean, rows * self.total_covariance)

    @property
    def tied_covariance(self) -> Floats:
        """Maximum-likelihood covariance shared by the classes."""
        covariance: Floats = self.within / self.counts.sum()
        return covariance

    @property
    def total_covariance(self) -> Floats:
        """Maximum-likelihood covariance of all rows about their common mean."""
        steps = (self.means - self.mean) * np.sqrt(self.counts)[:, None]
        covariance: Floats = (self.within + steps.T @ steps) / self.counts.sum()
        return covariance

    @cached_property
    def tied_axes(self) -> tuple[Floats, Floats]:
        """Eigenvalues, ascending, and eigenvectors (columns) of `tied_covariance`, made once for all who need them."""
        return _axes(self.tied_covariance)

    @cached_property
    def total_axes(self) -> tuple[Floats, Floats]:
        """Eigenvalues, ascending, and eigenvectors (columns) of `total_covariance`, made once for all who need them."""
        return _axes(self.total_covariance)


def _axes(covariance: Floats) -> tuple[Floats, Floats]:
    with one_blas_thread():
        values, vectors = np.linalg.eigh(covariance)
    return values, vectors


@dataclass(frozen=True)
class Whitening:
    """`origin` [H] and `matrix` [H, r] with y = (z - origin) matrix of unit covariance; r is the covariance's rank."""

    origin: Floats
    matrix: Floats

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

    def __call__(self, rows: NDArray) -> Floats:
        """Whitened rows, float64 [N, r]."""
        white: Floats = (rows - self.origin) @ self.matrix
        return white
