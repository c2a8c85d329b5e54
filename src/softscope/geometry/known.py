"""`KnownMixture`: a mixture of Gaussians given by its weights, means and covariances.

For mixtures given by their formulas (T3, T5-T7, T21). Mixtures fitted to features are `softscope.mixture`'s.
"""

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..arrays import Floats, as_matrix, as_vector, chunk_rows, spans
from ..errors import SoftscopeError


class KnownMixture:
    """`weights` [C] summing to 1, `means` [C, H], `covariances` [C, H, H]; log densities in float64."""

    def __init__(self, weights: Any, means: Any, covariances: Any) -> None:
        self.means: Floats = as_matrix(np.asarray(means, float), "means").astype(np.float64)
        count, size = self.means.shape
        self.weights: Floats = as_vector(np.asarray(weights, float), "weights", length=count).astype(np.float64)
        self.covariances: Floats = np.asarray(covariances, np.float64)
        if self.covariances.shape != (count, size, size):
            raise SoftscopeError(
                f"covariances: expected shape {(count, size, size)}, found {self.covariances.shape}",
                "Give one H x H matrix per component",
            )
        if (self.weights <= 0).any() or abs(self.weights.sum() - 1.0) > 1e-9:
            raise SoftscopeError("weights: expected positive numbers that sum to 1", "Divide them by their sum")

    @property
    def n_features(self) -> int:
        """H."""
        return int(self.means.shape[1])

    @cached_property
    def factors(self) -> Floats:
        """Lower Cholesky factors of the covariances, [C, H, H]."""
        try:
            return np.stack([np.linalg.cholesky(covariance) for covariance in self.covariances])
        except np.linalg.LinAlgError as error:
            raise SoftscopeError("covariances: not all are positive definite", "Add a small ridge") from error

    @cached_property
    def log_normalisers(self) -> Floats:
        """log pi_i - log det(Sigma_i) / 2 - (H / 2) log(2 pi), [C]: the part of the log density without z."""
        logdets = np.log(np.diagonal(self.factors, axis1=1, axis2=2)).sum(axis=1)
        normalisers: Floats = np.log(self.weights) - logdets - 0.5 * self.n_features * np.log(2.0 * np.pi)
        return normalisers

    def squared_distances(self, z: Floats) -> Floats:
        """(z - mu_i)' Sigma_i^-1 (z - mu_i) of each row to each component, [N, C]."""
        from scipy.linalg import solve_triangular

        out = np.empty((len(z), len(self.means)))
        for i, (mean, factor) in enumerate(zip(self.means, self.factors)):
            white = solve_triangular(factor, (z - mean).T, lower=True, check_finite=False)
            out[:, i] = np.einsum("hn,hn->n", white, white)
        return out

    def log_joint(self, z: Floats) -> Floats:
        """log pi_i N(z; mu_i, Sigma_i) of each row and component, [N, C]."""
        return self.log_normalisers - 0.5 * self.squared_distances(z)

    def log_density(self, z: Any) -> Floats:
        """log q(z) of each row, in chunks."""
        rows = np.asarray(z, np.float64)
        out = np.empty(len(rows))
        for span in spans(len(rows), chunk_rows(self.n_features)):
            out[span] = np.logaddexp.reduce(self.log_joint(rows[span]), axis=1)
        return out

    def sample(self, count: int, rng: np.random.Generator) -> tuple[Floats, NDArray[np.int64]]:
        """`count` draws and the component each came from."""
        labels = rng.choice(len(self.weights), size=count, p=self.weights)
        z = rng.standard_normal((count, self.n_features))
        for i, factor in enumerate(self.factors):
            mine = labels == i
            z[mine] = self.means[i] + z[mine] @ factor.T
        return z, labels
