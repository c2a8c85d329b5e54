"""Mixture components with a diagonal covariance, or one variance for all features (spherical)."""

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ..arrays import Floats
from .conditioning import Conditioning, Covariance, Statistics
from .moments import Moments


class DiagonalComponents:
    """log w_k + log N(z; mu_k, diag v_k), as two float64 products with centred rows and their squares."""

    def __init__(self, weights: Floats, means: Floats, variances: Floats) -> None:
        self.weights, self.means, self.variances = weights, means, variances
        self._centre = weights @ means
        offsets = means - self._centre
        self._inverses = 1.0 / variances
        self._linear = 2.0 * offsets * self._inverses
        with np.errstate(divide="ignore"):
            self._constants = np.log(weights) - 0.5 * (
                (offsets**2 * self._inverses).sum(axis=1) + np.log(2 * np.pi * variances).sum(axis=1)
            )

    def log_joint(self, x: NDArray) -> Floats:
        rows = x - self._centre
        joint = rows @ self._linear.T
        np.square(rows, out=rows)
        joint -= rows @ self._inverses.T
        joint *= 0.5
        joint += self._constants
        return joint

    def state(self) -> dict[str, NDArray]:
        return {"weights": self.weights, "means": self.means, "variances": self.variances}

    @classmethod
    def from_state(cls, state: dict[str, NDArray]) -> "DiagonalComponents":
        return cls(state["weights"], state["means"], state["variances"])


class DiagonalStatistics(Statistics):
    """sum r, sum r (x - c), sum r (x - c)^2 of each component about the centre c of all rows, in float64."""

    covariance: Covariance = "diagonal"
    summed = ("counts", "sums", "squares")

    def __init__(self, shifts: Floats, ridge: float, centre: Floats) -> None:
        super().__init__(shifts, ridge)
        self.centre, self.squares = centre, np.zeros(shifts.shape)

    @classmethod
    def about(cls, means: Floats, whole: Moments, rows: Any) -> Self:
        return cls(means, 0.0, whole.mean)

    def empty(self, means: Floats) -> Self:
        return type(self)(means, self.ridge, self.centre)

    def add(self, x: NDArray, responsibilities: Floats) -> None:
        rows = x - self.centre
        self.counts += responsibilities.sum(axis=0)
        self.sums += responsibilities.T @ rows
        np.square(rows, out=rows)
        self.squares += responsibilities.T @ rows

    def components(self) -> tuple[DiagonalComponents, NDArray[np.int64]]:
        kept, weights, offsets = self._kept()
        variances = np.maximum(self._asked()[kept], self._floor)
        return DiagonalComponents(weights, self.centre + offsets, variances), kept

    def conditioning(
        self, components: DiagonalComponents, kept: NDArray[np.int64], *, measured: bool
    ) -> tuple[Conditioning, ...]:
        """One line for each component that was kept; measuring costs nothing here."""
        lines = []
        asked = self._asked()
        for k, used in zip(kept.tolist(), components.variances):
            remedy = "pooled covariance" if self.counts[k] < 2 else ""
            if np.any(used > asked[k]):
                remedy = f"variances raised to {self._floor:.1e}"
            rank = int((used > self.ridge + self._floor).sum())
            condition = float(used.max() / used.min())
            lines.append(Conditioning(k, float(self.counts[k]), rank, condition, self.ridge, "float64", remedy))
        return tuple(lines)

    def _asked(self) -> Floats:
        """[K, H] variances with the ridge; a component of fewer than two points takes the pooled ones."""
        counts = np.maximum(self.counts, np.finfo(float).tiny)[:, None]
        variances = np.maximum(self.squares / counts - (self.sums / counts) ** 2, 0.0)
        variances[self.counts < 2] = self.counts @ variances / self.counts.sum()
        return self._shared(variances) + self.ridge

    def _shared(self, variances: Floats) -> Floats:
        return variances

    @property
    def _floor(self) -> float:
        """What a variance must reach to be divided by: 1e-10 of the mean variance of all rows."""
        total = self.counts.sum()
        spread = self.squares.sum(axis=0) / total - (self.sums.sum(axis=0) / total) ** 2
        return 1e-10 * (float(np.maximum(spread, 0.0).mean()) or 1.0)


class SphericalStatistics(DiagonalStatistics):
    """The same, with one variance for all features of a component: the mean of theirs."""

    covariance: Covariance = "spherical"

    def _shared(self, variances: Floats) -> Floats:
        return np.broadcast_to(variances.mean(axis=1, keepdims=True), variances.shape)
