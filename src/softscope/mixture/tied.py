"""Mixture components that share one covariance: rows are whitened once, components differ by their means."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..arrays import Floats, chunk_rows, spans
from .conditioning import Conditioning, Covariance, Factor, describe, factorise, kept_components
from .moments import ClassMoments, Moments


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
        """[n, K]."""
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
        """Arrays that rebuild the components."""
        return {
            "weights": self.weights,
            "means": self.means,
            "factors": np.ascontiguousarray(self.factor.inverse)[None],
            "half_log_dets": np.array([self.factor.half_log_det]),
        }

    @classmethod
    def from_state(cls, state: dict[str, NDArray]) -> "TiedComponents":
        """The inverse of `state`."""
        factor = Factor(np.asfortranarray(state["factors"][0]), float(state["half_log_dets"][0]))
        return cls(state["weights"], state["means"], factor)


class TiedStatistics:
    """sum r and sum r (x - centre) of each component; the scatter of all rows together is the same in every pass."""

    covariance: Covariance = "tied"

    def __init__(self, shifts: Floats, ridge: float, whole: Moments) -> None:
        self.ridge, self.whole = ridge, whole
        self.counts = np.zeros(len(shifts))
        self.sums = np.zeros(shifts.shape)

    @classmethod
    def about(cls, means: Floats, whole: Moments, rows: Any) -> "TiedStatistics":
        """Empty statistics of groups with these means among rows with the moments `whole`."""
        return cls(means, 0.0, whole)

    @classmethod
    def of_classes(cls, moments: ClassMoments) -> "TiedStatistics":
        """The statistics of classes whose moments are at hand."""
        made = cls(moments.means, 0.0, moments.whole)
        made.counts = moments.counts
        made.sums = moments.counts[:, None] * (moments.means - made.whole.mean)
        return made

    def empty(self, means: Floats) -> "TiedStatistics":
        """Empty statistics of the same kind about other means."""
        return TiedStatistics(means, self.ridge, self.whole)

    def add(self, x: NDArray, responsibilities: Floats) -> None:
        """Add rows [n, H] with their responsibilities [n, K]."""
        self.counts += responsibilities.sum(axis=0)
        self.sums += responsibilities.T @ (x - self.whole.mean)

    def merge(self, other: "TiedStatistics") -> None:
        """Add the statistics of other rows. New arrays: what Ray hands over can't be written to."""
        self.counts = self.counts + other.counts
        self.sums = self.sums + other.sums

    def components(self) -> tuple[TiedComponents, NDArray[np.int64]]:
        """The maximum-likelihood components with the ridge on the diagonal, and which of the K were kept."""
        kept = kept_components(self.counts)
        offsets = self.sums[kept] / self.counts[kept, None]
        weights = self.counts[kept] / self.counts[kept].sum()
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
