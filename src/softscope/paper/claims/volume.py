"""T17: is the linear region of the optimal structure the largest?

Without bias the gap of the two largest logits grows in proportion to norm(z), so along a direction u the region ends at
radius logit(t) / gap(u). Its share of a ball of radius R is the mean over u of min(1, logit(t) / (R gap(u)))^H, which
leaves only directions to draw; all structures are measured on the same ones.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ...arrays import Floats
from ...geometry import uniform_on_sphere
from ...geometry.structures import simplex
from .base import CONDITIONS, Claim, Finding, decide

Builder = Callable[[int, int], Floats]
RADII = (1.0, 2.0, 5.0)
_SIZES = ((2, 2), (3, 2), (3, 3), (4, 3), (4, 8), (5, 8), (10, 16))
_DIRECTIONS = 1024


@dataclass(frozen=True)
class Comparison:
    """Shares [S, R] of random structures and of the optimal one, [R], at the radii; the best paired z-score over it."""

    classes: int
    features: int
    strength: float
    random: Floats
    optimal: Floats
    best_z: float


def optimal_weights(classes: int, features: int) -> Floats:
    """The unit weights of the optimal structure, [K, H]."""
    weight = np.zeros((classes, features))
    weight[:, : classes - 1] = simplex(classes)
    return weight


def check_volume(*, optimal: Builder = optimal_weights, structures: int = 1000, seed: int = 17) -> Finding:
    """T17: the optimal structure against random ones, against all angles for K = 3 in the plane, a rival for K = 4."""
    rng = np.random.default_rng(seed)
    found = [compare(k, h, c, structures, rng, optimal) for k, h in _SIZES for c in (1.0, 3.0, 10.0)]
    drawn = structures * len(found)
    best_z = max(one.best_z for one in found)
    ratio = float(np.median([one.random.mean() / max(one.optimal.mean(), 1e-9) for one in found if one.optimal.any()]))
    planar = max(planar_excess(c, radius, optimal) for c in (1.0, 2.0, 3.0, 10.0) for radius in RADII)
    rival = {c: [rival_gain(c, radius, optimal) for radius in RADII] for c in (2.0, 3.0, 20.0)}
    lead, error = rival[2.0][0]
    return decide(
        CONDITIONS,
        f"larger than each of {drawn:,} random structures at radius 1, 2 and 5 c_2 (theirs are {ratio:.0%} of its "
        "size, median over sizes); the best of all angles for K = 3 in the plane; but for K = 4, H = 3 and norm(w) "
        f"c_2 = 2 two opposite pairs at right angles have a larger region, by {lead:.4f} of the ball of radius c_2 "
        f"(error {error:.0e})",
        {
            "random_structures": drawn,
            "seed": seed,
            "sizes": [list(size) for size in _SIZES],
            "directions": _DIRECTIONS,
            "best_random_z_score": best_z,
            "median_random_over_optimal": ratio,
            "planar_best_minus_optimal": planar,
            "two_pairs_minus_optimal_K4_H3_by_strength_and_radius": rival,
        },
        {
            "no random structure has a larger region": best_z < 5.0,
            "no angles in the plane do better for K = 3": planar < 1e-9,
            "for K = 4 and moderate strength two opposite pairs do better": lead > 0.001 and lead > 10 * error,
            "at large strength they do not": all(gain < -error for gain, error in rival[20.0]),
        },
    )


def compare(
    classes: int, features: int, strength: float, structures: int, rng: np.random.Generator, optimal: Builder
) -> Comparison:
    """Random structures (directions uniform, equal norms) against the optimal one, on the same directions.

    A structure counts as better only with a paired z-score: mean over standard error of the difference in share.
    """
    directions = _directions(features, rng)
    best = radial_shares(strength * optimal(classes, features)[None], directions)[0]
    means, z_score = [], -np.inf
    for _ in range(max(1, structures // 100)):
        rows = rng.standard_normal((100, classes, features))
        rows = strength * rows / np.linalg.norm(rows, axis=2, keepdims=True)
        shares = radial_shares(rows, directions)
        ahead = shares - best
        error = ahead.std(axis=1) / np.sqrt(_DIRECTIONS) + 1e-9
        z_score = max(z_score, float((ahead.mean(axis=1) / error).max()))
        means.append(shares.mean(axis=1))
    return Comparison(classes, features, strength, np.concatenate(means), best.mean(axis=0), z_score)


def radial_shares(weights: Floats, directions: Floats, radii: tuple[float, ...] = RADII) -> Floats:
    """Share of each direction's radius, to the power H, inside the linear region: [S, directions, radii], c_2 = 1.

    weights [S, K, H] of equal norms; mu_i = w_i / norm(w_i); t = min_i s_i(mu_i).
    """
    means = weights / np.linalg.norm(weights, axis=2, keepdims=True)
    logits = means @ weights.transpose(0, 2, 1)
    behind = logits - np.diagonal(logits, axis1=1, axis2=2)[:, :, None]
    behind[:, np.arange(weights.shape[1]), np.arange(weights.shape[1])] = -np.inf
    logit_t = np.maximum((-np.logaddexp.reduce(behind, axis=2)).min(axis=1), 0.0)
    ordered = np.partition(directions @ weights.transpose(0, 2, 1), -2, axis=2)
    gap = np.maximum(ordered[..., -1] - ordered[..., -2], 1e-300)
    reach = np.minimum(logit_t[:, None] / gap, 1e9)
    return np.asarray(np.minimum(reach[..., None] / np.array(radii), 1.0) ** weights.shape[2])


def planar_excess(strength: float, radius: float, optimal: Builder = optimal_weights, steps: int = 72) -> float:
    """K = 3, H = 2: the largest share over a grid of both free angles, less the optimal structure's."""
    turn = np.linspace(0.0, 2 * np.pi, 720, endpoint=False)
    directions = np.column_stack([np.cos(turn), np.sin(turn)])
    angles = np.linspace(0.0, 2 * np.pi, steps, endpoint=False)[1:]
    second, third = (grid.ravel() for grid in np.meshgrid(angles, angles))
    apart = second < third
    both = np.stack([np.zeros(apart.sum()), second[apart], third[apart]], axis=1)
    weights = strength * np.stack([np.cos(both), np.sin(both)], axis=2)
    best = max(radial_shares(part, directions, (radius,)).mean(axis=1).max() for part in np.array_split(weights, 10))
    return float(best - radial_shares(strength * optimal(3, 2)[None], directions, (radius,)).mean())


def rival_gain(
    strength: float, radius: float, optimal: Builder = optimal_weights, points: int = 60_000
) -> tuple[float, float]:
    """K = 4, H = 3: the share of two opposite pairs at right angles less the optimal one's, and its numerical error.

    Integrated over an even lattice of directions; the error is the change from a lattice of a third of the points.
    """
    pairs = np.array([[1.0, 0.0, 0.0], [-1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, -1.0, 0.0]])
    both = strength * np.stack([pairs, optimal(4, 3)])
    fine, coarse = (
        np.subtract(*radial_shares(both, even_directions(count), (radius,)).mean(axis=(1, 2)))
        for count in (points, points // 3)
    )
    return float(fine), float(abs(fine - coarse)) + 1e-9


def _directions(features: int, rng: np.random.Generator) -> Floats:
    """Even directions in the plane and in space, random ones in more dimensions."""
    if features == 2:
        turn = 2 * np.pi * (np.arange(_DIRECTIONS) + 0.5) / _DIRECTIONS
        return np.column_stack([np.cos(turn), np.sin(turn)])
    return even_directions(_DIRECTIONS) if features == 3 else uniform_on_sphere(_DIRECTIONS, features, rng)


def even_directions(count: int) -> Floats:
    """Directions spread evenly over the sphere of R^3 on a golden spiral."""
    height = 1.0 - (2.0 * np.arange(count) + 1.0) / count
    turn = np.pi * (1.0 + np.sqrt(5.0)) * np.arange(count)
    ring = np.sqrt(1.0 - height**2)
    return np.column_stack([ring * np.cos(turn), ring * np.sin(turn), height])


CLAIMS = (
    Claim(
        "T17",
        "The optimal structure has the largest region",
        "corollary_optimal_maximises",
        "Among structures of equal weight norms, with class means of norm c_2 along the weights and t the lowest "
        "confidence of a class mean, the optimal one has the largest linear region.",
        "Holds against random structures for every K, H, strength norm(w) c_2 and radius tried, and among all "
        "structures for K = 3 in the plane. Not in general: for K = 4 and a strength of about 2 to 4, two opposite "
        "pairs at right angles do better.",
        CONDITIONS,
        check_volume,
        slip="The proof assumes T15 and T16 for every K, which fail, and reads the rest off a picture. It holds with "
        "room to spare against structures met by chance, but it is no theorem.",
        picture="evidence_T17",
    ),
)
