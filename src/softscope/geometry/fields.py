"""Uncertainty vector fields: the gradients of U_max, U_entropy and U_density with respect to z (T1-T3)."""

from typing import Any

import numpy as np

from ..arrays import Floats, chunk_rows, spans
from ..head import Head
from .known import KnownMixture


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
