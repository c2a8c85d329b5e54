"""Uncertainty vector fields: the gradients of U_max, U_entropy and U_density with respect to z (T1-T3).

`KnownMixture` is a mixture of Gaussians given by its weights, means and covariances, for whatever is stated of mixtures
by their formulas (T3, T5-T7, T21). Mixtures fitted to features are `softscope.mixture`'s.
"""

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..arrays import Floats, as_matrix, as_vector, chunk_rows, spans
from ..errors import SoftscopeError
from ..head import Head


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


def max_field(head: Head, z: Any) -> Floats:
    """dU_max/dz = s_i sum_j s_j (w_j - w_i), i = argmax s (T1), float64 [N, H]."""
    return _head_field(head, z, _max_slope)


def entropy_field(head: Head, z: Any) -> Floats:
    """dU_entropy/dz = sum_i (log s_i + 1) s_i sum_j s_j (w_j - w_i) (T2), float64 [N, H].

    Computed as W'g with g_k = -s_k (log s_k + U_entropy): the + 1 cancels, and no K x K x H array is needed.
    """
    return _head_field(head, z, _entropy_slope)


def density_field(weights: Any, means: Any, covariances: Any, z: Any) -> Floats:
    """dU_density/dz = sum_i r_i Sigma_i^-1 (z - mu_i), r_i = pi_i N(z; mu_i, Sigma_i) / q(z) (T3 as corrected).

    The normaliser det(Sigma_i)^(-1/2) is inside r_i; the paper's printed form leaves it out.
    """
    from scipy.linalg import cho_solve

    mixture = KnownMixture(weights, means, covariances)
    rows = np.asarray(z, np.float64)
    out = np.zeros_like(rows)
    for span in spans(len(rows), chunk_rows(mixture.n_features)):
        joint = mixture.log_joint(rows[span])
        shares = np.exp(joint - np.logaddexp.reduce(joint, axis=1)[:, None])
        for i, (mean, factor) in enumerate(zip(mixture.means, mixture.factors)):
            pull = cho_solve((factor, True), (rows[span] - mean).T, check_finite=False).T
            out[span] += shares[:, i : i + 1] * pull
    return out


def log_softmax(logits: Floats) -> Floats:
    """log s, accurate also where s_max rounds to 1: the largest gets -log1p(sum of the others over it)."""
    shifted = logits - logits.max(axis=1, keepdims=True)
    lead = logits.argmax(axis=1)
    weights = np.exp(shifted)
    np.put_along_axis(weights, lead[:, None], 0.0, axis=1)
    log_s: Floats = shifted - np.log1p(weights.sum(axis=1, keepdims=True))
    return log_s


def _head_field(head: Head, z: Any, slope: Any) -> Floats:
    rows = head.check(z)
    weight = head.weight.astype(np.float64)
    bias = head.bias.astype(np.float64)
    out = np.empty(rows.shape)
    for span in spans(len(rows), chunk_rows(max(head.n_features, head.n_classes))):
        logits = rows[span].astype(np.float64) @ weight.T + bias
        np.matmul(slope(log_softmax(logits)), weight, out=out[span])
    return out


def _max_slope(log_s: Floats) -> Floats:
    """dU_max/dlogits = s_i (s - e_i)."""
    s = np.exp(log_s)
    lead = log_s.argmax(axis=1)[:, None]
    top = np.take_along_axis(s, lead, axis=1)
    slope = top * s
    # 1 - s_i is minus the sum of the others, which keeps its digits where s_i rounds to 1.
    np.put_along_axis(slope, lead, 0.0, axis=1)
    np.put_along_axis(slope, lead, -slope.sum(axis=1, keepdims=True), axis=1)
    return slope


def _entropy_slope(log_s: Floats) -> Floats:
    """dU_entropy/dlogits = -s (log s + U_entropy)."""
    s = np.exp(log_s)
    entropy = -(s * log_s).sum(axis=1, keepdims=True)
    slope: Floats = -s * (log_s + entropy)
    return slope
