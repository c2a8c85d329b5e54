"""T8, T10, T11: the linear approximation of the exact region of U_max."""

from collections.abc import Callable
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from ...arrays import Floats
from ...geometry import linear_region
from ...head import Head
from .regions import Membership
from .register import Measured, checks

Offset = Callable[[Floats, Floats, float], float]
Rate = Callable[[Floats], float]
Bound = Callable[[Floats], Floats]


def pair_offset(w_i: Floats, w_j: Floats, logit_t: float) -> float:
    """T8: alpha_ij = logit(t) / norm(w_i - w_j)^2, the same on both sides of the boundary."""
    return float(logit_t / ((w_i - w_j) @ (w_i - w_j)))


def predicted_rate(leads: Floats) -> float:
    """T10: delta = w_1'd - max_{j >= 3} w_j'd, the smallest of the leads along the boundary direction d."""
    return float(leads.min())


def sigmoid(gap: Floats) -> Floats:
    """T11: 1 / (1 + exp(-gap)), the largest confidence that a gap between the two largest logits allows."""
    return np.asarray(1.0 / (1.0 + np.exp(-gap)))


@checks("T8")
def check_linear(
    *, formula: Membership = linear_region, offset: Offset = pair_offset, trials: int = 300, seed: int = 8
) -> Measured:
    """T8: the top-two form against the union of hyperplane pairs, and alpha against the limit that defines it."""
    rng = np.random.default_rng(seed)
    differ, points, flagged = 0, 0, 0
    for _ in range(trials):
        head = _random_head(rng, bias=True)
        logit_t = float(rng.uniform(-1.0, 6.0))
        z = float(rng.uniform(0.5, 6.0)) * rng.standard_normal((1000, head.n_features))
        inside = formula(head, logit_t).contains(z)
        differ += int((inside != by_hyperplanes(head, z, logit_t, offset)).sum())
        points, flagged = points + len(z), flagged + int(inside.sum())
    limits = [_offsets_in_the_limit(_random_head(rng, bias=False), rng, offset) for _ in range(trials)]
    sides = np.array([pair for pairs, _, _ in limits for pair in pairs])
    overtaken, unbounded = (sum(counts) for counts in list(zip(*limits))[1:])
    error = float(np.abs(sides[:, :2] / sides[:, 2:] - 1.0).max())
    return Measured(
        {
            "trials": trials,
            "seed": seed,
            "points": points,
            "disagreements": differ,
            "pairs_with_a_limit": len(sides),
            "pairs_without_a_limit": overtaken,
            "worst_offset_error": error,
            "worst_difference_of_sides": float(np.abs(sides[:, 0] / sides[:, 1] - 1.0).max()),
        },
        {
            "both definitions give one region": differ == 0 and 0 < flagged < points,
            "alpha is the same on both sides, for every structure": error < 1e-6,
            "where a third class leads no offset holds the confidence at t": unbounded == overtaken > 0,
        },
        {"flagged": flagged, "share": len(sides) / (len(sides) + overtaken)},
    )


@checks("T10")
def check_convergence(*, rate: Rate = predicted_rate, trials: int = 200, seed: int = 10) -> Measured:
    """T10: how fast the exact boundary approaches the linear one along a decision boundary, and where it does not."""
    rng = np.random.default_rng(seed)
    every = [_decay(rng, rate) for _ in range(trials)]
    ratios = np.array([ratio for ratio in every if ratio is not None])
    ties = np.array([_excess_at_a_tie(rng) for _ in range(20)])
    kept = float((ties[:, 1] / ties[:, 0]).min())
    return Measured(
        {
            "trials": trials,
            "seed": seed,
            "measured": len(ratios),
            "rate_ratio_median": float(np.median(ratios)),
            "rate_ratio_range": [float(ratios.min()), float(ratios.max())],
            "excess_kept_at_a_tie": kept,
        },
        {
            "the excess vanishes at least as fast as predicted": float(ratios.min()) > 0.99,
            "the predicted rate is reached": abs(float(np.median(ratios)) - 1.0) < 0.02,
            "at a tie of three the excess stays": kept > 0.999,
        },
    )


@checks("T11")
def check_subset(*, bound: Bound = sigmoid, points: int = 10_000_000, seed: int = 11) -> Measured:
    """T11: s_max <= 1 / (1 + exp(-gap)) at ten million points, which puts every linear region inside its exact one."""
    rng = np.random.default_rng(seed)
    worst, beyond, tight = -np.inf, 0, np.inf
    structures = 200
    for _ in range(structures):
        head = _random_head(rng, bias=bool(rng.integers(2)), most=8)
        spread = float(np.exp(rng.uniform(-2.0, 3.0)))
        logits = np.asarray(head.logits(spread * rng.standard_normal((points // structures, head.n_features))))
        ordered = np.partition(logits, -2, axis=1)
        powers = np.exp(np.maximum(ordered - ordered[:, -1:], -80.0))
        confidence = 1.0 / powers.sum(axis=1)
        top = bound(ordered[:, -1] - ordered[:, -2])
        over = (confidence - top) / np.spacing(top)
        worst, beyond = max(worst, float(over.max())), beyond + int((over > 4.0).sum())
        tight = min(tight, float((top - confidence).min()))
    return Measured(
        {"points": points, "structures": structures, "seed": seed, "violations": beyond, "largest_excess_ulp": worst},
        {
            "s_max never exceeds 1/(1+exp(-gap)) by more than 4 ulp": beyond == 0,
            "the bound is sharp: some points come close": tight < 1e-6,
        },
        {"closest": max(tight, 0)},
    )


def by_hyperplanes(head: Head, z: Floats, logit_t: float, offset: Offset = pair_offset) -> NDArray[np.bool_]:
    """The linear region as the paper defines it: for each pair i, j a slab around their boundary, where i or j leads.

    The slab reaches alpha_ij norm(w_i - w_j) to either side. Alphas must be positive: no slab for t <= 1/2.
    """
    bias = head.bias
    lead = np.asarray(head.logits(z)).argmax(axis=1)
    inside = np.zeros(len(z), bool)
    for i, j in combinations(range(head.n_classes), 2):
        normal = head.weight[i] - head.weight[j]
        alpha = offset(head.weight[i], head.weight[j], logit_t)
        side = z @ normal + bias[i] - bias[j]
        inside |= ((lead == i) | (lead == j)) & (np.abs(side) < alpha * (normal @ normal))
    return inside


def _offsets_in_the_limit(
    head: Head, rng: np.random.Generator, offset: Offset
) -> tuple[list[tuple[float, float, float]], int, int]:
    """For each pair that leads along its e_ij: alpha on either side, where confidence is t far out, and T8's value.

    Then the number of pairs that a third class overtakes along e_ij, and how many of them have no limit: at the offset
    of T8 the confidence falls ever further below t. Pairs within 1e-3 of a tie of three are neither.
    """
    weight, logit_t, rows, overtaken, unbounded = head.weight, float(rng.uniform(0.2, 5.0)), [], 0, 0
    for i, j in combinations(range(head.n_classes), 2):
        normal = weight[i] - weight[j]
        along = weight[i] + weight[j]
        along = along - (along @ normal) / (normal @ normal) * normal
        along = along * np.sign(along @ weight[i])
        others = np.delete(weight, [i, j], axis=0) @ along
        lead = float(weight[i] @ along - others.max())
        if lead > 1e-3 * float(np.linalg.norm(along)):
            # Far out, but no farther than rounding of the logits allows.
            start = 45.0 / lead * along
            sides = [edge_offset(weight, start, sign * normal, k, logit_t) for sign, k in ((1.0, i), (-1.0, j))]
            rows.append((sides[0], sides[1], offset(weight[i], weight[j], logit_t)))
        elif lead < 0:
            overtaken += 1
            step = pair_offset(weight[i], weight[j], logit_t) * normal
            near, far = (_odds(weight @ (beta / -lead * along + step), i) for beta in (45.0, 900.0))
            unbounded += int(far < min(near, logit_t))
    return rows, overtaken, unbounded


def _odds(logits: Floats, k: int) -> float:
    """log(s_k / (1 - s_k))."""
    return float(logits[k] - np.logaddexp.reduce(np.delete(logits, k)))


def edge_offset(weight: Floats, start: Floats, step: Floats, k: int, logit_t: float) -> float:
    """The a > 0 at which class k has confidence t at start + a step."""
    from scipy.optimize import brentq

    base, slope = weight @ start, weight @ step

    def excess(a: float) -> float:
        return _odds(base + a * slope, k) - logit_t

    reach = 1.0
    while excess(reach) < 0:
        reach *= 2.0
    return float(brentq(excess, 0.0, reach, xtol=1e-15, rtol=1e-14))


def _decay(rng: np.random.Generator, rate: Rate) -> float | None:
    """Measured over predicted rate at which the excess width falls along the boundary under a random point."""
    head = _random_head(rng, bias=False)
    weight = head.weight
    direction = rng.standard_normal(head.n_features)
    i, j = np.argsort(weight @ direction)[::-1][:2]
    normal = weight[i] - weight[j]
    direction = direction - (direction @ normal) / (normal @ normal) * normal
    direction = direction / np.linalg.norm(direction)
    leads = weight[i] @ direction - np.delete(weight, [i, j], axis=0) @ direction
    if leads.min() < 0.02:
        return None
    logit_t, delta = float(rng.uniform(0.5, 4.0)), float(leads.min())
    linear = pair_offset(weight[i], weight[j], logit_t)
    near, far = 14.0 / delta, 16.0 / delta
    excess = [edge_offset(weight, beta * direction, normal, int(i), logit_t) - linear for beta in (near, far)]
    if min(excess) < 1e-12:
        return None
    return float(np.log(excess[0] / excess[1]) / (far - near) / rate(leads))


def _excess_at_a_tie(rng: np.random.Generator) -> tuple[float, float]:
    """Excess width at distance 10 and 40 along the line where all three classes of a random head in R^3 tie."""
    weight = rng.standard_normal((3, 3))
    direction = np.cross(weight[0] - weight[1], weight[0] - weight[2])
    direction = direction / np.linalg.norm(direction)
    normal = weight[0] - weight[1]
    if (weight[2] - weight[0]) @ normal > 0:
        # Otherwise class 3 overtakes class 1 on this side of the boundary.
        weight[2] = weight[0] - (weight[2] - weight[0])
    linear = pair_offset(weight[0], weight[1], 2.0)
    near, far = (edge_offset(weight, beta * direction, normal, 0, 2.0) - linear for beta in (10.0, 40.0))
    return near, far


def _random_head(rng: np.random.Generator, *, bias: bool, most: int = 10) -> Head:
    classes, features = int(rng.integers(3, most + 1)), int(rng.integers(2, most + 1))
    return Head(rng.standard_normal((classes, features)), rng.standard_normal(classes) if bias else None)
