"""Evidence that a stream has changed, exact at any time: ranks among all earlier scores, and bets against them.

While scores stay exchangeable with the calibration scores, the ranks are independent and uniform, so no bettor can gain
on average: the capital S_t of a fair game exceeds 1/a at any time with probability at most a (Ville). Import only where
needed: numba takes half a second.
"""

from math import exp, log, log1p
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..compiling import compiled

Counts = NDArray[np.int64]
#: Bets on p: (shape, kappa). 0 more uncertain scores: kappa p^(kappa-1); 1 less: kappa (1-p)^(kappa-1); 2 both: their
#: mean; 3 neither: 6 p (1-p). Each has integral 1, so that none gains on average.
BETS = np.array([(0, 0.5), (0, 0.8), (0, 0.95), (1, 0.5), (1, 0.8), (1, 0.95), (2, 0.5), (3, 0.0)])
EDGES, TAIL = 1024, 64
_RESTART_SCALE = 1000.0  # rows: capital is kept back for changes that come much later than this


def edge_ranks(calibrated: int) -> Counts:
    """Which of the ascending calibration scores are edges: at most about EDGES evenly spaced, and the TAIL largest.

    Chosen by rank alone. Edges that depended on which scores tie would make ranks among tied scores predictable.
    """
    spaced = np.linspace(0, calibrated - 1, min(calibrated, EDGES)).round().astype(np.int64)
    return np.union1d(spaced, np.arange(max(0, calibrated - TAIL), calibrated))


def first_masses(edges: Counts, calibrated: int) -> Counts:
    """Gaps between calibration scores in each bin (e_k-1, e_k]: as many as scores, and one more above the last edge.

    A fresh score falls into each of the n + 1 gaps with equal probability, so into a bin with its mass / (n + 1).
    """
    return np.diff(edges, prepend=-1, append=calibrated).astype(np.int64)


@compiled()
def ranks(bins: Any, uniforms: Any, masses: Any) -> Any:
    """p = (mass of the bins above + u mass of its own bin) / (n + t), each score then adding its own gap to `masses`.

    With one bin per score this is (#{earlier > s} + u (1 + #{earlier = s})) / (n + t). Exact for any bins whose edges
    are calibration scores: p is uniform whatever the earlier ones were.
    """
    p_values = np.empty(bins.size)
    total = masses.sum()
    for row in range(bins.size):
        own = bins[row]
        above = masses[own + 1 :].sum()
        p_values[row] = (above + uniforms[row] * masses[own]) / total
        masses[own] += 1
        total += 1
    return p_values


@compiled()
def log_evidence(p_values: Any, done: int, capital: Any, bets: Any) -> Any:
    """log S_t after each p-value, `done` of which came before; `capital` [B] holds the logarithms of A_b, carried on.

    A_b,t = (A_b,t-1 + w_t / B) f_b(p_t) and S_t = sum_b A_b,t + R(t), w_t = R(t-1) - R(t): a mixture over all times at
    which a bettor may have started, with 1/R(t) = 1 + log(1 + t / 1000) of the capital still kept back. No resets.
    """
    out = np.empty(p_values.size)
    for row in range(p_values.size):
        p = min(max(p_values[row], 1e-300), 1.0)
        low, high = log(p), log(max(1.0 - p, 1e-17))
        t = done + row
        kept, left = _reserve(t), _reserve(t + 1)
        start = log((kept - left) / capital.size)
        largest = log(left)
        for b in range(capital.size):
            shape, kappa = bets[b]
            if shape == 0:
                gain = log(kappa) + (kappa - 1) * low
            elif shape == 1:
                gain = log(kappa) + (kappa - 1) * high
            elif shape == 2:
                gain = log(kappa / 2) + _log_sum((kappa - 1) * low, (kappa - 1) * high)
            else:
                gain = log(6.0) + low + high
            capital[b] = _log_sum(capital[b], start) + gain
            largest = max(largest, capital[b])
        whole = exp(log(left) - largest)
        for b in range(capital.size):
            whole += exp(capital[b] - largest)
        out[row] = largest + log(whole)
    return out


@compiled()
def _reserve(t: int) -> Any:
    return 1.0 / (1.0 + log1p(t / _RESTART_SCALE))


@compiled()
def _log_sum(a: float, b: float) -> Any:
    """log(exp(a) + exp(b)); a may be -inf."""
    return max(a, b) + log1p(exp(-abs(a - b)))
