"""T15, T16, S1 and S2: on the optimal structure, does a lower max cos always mean a higher U_max at fixed norm?

With unit weights and norm(z) = c the logits are c cos(w_i, z), and U_max is ordered by log sum_{j >= 2} exp(c (cos_j -
cos_1)), cosines sorted. Points uniform on the sphere of R^H are drawn by their projection on the span of the weights.

S1 and S2 go past the paper. Both rest on one identity: on the optimal structure the gaps g_j = cos_1 - cos_j, j >= 2,
add up to K cos_1, because the cosines add up to 0.
"""

from collections.abc import Callable
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from ...arrays import Floats
from ...geometry import simplex, uniform_on_sphere
from .register import Measured, checks

Statistic = Callable[[Floats], Floats]
Derivative = Callable[[Floats, float], Floats]
Order = Callable[[Floats, Floats], NDArray[np.bool_]]
Exponent = Callable[[Floats, int], Floats]
_SIZES = ((3, 3), (3, 16), (5, 5), (10, 64), (100, 512))
_NORMS = (0.1, 1.0, 5.0, 20.0, 100.0)
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
) -> Measured:
    """T15: discordant pairs for K = 2, for K = 3 in the plane and off it; the two rotations of the proof; the worst."""
    rng = np.random.default_rng(seed)
    norms = (1.0, 5.0, 20.0)
    planar = max(discordance(k, h, c, pairs, rng, statistic) for k, h in ((2, 2), (2, 16), (3, 2)) for c in norms)
    off_plane = {f"H={h}, norm={c:g}": discordance(3, h, c, pairs, rng, statistic) for h in (3, 16) for c in norms}
    worst = {c: largest_violation(3, c) for c in norms}
    slope_error, least_slope = _slope_errors(derivative)
    rotations = _rotations_are_monotone(3, norms)
    at_five = off_plane["H=3, norm=5"], off_plane["H=16, norm=5"]
    return Measured(
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
        {"worst_at_five": worst[5.0]},
    )


@checks("T16")
def check_large(*, statistic: Statistic = largest_cosine, pairs: int = 50_000, seed: int = 16) -> Measured:
    """T16: discordant pairs for K = 10 and 100, the rotation from one weight towards another, the worst violation."""
    rng = np.random.default_rng(seed)
    sizes = [key for key in REGISTERED if key[0] > 3]
    shares = {key: discordance(*key, pairs, rng, statistic) for key in sizes}
    gap = max(abs(shares[key] - REGISTERED[key]) for key in sizes)
    tenth = {c: largest_violation(10, c) for c in (1.0, 5.0, 20.0)}
    small = {f"K={k}": discordance(k, 4 * k, 5.0, pairs, rng, statistic) for k in (5, 10, 20, 50, 100)}
    rotations = _rotations_are_monotone(100, (1.0, 5.0, 20.0))
    named = {f"K={k}, H={h}, norm={c:g}": share for (k, h, c), share in shares.items()}
    return Measured(
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
        {"hundred": _percent(shares, 100), "ten": _percent(shares, 10), "violations": list(tenth.values())},
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


def _percent(shares: dict[tuple[int, int, float], float], classes: int) -> str:
    return ", ".join(f"{share:.1%}" for (k, _, _), share in shares.items() if k == classes)


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


def less_apart(gaps: Floats, others: Floats) -> NDArray[np.bool_]:
    """For each row: do the k smallest gaps add up to at most those of the other point, for every k?

    This is weak supermajorisation; it makes sum_j exp(-c g_j) at least as large for every c > 0.
    """
    return np.asarray((np.cumsum(gaps, axis=1) <= np.cumsum(others, axis=1)).all(axis=1))


def equal_gaps_exponent(familiarity: Floats, classes: int) -> Floats:
    """S2: K cos_1 / (K-1), the gap to every other class if all were equally far."""
    return classes / (classes - 1.0) * familiarity


def mental_exponent(familiarity: Floats, classes: int) -> Floats:
    """E5: 1 / (K-1) + cos_1, the gap if every other cosine were -1/(K-1)."""
    return 1.0 / (classes - 1.0) + familiarity


def top_gap(cosines: Floats) -> Floats:
    """cos_1 - cos_2, cosines sorted."""
    ordered = np.partition(cosines, -2, axis=1)
    return np.asarray(ordered[:, -1] - ordered[:, -2])


@checks("S1")
def check_order(*, precedes: Order = less_apart, pairs: int = 20_000, seed: int = 28) -> Measured:
    """S1: pairs that the order decides are never decided wrongly; max cos and the top gap are its two limits."""
    rng = np.random.default_rng(seed)
    wrong, decided, identity = 0, {}, 0.0
    for classes, features in _SIZES:
        cosines = draw_cosines(classes, features, 2 * pairs, rng)
        gaps = sorted_gaps(cosines)
        identity = max(identity, float(np.abs(gaps.sum(axis=1) - classes * cosines.max(axis=1)).max()))
        below, above = precedes(gaps[:pairs], gaps[pairs:]), precedes(gaps[pairs:], gaps[:pairs])
        decided[f"K={classes}, H={features}"] = float((below | above).mean())
        for c in _NORMS:
            rise = (u := log_odds_of(cosines, c))[:pairs] - u[pairs:]
            slack = 1e-11 * np.maximum(1.0, np.abs(u[:pairs]))
            wrong += int((below & (rise < -slack)).sum() + (above & (rise > slack)).sum())
    by_cosine = [discordance(10, 64, c, pairs, rng, largest_cosine) for c in (0.01, 0.1, 1.0)]
    by_gap = [discordance(10, 64, c, pairs, rng, top_gap) for c in (10.0, 100.0, 1000.0)]
    least = min(decided.values())
    return Measured(
        {
            "pairs": pairs,
            "seed": seed,
            "norms": list(_NORMS),
            "wrongly_decided": wrong,
            "decided_share": decided,
            "sum_of_gaps_error": identity,
            "discordant_by_max_cos_small_norms": by_cosine,
            "discordant_by_gap_large_norms": by_gap,
        },
        {
            "the gaps add up to K max cos": identity < 1e-10,
            "no decided pair is decided wrongly": wrong == 0,
            "the order decides most pairs": least > 0.5,
            "max cos is the limit of small norms": by_cosine[0] < 0.001 and by_cosine[0] < by_cosine[-1],
            "the top gap is the limit of large norms": by_gap[-1] < 0.005 and by_gap[-1] < by_gap[0],
        },
        {"sizes": len(_SIZES), "least": least, "most": max(decided.values())},
    )


@checks("S2")
def check_bound(*, exponent: Exponent = equal_gaps_exponent, points: int = 100_000, seed: int = 29) -> Measured:
    """S2: U_max never falls below the bound, the bound is reached, and the mental model lies below the bound."""
    rng = np.random.default_rng(seed)
    excess, reached, below, slack = np.inf, 0.0, np.inf, []
    for classes, features in ((2, 2), *_SIZES):
        count = points if classes < 100 else points // 10
        cosines = draw_cosines(classes, features, count, rng)
        lead = cosines.max(axis=1)
        on_axis = np.linspace(0.05, 1.0, 50)[:, None] * np.where(np.arange(classes) == 0, 1.0, -1.0 / (classes - 1))
        for c in (0.5, 5.0, 20.0):
            bound = np.log(classes - 1.0) - c * exponent(lead, classes)
            u_max = log_odds_of(cosines, c)
            excess = min(excess, float((u_max - bound).min()))
            edge = np.log(classes - 1.0) - c * exponent(on_axis[:, 0], classes)
            reached = max(reached, float(np.abs(log_odds_of(on_axis, c) - edge).max()))
            mental = np.log(classes - 1.0) - c * mental_exponent(lead, classes)
            below = min(below, float((bound - mental).min()))
        slack.append(float(np.median(u_max - bound)))
    return Measured(
        {
            "points": points,
            "seed": seed,
            "smallest_excess": excess,
            "bound_reached_to": reached,
            "smallest_bound_minus_mental": below,
            "median_excess_at_norm_20": slack,
        },
        {
            "U_max is never below the bound": excess > -1e-9,
            "the bound is reached": reached < 1e-9,
            "the mental model is below the bound": below > -1e-9,
        },
        {"sizes": len(_SIZES) + 1},
    )


def sorted_gaps(cosines: Floats) -> Floats:
    """cos_1 - cos_j for all j but the leading class, ascending, [N, K-1]."""
    ordered = np.sort(cosines, axis=1)[:, ::-1]
    return ordered[:, :1] - ordered[:, 1:]
