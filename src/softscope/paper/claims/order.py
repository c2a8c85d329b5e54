"""T15 and T16: on the optimal structure, does a lower max cos always mean a higher U_max at fixed norm?

With unit weights and norm(z) = c the logits are c cos(w_i, z), and U_max is ordered by log sum_{j >= 2} exp(c (cos_j -
cos_1)), cosines sorted. Points uniform on the sphere of R^H are drawn by their projection on the span of the weights.
"""

from collections.abc import Callable
from itertools import pairwise

import numpy as np

from ...arrays import Floats
from ...geometry import simplex, uniform_on_sphere
from .register import APPROXIMATE, CONDITIONS, Outcome, checks, decide

Statistic = Callable[[Floats], Floats]
Derivative = Callable[[Floats, float], Floats]
# Discordant pairs as the register states them: (K, H, norm) -> share.
REGISTERED = {
    (3, 3, 5.0): 0.12,
    (3, 16, 5.0): 0.09,
    (100, 512, 1.0): 0.002,
    (100, 512, 5.0): 0.010,
    (100, 512, 20.0): 0.041,
    (10, 64, 1.0): 0.012,
    (10, 64, 5.0): 0.056,
    (10, 64, 20.0): 0.16,
}


def largest_cosine(cosines: Floats) -> Floats:
    """max_i cos(w_i, z)."""
    return np.asarray(cosines.max(axis=1))


def slope_in_plane(theta: Floats, c: float) -> Floats:
    """d s_max / d cos(theta) for K = 3 in the plane of the weights, theta the angle to the leading one: positive."""
    others = (2 * np.pi / 3 - theta, 2 * np.pi / 3 + theta)
    powers = [np.exp(c * np.cos(angle)) for angle in (theta, *others)]
    total = sum(powers)
    moves = (-np.sin(theta), np.sin(others[0]), -np.sin(others[1]))
    mean = sum(power * move for power, move in zip(powers, moves)) / total
    return np.asarray(powers[0] / total * c * (moves[0] - mean) / -np.sin(theta))


@checks("T15")
def check_small(
    *,
    statistic: Statistic = largest_cosine,
    derivative: Derivative = slope_in_plane,
    pairs: int = 200_000,
    seed: int = 15,
) -> Outcome:
    """T15: discordant pairs for K = 2, for K = 3 in the plane and off it; the two rotations of the proof; the worst."""
    rng = np.random.default_rng(seed)
    norms = (1.0, 5.0, 20.0)
    planar = max(discordance(k, h, c, pairs, rng, statistic) for k, h in ((2, 2), (2, 16), (3, 2)) for c in norms)
    off_plane = {f"H={h}, norm={c:g}": discordance(3, h, c, pairs, rng, statistic) for h in (3, 16) for c in norms}
    worst = {c: largest_violation(3, c) for c in norms}
    slope_error, least_slope = _slope_errors(derivative)
    rotations = _rotations_are_monotone(3, norms)
    at_five = off_plane["H=3, norm=5"], off_plane["H=16, norm=5"]
    return decide(
        CONDITIONS,
        f"no discordant pair for K = 2, nor for K = 3 in the plane of the weights ({pairs:,} pairs each); off the "
        f"plane, at norm 5, {at_five[0]:.1%} (H = 3) and {at_five[1]:.1%} (H = 16) of pairs are ordered the other "
        f"way, by up to {worst[5.0]:.2f} in s_max; each rotation of the proof is monotone; ds_max/dcos is positive",
        {
            "pairs": pairs,
            "seed": seed,
            "discordant_share_planar": planar,
            "discordant_share_off_plane": off_plane,
            "largest_violation_by_norm": worst,
            "smallest_slope": least_slope,
            "worst_slope_error": slope_error,
        },
        {
            "K = 2, and K = 3 in the plane: no discordant pair": planar == 0.0,
            "H = 3, norm 5: the share in the register": abs(at_five[0] - REGISTERED[3, 3, 5.0]) < 0.01,
            "H = 16, norm 5: the share in the register": abs(at_five[1] - REGISTERED[3, 16, 5.0]) < 0.01,
            "both rotations of the proof are monotone": rotations,
            "the slope is positive and equals finite differences": least_slope > 0 and slope_error < 1e-6,
            "violations of a size that matters exist": worst[5.0] > 0.1,
        },
    )


@checks("T16")
def check_large(*, statistic: Statistic = largest_cosine, pairs: int = 50_000, seed: int = 16) -> Outcome:
    """T16: discordant pairs for K = 10 and 100, the rotation from one weight towards another, the worst violation."""
    rng = np.random.default_rng(seed)
    sizes = [key for key in REGISTERED if key[0] > 3]
    shares = {key: discordance(*key, pairs, rng, statistic) for key in sizes}
    gap = max(abs(shares[key] - REGISTERED[key]) for key in sizes)
    tenth = {c: largest_violation(10, c) for c in (1.0, 5.0, 20.0)}
    small = {f"K={k}": discordance(k, 4 * k, 5.0, pairs, rng, statistic) for k in (5, 10, 20, 50, 100)}
    rotations = _rotations_are_monotone(100, (1.0, 5.0, 20.0))
    named = {f"K={k}, H={h}, norm={c:g}": share for (k, h, c), share in shares.items()}
    return decide(
        APPROXIMATE,
        f"discordant pairs, norms 1, 5, 20: K = 100, H = 512: {_percent(shares, 100, 512)}; K = 10, H = 64: "
        f"{_percent(shares, 10, 64)}; largest violation for K = 10: {tenth[1.0]:.3f}, {tenth[5.0]:.2f}, "
        f"{tenth[20.0]:.2f} in s_max; moving straight from one weight to another is monotone",
        {
            "pairs": pairs,
            "seed": seed,
            "discordant_share": named,
            "largest_gap_to_register": gap,
            "discordant_share_norm_5_H_4K": small,
            "largest_violation_K10_by_norm": tenth,
        },
        {
            "the shares are those of the register to half a point": gap < 0.005,
            "more classes, fewer discordant pairs": all(a > b for a, b in pairwise(small.values())),
            "it is no exact order": min(shares.values()) > 0.0005,
            "the rotation between two weights is monotone": rotations,
        },
    )


def discordance(
    classes: int, features: int, c: float, pairs: int, rng: np.random.Generator, statistic: Statistic = largest_cosine
) -> float:
    """Share of pairs, uniform on the sphere of radius c, where the larger statistic comes with the larger U_max."""
    cosines = draw_cosines(classes, features, 2 * pairs, rng)
    order, u_max = statistic(cosines), log_odds_of(cosines, c)
    apart = u_max[:pairs] - u_max[pairs:], order[:pairs] - order[pairs:]
    # Differences within rounding have no order: they are not counted as discordant.
    clear = (np.abs(apart[0]) > 1e-12) & (np.abs(apart[1]) > 1e-12)
    return float(((apart[0] * apart[1] > 0) & clear).mean())


def draw_cosines(classes: int, features: int, count: int, rng: np.random.Generator) -> Floats:
    """cos(w_i, z) to the K weights of the optimal structure, z uniform on the sphere of R^H, [count, K]."""
    return uniform_on_sphere(count, features, rng, keep=classes - 1) @ simplex(classes).T


def log_odds_of(cosines: Floats, c: float) -> Floats:
    """U_max in rank form at norm c, unit weights: log sum_{j >= 2} exp(c (cos_j - cos_1)), cosines sorted."""
    ordered = np.partition(cosines, -1, axis=1)
    below = np.maximum(c * (ordered[:, :-1] - ordered[:, -1:]), -700.0)
    return np.logaddexp.reduce(below, axis=1) if below.shape[1] < 4 else _log_sum(below)


def _rotations_are_monotone(classes: int, norms: tuple[float, ...]) -> bool:
    """U_max rises from w_1 to the boundary with w_2 along their great circle, and when z is lifted off the span."""
    weight = simplex(classes)
    toward = weight[1] - (weight[1] @ weight[0]) * weight[0]
    toward = toward / np.linalg.norm(toward)
    half = 0.5 * np.arccos(weight[0] @ weight[1])
    angles = np.linspace(0.0, half, 400)
    turned = np.cos(angles)[:, None] * weight[0] + np.sin(angles)[:, None] * toward
    lifted = np.cos(np.linspace(0.0, 0.999 * np.pi / 2, 400))[:, None] * turned[137]
    paths = [log_odds_of(path @ weight.T, c) for path in (turned, lifted) for c in norms]
    return all(bool((np.diff(path) > 0).all()) for path in paths)


def _slope_errors(derivative: Derivative) -> tuple[float, float]:
    """Largest error of the derivative against central differences in cos(theta), and its smallest value."""
    theta = np.linspace(0.02, np.pi / 3 - 0.001, 200)
    error, least = 0.0, np.inf
    for c in (0.5, 1.0, 2.0, 5.0, 10.0):
        step = 1e-6
        up, down = (_planar_confidence(np.arccos(np.cos(theta) + sign * step), c) for sign in (1.0, -1.0))
        slope = derivative(theta, c)
        error, least = max(error, float(np.abs(slope - (up - down) / (2 * step)).max())), min(least, float(slope.min()))
    return error, least


def _planar_confidence(theta: Floats, c: float) -> Floats:
    angles = np.stack([theta, 2 * np.pi / 3 - theta, 2 * np.pi / 3 + theta])
    powers = np.exp(c * np.cos(angles))
    return np.asarray(powers[0] / powers.sum(axis=0))


def _log_sum(below: Floats) -> Floats:
    top = below.max(axis=1, keepdims=True)
    return np.asarray(top[:, 0] + np.log(np.exp(below - top).sum(axis=1)))


def _percent(shares: dict[tuple[int, int, float], float], classes: int, features: int) -> str:
    return ", ".join(f"{share:.1%}" for (k, h, _), share in shares.items() if (k, h) == (classes, features))


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
        solution = minimize(loss, start, jac=True, constraints=limits, method="SLSQP", options={"maxiter": 200})
        for x in (start, solution.x):
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
