"""T17 and T21: is the linear region of the optimal structure the largest, and which inputs does only density flag?

T17: without bias the gap of the two largest logits grows in proportion to norm(z), so along a direction u the region
ends at radius logit(t) / gap(u). Its share of a ball of radius R is the mean over u of min(1, logit(t) / (R gap(u)))^H,
which leaves only directions to draw; all structures are measured on the same ones.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...arrays import Floats
from ...estimators.softmax import log_entropy
from ...geometry import KnownMixture, optimal_structure, uniform_in_ball, uniform_on_sphere, valid_threshold
from ...head import Head
from .evidence import EvidenceRows
from .register import Measured, checks
from .trained import by_network

Builder = Callable[[int, int], Floats]
RADII = (1.0, 2.0, 5.0)
_SIZES = ((2, 2), (3, 2), (3, 3), (4, 3), (4, 8), (5, 8), (10, 16))
_DIRECTIONS = 1024
EPSILON = 0.05
DensityScore = Callable[[KnownMixture, NDArray], Floats]
Threshold = Callable[[Floats, float], float]
Flags = dict[str, float]
SHARES = ("both", "softmax_only", "density_only", "neither")


@dataclass(frozen=True)
class SizeComparison:
    """Shares [S, R] of random structures and of the optimal one, [R], at the radii; the best paired z-score over it."""

    random: Floats
    optimal: Floats
    best_z: float


def optimal_weights(classes: int, features: int) -> Floats:
    """The unit weights of the optimal structure, [K, H]."""
    return optimal_structure(classes, features).weight


@checks("T17")
def check_volume(*, optimal: Builder = optimal_weights, structures: int = 1000, seed: int = 17) -> Measured:
    """T17: the optimal structure against random ones, against all angles for K = 3 in the plane, a rival for K = 4."""
    rng = np.random.default_rng(seed)
    compared = [compare(k, h, c, structures, rng, optimal) for k, h in _SIZES for c in (1.0, 3.0, 10.0)]
    best_z = max(one.best_z for one in compared)
    ratio = float(
        np.median([one.random.mean() / max(one.optimal.mean(), 1e-9) for one in compared if one.optimal.any()])
    )
    planar = max(planar_excess(c, radius, optimal) for c in (1.0, 2.0, 3.0, 10.0) for radius in RADII)
    rival = {c: [rival_gain(c, radius, optimal) for radius in RADII] for c in (2.0, 3.0, 20.0)}
    lead, error = rival[2.0][0]
    return Measured(
        {
            "random_structures": structures * len(compared),
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
        {"lead": lead, "error": error},
    )


def compare(
    classes: int, features: int, strength: float, structures: int, rng: np.random.Generator, optimal: Builder
) -> SizeComparison:
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
    return SizeComparison(np.concatenate(means), best.mean(axis=0), z_score)


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


def u_density(mixture: KnownMixture, z: NDArray) -> Floats:
    """-log q(z)."""
    return -mixture.log_density(z)


@checks("T21")
def check_flags(
    *,
    rows: EvidenceRows,
    density: DensityScore = u_density,
    threshold: Threshold = valid_threshold,
    trials: int = 8,
    seed: int = 21,
) -> Measured:
    """T21: the four shares for random Gaussian classes at several distances and two references; trained networks."""
    rng = np.random.default_rng(seed)
    sizes, distances = ((2, 2), (3, 2), (3, 8), (10, 16)), (1.0, 2.0, 4.0, 8.0)
    settings = [(k, h, c, of) for (k, h), c, of in product(sizes, distances, ("ball", "gaussian"))]
    table = {case: [four_shares(*case, rng, density, threshold) for _ in range(trials)] for case in settings}
    wide, near = (_summary(table, reference, 0.999, 1.0) for reference in ("ball", "gaussian"))
    mixed = _summary(table, "gaussian", 0.0, 0.9)
    fresh = _means([flags for cases in table.values() for flags in cases], "fresh_softmax", "fresh_density")
    on_networks, networks = trained_flags(rows)
    return Measured(
        {
            "mixtures": len(table) * trials,
            "seed": seed,
            "epsilon": EPSILON,
            "apart_wide": wide,
            "apart_near": near,
            "overlapping_near": mixed,
            "fresh_inputs_flagged": fresh,
            "trained_networks": networks,
            "shares": [
                {
                    **dict(zip(("K", "H", "distance", "reference"), case)),
                    **{name: round(mean, 4) for name, mean in _means(flags, "accuracy", *SHARES).items()},
                }
                for case, flags in table.items()
            ],
        },
        {
            "each score flags 5 % of fresh inputs like training": max(abs(s - 0.05) for s in fresh.values()) < 0.004,
            "classes apart: what softmax flags, density flags": wide["density_given_softmax"] > 0.95,
            "not the other way round": wide["density_only"] > 10 * wide["softmax_only"]
            and near["density_given_softmax"] > near["softmax_given_density"] + 0.05,
            "overlapping classes are a counterexample": mixed["density_given_softmax"] < 0.5,
        },
        {"on_networks": on_networks},
    )


def _summary(table: dict[Any, list[Flags]], reference: str, low: float, high: float) -> Flags:
    """Means over the mixtures of one reference whose head has an accuracy in low..high."""
    mine = [flags for (*_, kind), cases in table.items() if kind == reference for flags in cases]
    chosen = [flags for flags in mine if low <= flags["accuracy"] <= high]
    return _means(chosen, "density_given_softmax", "softmax_given_density", "softmax_only", "density_only")


def _means(cases: list[Flags], *names: str) -> Flags:
    return {name: float(np.mean([flags[name] for flags in cases])) for name in names}


def trained_flags(rows: EvidenceRows) -> tuple[str, dict[str, Any]]:
    """T21 on trained networks, each counted once: what softmax alone flags, against what density alone flags.

    Only rows whose thresholds come from inputs that the density was not fitted on: on its own rows a density is lower
    than on fresh ones, and its threshold would flag too much.
    """
    held_out = [row for row in rows if row.get("thresholds") == "held out"]
    networks = by_network(held_out, "softmax_only", "density_only")
    if not networks:
        return "no trained network has thresholds from inputs that its density was not fitted on", {"networks": 0}
    apart = {name: float((own["density_only"] - own["softmax_only"]).mean()) for name, own in networks.items()}
    agree = sum(value > 0 for value in apart.values())
    alone = {name: float(np.mean([row[name] for row in held_out])) for name in ("softmax_only", "density_only")}
    return (
        f"on {len(networks)} trained networks density alone flags more than softmax alone for {agree} and less for "
        f"{len(networks) - agree} ({alone['density_only']:.0%} and {alone['softmax_only']:.0%} of OOD inputs)",
        {"networks": len(networks), "agree": agree, "rows": len(held_out), **alone},
    )


def four_shares(
    classes: int,
    size: int,
    distance: float,
    reference: str,
    rng: np.random.Generator,
    density: DensityScore = u_density,
    threshold: Threshold = valid_threshold,
) -> Flags:
    """Shares of reference points flagged by both, softmax only, density only and neither; accuracy of the head.

    Classes N(mu_i, S), norm(mu_i) = distance; the head is the Bayes classifier, which is linear; 4000 points each.
    `density_given_softmax`: of what softmax flags, the share that density flags too (1 where softmax flags nothing).
    `fresh_softmax` and `fresh_density`: shares of fresh inputs like training that each flags; epsilon, if all is right.

    Reference points: uniform in a ball of 1.5 times the radius that holds 95 % of training, or one Gaussian with the
    mean and covariance of all training data.
    """
    head, mixture = bayes_case(classes, size, distance, rng)
    train, labels = mixture.sample(4000, rng)
    if reference == "ball":
        radius = 1.5 * float(np.quantile(np.linalg.norm(train, axis=1), 0.95))
        z = uniform_in_ball(4000, size, rng, radius=radius)
    else:
        z = rng.multivariate_normal(train.mean(axis=0), np.cov(train.T), 4000, method="cholesky")
    fresh, _ = mixture.sample(4000, rng)
    most = threshold(log_entropy(head.logits(train)), EPSILON), threshold(density(mixture, train), EPSILON)
    soft, soft_fresh = (log_entropy(head.logits(rows)) > most[0] for rows in (z, fresh))
    dense, dense_fresh = (density(mixture, rows) > most[1] for rows in (z, fresh))
    parts = (soft & dense, soft & ~dense, ~soft & dense, ~soft & ~dense)
    both, softmax_only, density_only, _ = shares = [float(part.mean()) for part in parts]
    return {
        "accuracy": float((head.logits(train).argmax(axis=1) == labels).mean()),
        **dict(zip(SHARES, shares)),
        "density_given_softmax": both / (both + softmax_only) if both + softmax_only > 0 else 1.0,
        "softmax_given_density": both / (both + density_only) if both + density_only > 0 else 1.0,
        "fresh_softmax": float(soft_fresh.mean()),
        "fresh_density": float(dense_fresh.mean()),
    }


def bayes_case(classes: int, size: int, distance: float, rng: np.random.Generator) -> tuple[Head, KnownMixture]:
    """Balanced Gaussian classes of one covariance S; their Bayes classifier w_i = S^-1 mu_i, b_i = -mu_i'w_i / 2."""
    means = rng.standard_normal((classes, size))
    means = distance * means / np.linalg.norm(means, axis=1, keepdims=True)
    half = rng.standard_normal((size, size)) / np.sqrt(size)
    covariance = half @ half.T + 0.3 * np.eye(size)
    covariance = covariance * size / np.trace(covariance)
    weight = np.linalg.solve(covariance, means.T).T
    head = Head(weight, -0.5 * (weight * means).sum(axis=1))
    return head, KnownMixture(np.full(classes, 1.0 / classes), means, np.stack([covariance] * classes))
