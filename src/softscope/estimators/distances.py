"""Distances to the classes under a covariance: Mahalanobis and relative Mahalanobis, on z or on its direction.

Each is its paper's formula on the final layer's features. Fitting reads the training features chunk by chunk and keeps
O(H^2 + K H) numbers.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial, reduce

import numpy as np
from numpy.typing import NDArray

from ..arrays import Floats, square_norms
from ..errors import SoftscopeError
from ..features import FeatureSet
from ..head import Head
from ..mixture import ClassMoments, Conditioning, Whitening, in_tree_order
from .base import Estimator, Info, each_chunk, register, unit_rows

# Training rows per feature from which relative Mahalanobis trusts the maximum-likelihood covariances.
ROWS_PER_FEATURE = 2
# Training rows per class that relative Mahalanobis needs to tell the spread within classes from that of all rows.
FEWEST_PER_CLASS = 2


@register
class Mahalanobis(Estimator):
    """Squared Mahalanobis distance to the nearest class mean under one covariance for all classes.

    On the final layer only, without the input perturbation and the combination of layers that Lee et al. add. The
    covariance is the maximum-likelihood one; where it is singular (dead units, fewer rows than features) its
    pseudo-inverse takes its place, as in the authors' code, and `conditioning_` says so. `normalise` works on
    z / norm(z), as `mahalanobis++` does. OpenOOD does the same in float32; pytorch-ood divides by N - 1 and adds 1e-6
    to the diagonal, which is much where features are small.
    """

    info = Info(
        "R1",
        "mahalanobis",
        "U_mahalanobis",
        "min_k (z - mu_k)' Sigma^-1 (z - mu_k)",
        ("train", "labels"),
        "Lee et al. 2018",
        "classes are Gaussian with one covariance",
    )

    conditioning_: tuple[Conditioning, ...]

    def __init__(self, *, normalise: bool = False) -> None:
        self.normalise = normalise

    def _fit(self, head: Head, train: FeatureSet, moments: ClassMoments | None) -> None:
        if moments is None or self.normalise:
            moments = class_moments(train, head.n_classes, normalise=self.normalise)
        self._take(moments)

    def _take(self, moments: ClassMoments) -> None:
        self._whitening, conditioning = _described(moments.tied_whitening, moments, self.info.name)
        self._means = self._whitening(moments.means[moments.counts > 0])
        self.conditioning_ = (conditioning,)

    def _uncertainty(self, rows: NDArray) -> NDArray:
        return _nearest(self._whitening(self._prepared(rows)), self._means)

    def _prepared(self, rows: NDArray) -> NDArray:
        return unit_rows(rows) if self.normalise else rows

    def state(self) -> dict[str, NDArray]:
        return {"origin": self._whitening.origin, "matrix": self._whitening.matrix, "means": self._means}

    def _restore(self, state: Mapping[str, NDArray]) -> None:
        self._whitening = Whitening(state["origin"], state["matrix"])
        self._means = state["means"]


@register
class RelativeMahalanobis(Mahalanobis):
    """Mahalanobis distance minus that under one Gaussian fitted to all training rows, whatever their class.

    With fewer than ROWS_PER_FEATURE training rows per feature the two maximum-likelihood covariances are too narrow in
    different directions and the difference inverts: rows far from everything get the lowest scores. There both are
    shrunk alike, to (1 - l) Sigma + d I with one l and one d, Chen's (OAS) for the covariance within classes. As the
    rows of all classes spread at least as widely as those within, Sigma_0 - Sigma is positive semi-definite, hence
    with one common d so is the difference of the inverses: no direction can count the wrong way. `conditioning_` names
    d. Below 2 rows per class there is no spread within classes to speak of, and it refuses.

    However many rows there are, Sigma_0 - Sigma has rank K - 1, so the score reads K - 1 directions of z. With few
    classes most of what is strange about a row may lie in the others: there `mahalanobis` is the better score.
    pytorch-ood doesn't divide the background's scatter by the number of rows, so that this term hardly counts.
    """

    info = Info(
        "R2",
        "relative-mahalanobis",
        "U_relative",
        "min_k (z - mu_k)' Sigma^-1 (z - mu_k) - (z - mu_0)' Sigma_0^-1 (z - mu_0)",
        ("train", "labels"),
        "Ren et al. 2021",
        "classes are Gaussian with one covariance; at least 2 training rows per class (checked)",
    )

    def _take(self, moments: ClassMoments) -> None:
        rows, classes, width = moments.counts.sum(), int((moments.counts > 0).sum()), len(moments.mean)
        if rows < FEWEST_PER_CLASS * classes:
            raise SoftscopeError(
                f"{self.info.name}: {rows:.0f} training rows of {classes} classes",
                f"Give at least {FEWEST_PER_CLASS} rows per class, or use mahalanobis",
            )
        tied, total = moments.tied_whitening, None
        ridge = 0.0
        if rows < ROWS_PER_FEATURE * width:
            share, ridge = _shrinkage(moments.tied_covariance, rows - classes)
            ranks = (tied[0].rank, moments.total_rank)
            tied = _shrunk(moments.tied_covariance, moments, share, ridge, lambda: moments.tied_axes)
            total = _shrunk(moments.total_covariance, moments, share, ridge, lambda: moments.total_axes)
        self._whitening, within = _described(tied, moments, self.info.name)
        self._background, whole = _described(total or moments.total_whitening, moments, self.info.name)
        self._means = self._whitening(moments.means[moments.counts > 0])
        self.conditioning_ = (within, whole)
        if ridge:
            remedy = f"shrunk by {share:.2g} to a common ridge: {rows:.0f} rows of {width} features"
            self.conditioning_ = tuple(
                replace(line, rank=rank, ridge=ridge, remedy=remedy) for line, rank in zip((within, whole), ranks)
            )

    def _uncertainty(self, rows: NDArray) -> NDArray:
        prepared = self._prepared(rows)
        return super()._uncertainty(rows) - square_norms(self._background(prepared))

    def state(self) -> dict[str, NDArray]:
        return super().state() | {"background": self._background.matrix}

    def _restore(self, state: Mapping[str, NDArray]) -> None:
        super()._restore(state)
        self._background = Whitening(state["origin"], state["background"])


@register
class MahalanobisPlus(Mahalanobis):
    """Mahalanobis distance on z / norm(z): how far the direction of z is from those of the classes.

    As in the authors' code: the maximum-likelihood covariance in float64, all training rows.
    """

    info = Info(
        "R6",
        "mahalanobis++",
        "U_mahalanobis++",
        "min_k (n - mu_k)' Sigma^-1 (n - mu_k), n = z/norm(z), moments of n",
        ("train", "labels"),
        "Mueller, Hein 2025",
        "directions within a class are Gaussian with one covariance",
    )

    def __init__(self, *, normalise: bool = True) -> None:
        super().__init__(normalise=normalise)


@register
class RelativeMahalanobisPlus(RelativeMahalanobis):
    """Relative Mahalanobis distance on z / norm(z)."""

    info = Info(
        "R7",
        "relative-mahalanobis++",
        "U_relative++",
        "min_k (n - mu_k)' Sigma^-1 (n - mu_k) - (n - mu_0)' Sigma_0^-1 (n - mu_0), n = z/norm(z), moments of n",
        ("train", "labels"),
        "Mueller, Hein 2025",
        "directions within a class are Gaussian with one covariance; at least 2 training rows per class (checked)",
    )

    def __init__(self, *, normalise: bool = True) -> None:
        super().__init__(normalise=normalise)


def class_moments(train: FeatureSet, classes: int, *, normalise: bool = False) -> ClassMoments:
    """Class means and the common scatter of `train`, or of its rows scaled to norm 1, in one pass over its chunks."""
    labels = train.labels
    assert labels is not None
    parts: list[ClassMoments] = train.over_shards(partial(_moments_of, classes, normalise), labels)
    return in_tree_order(parts, ClassMoments.merge)


def _moments_of(classes: int, normalise: bool, train: FeatureSet, labels: NDArray[np.int64]) -> ClassMoments:
    parts = (
        ClassMoments.of(unit_rows(rows) if normalise else rows, labels[span], classes)
        for span, rows in each_chunk(train)
    )
    return reduce(ClassMoments.merge, parts)


def _shrinkage(covariance: Floats, freedom: float) -> tuple[float, float]:
    """Share l and ridge d = l trace / H of the oracle approximating shrinkage of a covariance S.

    l = ((1 - 2/H) tr(S^2) + tr(S)^2) / ((n + 1 - 2/H) (tr(S^2) - tr(S)^2 / H)), at most 1 (Chen et al. 2010, eq. 23).
    """
    width, trace, square = len(covariance), float(covariance.trace()), float(np.vdot(covariance, covariance))
    above = (1.0 - 2.0 / width) * square + trace**2
    below = (freedom + 1.0 - 2.0 / width) * (square - trace**2 / width)
    share = min(1.0, above / below) if below > 0 else 1.0
    return float(share), float(share * trace / width)


def _shrunk(
    covariance: Floats, moments: ClassMoments, share: float, ridge: float, axes: Callable[[], tuple[Floats, Floats]]
) -> tuple[Whitening, float]:
    """The whitening by (1 - l) Sigma + d I, and its condition number."""

    def shrunk_axes() -> tuple[Floats, Floats]:
        values, vectors = axes()
        return (1.0 - share) * np.maximum(values, 0.0) + ridge, vectors

    covariance *= 1.0 - share
    covariance[np.diag_indices_from(covariance)] += ridge
    return Whitening.of(covariance, moments.mean, shrunk_axes)


def _described(whitened: tuple[Whitening, float], moments: ClassMoments, name: str) -> tuple[Whitening, Conditioning]:
    whitening, condition = whitened
    missing = len(moments.mean) - whitening.rank
    if whitening.rank == 0:
        raise SoftscopeError(
            f"{name}: the training rows of each class are all equal, so there is no covariance", "Give more rows"
        )
    remedy = f"pseudo-inverse: {missing} directions without variance left out" if missing else ""
    count = float(moments.counts.sum())
    return whitening, Conditioning(-1, count, whitening.rank, condition, 0.0, "float64", remedy)


def _nearest(white: Floats, means: Floats) -> Floats:
    """Squared distance of each whitened row to the nearest of `means`."""
    # The product only picks the class: its difference of large squares would cost digits where classes are far apart.
    picked = (white @ means.T - 0.5 * square_norms(means)).argmax(axis=1)
    return square_norms(white - means[picked])
