"""Mergeable first and second moments: count, mean and centred scatter, in float64."""

from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..arrays import Floats


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
