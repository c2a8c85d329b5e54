"""The largest possible violation of T15 and T16: how far s_max can rise while max cos falls, found by optimisation."""

from collections.abc import Callable

import numpy as np

from ...arrays import Floats
from ...geometry.structures import simplex


def largest_violation(classes: int, c: float) -> float:
    """max of s_max(z') - s_max(z) over points of norm c with max cos(z') <= max cos(z), optimal structure, H >= K.

    Variables are the projections y, y' of both points on the span of the weights (norm at most 1), both led by class 1.
    SLSQP from each natural start: y where the first p + 1 classes tie, y' along w_1, where all others tie.
    """
    from scipy.optimize import minimize

    weight = simplex(classes)
    limits, feasible = _limits(weight)
    loss = _loss(weight, c)
    best = 0.0
    for tied in range(2, classes):
        low = weight[:tied].sum(axis=0)
        low = low / np.linalg.norm(low)
        start = np.concatenate([0.999 * low, 0.998 * (low @ weight[0]) * weight[0]])
        found = minimize(loss, start, jac=True, constraints=limits, method="SLSQP", options={"maxiter": 200})
        for x in (start, found.x):
            if feasible(x):
                best = max(best, -loss(x)[0])
    return best


def _loss(weight: Floats, c: float) -> Callable[[Floats], tuple[float, Floats]]:
    """s_1(y) - s_1(y') with its slopes."""

    def loss(x: Floats) -> tuple[float, Floats]:
        logits = c * x.reshape(2, -1) @ weight.T
        s = np.exp(logits - np.logaddexp.reduce(logits, axis=1)[:, None])
        slopes = c * s[:, :1] * (weight[0] - s @ weight)
        return float(s[0, 0] - s[1, 0]), np.concatenate([slopes[0], -slopes[1]])

    return loss


def _limits(weight: Floats) -> tuple[list[dict[str, object]], Callable[[Floats], bool]]:
    """Class 1 leads at y and y', cos_1(y) >= cos_1(y'), norms at most 1: for SLSQP, and as a test."""
    size = weight.shape[1]
    leads = weight[0] - weight[1:]
    linear = np.zeros((2 * size + 1, 2 * size))
    linear[:size, :size] = linear[size : 2 * size, size:] = leads
    linear[-1, :size], linear[-1, size:] = weight[0], -weight[0]

    def room(x: Floats) -> Floats:
        return np.asarray(1.0 - (x.reshape(2, size) ** 2).sum(axis=1))

    def room_slopes(x: Floats) -> Floats:
        slopes = np.zeros((2, 2 * size))
        slopes[0, :size], slopes[1, size:] = -2.0 * x[:size], -2.0 * x[size:]
        return slopes

    def feasible(x: Floats) -> bool:
        return bool((linear @ x).min() > -1e-9 and room(x).min() > -1e-9)

    return [
        {"type": "ineq", "fun": lambda x: linear @ x, "jac": lambda x: linear},
        {"type": "ineq", "fun": room, "jac": room_slopes},
    ], feasible
