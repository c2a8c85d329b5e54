"""What the literature would use instead: Mahalanobis and relative Mahalanobis distance, ViM, GEN.

Each is its paper's formula on the final layer's features. Where published implementations differ, the choice is
stated in the class. Fitting reads the training features chunk by chunk and keeps O(H^2 + K H) numbers.
"""

from collections.abc import Mapping
from functools import reduce
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ..arrays import Floats
from ..blas import one_blas_thread
from ..errors import SoftscopeError
from ..features import FeatureSet
from ..head import Head
from ..mixture import RANK_TOLERANCE, ClassMoments, Conditioning, Moments, Whitening
from .base import Estimator, Info, each_chunk, register
from .softmax import energy, log_odds


@register
class Mahalanobis(Estimator):
    """Squared Mahalanobis distance to the nearest class mean under one covariance for all classes.

    On the final layer only, without the input perturbation and the combination of layers that Lee et al. add. The
    covariance is the maximum-likelihood one; where it is singular (dead units, fewer rows than features) its
    pseudo-inverse takes its place, as in the authors' code, and `conditioning_` says so.
    """

    info = Info(
        "R1",
        "mahalanobis",
        "U_mahalanobis",
        "min_k (z - mu_k)' Sigma^-1 (z - mu_k)",
        ("train", "labels"),
        "Lee et al. 2018",
    )

    conditioning_: tuple[Conditioning, ...]

    def fit_on(self, head: Head, train: FeatureSet, moments: ClassMoments) -> Self:
        self._moments = moments
        return self.fit(head, train)

    def _fit(self, head: Head, train: FeatureSet) -> None:
        moments = self.__dict__.pop("_moments", None)
        self._take(class_moments(train, head.n_classes) if moments is None else moments)

    def _take(self, moments: ClassMoments) -> None:
        self._whitening, conditioning = _whiten(moments.tied_axes, moments, self.info.name)
        self._means = self._whitening(moments.means[moments.counts > 0])
        self.conditioning_ = (conditioning,)

    def _uncertainty(self, rows: NDArray) -> NDArray:
        return _nearest(self._whitening(rows), self._means)

    def state(self) -> dict[str, NDArray]:
        return {"origin": self._whitening.origin, "matrix": self._whitening.matrix, "means": self._means}

    def _restore(self, state: Mapping[str, NDArray]) -> None:
        self._whitening = Whitening(state["origin"], state["matrix"])
        self._means = state["means"]


@register
class RelativeMahalanobis(Mahalanobis):
    """Mahalanobis distance minus that under one Gaussian fitted to all training rows, whatever their class."""

    info = Info(
        "R2",
        "relative-mahalanobis",
        "U_relative",
        "min_k (z - mu_k)' Sigma^-1 (z - mu_k) - (z - mu_0)' Sigma_0^-1 (z - mu_0)",
        ("train", "labels"),
        "Ren et al. 2021",
    )

    def _take(self, moments: ClassMoments) -> None:
        super()._take(moments)
        self._background, conditioning = _whiten(moments.total_axes, moments, self.info.name)
        self.conditioning_ += (conditioning,)

    def _uncertainty(self, rows: NDArray) -> NDArray:
        return super()._uncertainty(rows) - _square_norms(self._background(rows))

    def state(self) -> dict[str, NDArray]:
        return super().state() | {"background": self._background.matrix}

    def _restore(self, state: Mapping[str, NDArray]) -> None:
        super()._restore(state)
        self._background = Whitening(state["origin"], state["background"])


@register
class ViM(Estimator):
    """Virtual-logit matching: the log-odds of a virtual class whose logit is the residual off the principal subspace.

    With u = -W^+ b the origin, R the directions of the training features about u beyond the `dim` of largest
    second moment, and alpha = mean max_i l_i / mean norm(R'(z - u)) over training rows (a second pass over them).
    The paper's score is the virtual class's softmax probability; its log-odds has the same order and can't saturate.
    `dim` is the authors' 1000 for H >= 2048 and 512 for H >= 768; below, where 512 would leave little or nothing,
    H / 2. Where the training features span no more than `dim` directions (all residuals would be 0) it is halved to
    half of what they span; `dim_` is the one used and `conditioning_` says why.
    """

    info = Info(
        "R4",
        "vim",
        "U_vim",
        "alpha norm(R'(z - u)) - log sum_i exp(l_i)",
        ("head", "train"),
        "Wang et al. 2022",
    )

    dim_: int
    alpha_: float
    conditioning_: tuple[Conditioning, ...]

    def __init__(self, *, dim: int | None = None) -> None:
        self.dim = dim

    def fit_on(self, head: Head, train: FeatureSet, moments: ClassMoments) -> Self:
        rows = float(moments.counts.sum())
        self._spread = Moments(rows, moments.mean, rows * moments.total_covariance)
        return self.fit(head, train)

    def _fit(self, head: Head, train: FeatureSet) -> None:
        self._origin = _head_origin(head)
        moments = self.__dict__.pop("_spread", None) or Moments.over(train.chunks())
        step = moments.mean - self._origin
        with one_blas_thread():
            values, vectors = np.linalg.eigh(moments.covariance + np.outer(step, step))
        rank = int((values > RANK_TOLERANCE * values[-1]).sum())
        asked = self._asked(head.n_features)
        self.dim_ = asked if asked < rank else rank // 2
        self._residual = np.ascontiguousarray(vectors[:, : head.n_features - self.dim_])
        self.alpha_ = self._matching_scale(head, train)
        reduced = f"dim {asked} reduced to {self.dim_}: the features span {rank} directions"
        condition = float(values[-1] / values[-rank]) if rank else float("inf")
        self.conditioning_ = (
            Conditioning(-1, moments.count, rank, condition, 0.0, "float64", "" if self.dim_ == asked else reduced),
        )

    def _uncertainty(self, rows: NDArray) -> NDArray:
        return self.alpha_ * self._residual_norms(rows) + energy(self.head_.logits(rows))

    def state(self) -> dict[str, NDArray]:
        return {"origin": self._origin, "residual": self._residual, "alpha": np.array([self.alpha_])}

    def _restore(self, state: Mapping[str, NDArray]) -> None:
        self._origin, self._residual = state["origin"], state["residual"]
        self.alpha_ = float(state["alpha"][0])
        self.dim_ = self.n_features_ - self._residual.shape[1]

    def _asked(self, width: int) -> int:
        if self.dim is None:
            return 1000 if width >= 2048 else 512 if width >= 768 else width // 2
        if not 0 <= self.dim < width:
            raise SoftscopeError(f"vim: dim is {self.dim}, the features have {width} columns", "Give 0 <= dim < H")
        return self.dim

    def _matching_scale(self, head: Head, train: FeatureSet) -> float:
        largest = residual = 0.0
        for _, rows in each_chunk(train):
            largest += float(head.logits(rows).max(axis=1).sum(dtype=np.float64))
            residual += float(self._residual_norms(rows).sum())
        return largest / residual if residual > 0 else 0.0

    def _residual_norms(self, rows: NDArray) -> Floats:
        return np.sqrt(_square_norms((rows - self._origin) @ self._residual))


@register
class GEN(Estimator):
    """Generalised entropy of the `top` largest softmax probabilities, ranked by its logarithm, which can't saturate.

    gamma = 0.1 and the 100 largest are the paper's; with 100 classes or fewer all of them count.
    """

    info = Info(
        "R5", "gen", "U_gen", "sum_j s_j^gamma (1 - s_j)^gamma over the largest s_j", ("head",), "Liu et al. 2023"
    )

    def __init__(self, *, gamma: float = 0.1, top: int = 100) -> None:
        self.gamma = gamma
        self.top = top

    def fit(self, head: Head, train: Any = None) -> Self:
        if not self.gamma > 0 or self.top < 1:
            raise SoftscopeError(f"gen: gamma is {self.gamma}, top is {self.top}", "The paper uses 0.1 and 100")
        return super().fit(head, train)

    def _uncertainty(self, rows: NDArray) -> NDArray:
        return log_generalised_entropy(self.head_.logits(rows), self.gamma, self.top)

    def _plain(self, rows: NDArray) -> NDArray:
        return np.asarray(np.exp(self._uncertainty(rows)))


def log_generalised_entropy(logits: NDArray, gamma: float = 0.1, top: int = 100) -> Floats:
    """log sum_j (s_j (1 - s_j))^gamma over the `top` largest s_j, from log s_j and log(1 - s_j).

    With o = log((1 - s_1) / s_1), pivoted on the runner-up: log s_1 = -log(1 + e^o), log(1 - s_1) = o + log s_1; the
    other s_j are at most 1/2, where log1p(-s_j) is accurate.
    """
    odds = log_odds(logits)
    log_first = -np.logaddexp(0.0, odds)
    largest = logits if logits.shape[1] <= top else np.partition(logits, -top, axis=1)[:, -top:]
    winner = largest.argmax(axis=1)[:, None]
    log_s = largest.astype(np.float64)
    log_s += log_first[:, None] - np.take_along_axis(log_s, winner, axis=1)
    # The bounds leave every s_j but the winner's as it is, and spare the winner's log1p(-1) and denormals.
    log_rest = np.log1p(-np.exp(np.clip(log_s, -700.0, -np.log(2.0))))
    np.put_along_axis(log_rest, winner, (odds + log_first)[:, None], axis=1)
    terms = gamma * (log_s + log_rest)
    peak = terms.max(axis=1)
    return np.asarray(peak + np.log(np.exp(np.maximum(terms - peak[:, None], -700.0)).sum(axis=1)))


def class_moments(train: FeatureSet, classes: int) -> ClassMoments:
    """Class means and the common scatter of `train`, in one pass over its chunks."""
    labels = train.labels
    assert labels is not None
    parts = (ClassMoments.of(rows, labels[span], classes) for span, rows in each_chunk(train))
    return reduce(ClassMoments.merge, parts)


def _whiten(axes: tuple[Floats, Floats], moments: ClassMoments, name: str) -> tuple[Whitening, Conditioning]:
    whitening, condition = Whitening.by(axes, moments.mean)
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
    picked = (white @ means.T - 0.5 * _square_norms(means)).argmax(axis=1)
    return _square_norms(white - means[picked])


def _head_origin(head: Head) -> Floats:
    """u = -W^+ b, the point whose logits are 0 (in the least-squares sense).

    Singular values below float32 rounding count as 0: rows of W that sum to 0 would otherwise send u to infinity.
    """
    cut = max(head.weight.shape) * float(np.finfo(np.float32).eps)
    origin: Floats = -np.linalg.pinv(head.weight.astype(np.float64), rcond=cut) @ head.bias.astype(np.float64)
    return origin


def _square_norms(rows: Floats) -> Floats:
    norms2: Floats = np.einsum("ij,ij->i", rows, rows)
    return norms2
