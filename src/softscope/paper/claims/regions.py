"""T4-T7 and T9: the definition of the valid OOD region, and what it is for two classes and for U_density."""

from collections.abc import Callable
from functools import partial

import numpy as np

from ...arrays import Floats
from ...estimators.softmax import log_entropy
from ...geometry import (
    EllipsoidRegion,
    HeadRegion,
    KnownMixture,
    Projection,
    Region,
    SlabRegion,
    ellipsoid_region,
    exact_region,
    gaussian_coverage,
    linear_region,
    projection,
    slab_offset,
    valid_threshold,
)
from ...head import Head
from .register import Measured, checks

Threshold = Callable[[Floats, float], float]
Offset = Callable[[Head, KnownMixture, float], float]
Coverage = Callable[[Projection, float], float]
Membership = Callable[[Head, float], HeadRegion]
EPSILON = 0.05
Ellipsoids = Callable[[KnownMixture, float], Region]


@checks("T4")
def check_definition(*, formula: Threshold = valid_threshold, trials: int = 400, seed: int = 4) -> Measured:
    """T4: { U > formula(train, epsilon) } against the definition, point by point, ties among training included."""
    rng = np.random.default_rng(seed)
    wrong, compared, worst = 0, 0, 0.0
    for trial in range(trials):
        rows, epsilon = int(rng.integers(1, 2000)), float(rng.choice([0.0, 0.01, 0.05, 0.25, 0.5, 1.0]))
        tied = bool(trial % 2)
        train = rng.integers(-20, 20, rows).astype(float) if tied else rng.standard_normal(rows)
        asked = np.concatenate([train[:50], train[:50] + 1e-9, rng.uniform(-25, 25, 50)])
        below = np.searchsorted(np.sort(train), asked, side="left")
        # In whole numbers, so that the definition itself is free of rounding.
        defined = 100 * below > round(100 * (1 - epsilon)) * rows
        wrong += int((defined != (asked > formula(train, epsilon))).sum())
        compared += len(asked)
    for epsilon in (0.05, 0.2):
        train, fresh = rng.standard_normal(40_000), rng.standard_normal(40_000)
        worst = max(worst, abs(float((fresh > formula(train, epsilon)).mean()) - epsilon) / np.sqrt(epsilon / 20_000))
    return Measured(
        {"trials": trials, "seed": seed, "points": compared, "disagreements": wrong, "fresh_data_errors": worst},
        {
            "the threshold gives the region of the definition": wrong == 0,
            "fresh training data falls into the region with probability epsilon": worst < 4.0,
        },
    )


@checks("T5")
def check_slab(*, formula: Offset = slab_offset, trials: int = 25, seed: int = 5) -> Measured:
    """T5: slab, exact U_max and exact U_entropy regions on the same points; coverage of the slab by Monte Carlo."""
    rng = np.random.default_rng(seed)
    differ, points, worst = 0, 0, 0.0
    for trial in range(trials):
        head, mixture = two_class_case(rng, opposite=trial % 2 == 0)
        epsilon = float(rng.choice([0.01, 0.05, 0.2]))
        slab = SlabRegion(head, formula(head, mixture, epsilon))
        z, _ = mixture.sample(20_000, rng)
        error = np.sqrt(epsilon * (1 - epsilon) / len(z))
        worst = max(worst, abs(float(slab.contains(z).mean()) - epsilon) / error)
        asked = np.concatenate([z[:2000], 4.0 * rng.standard_normal((2000, head.n_features))])
        logit_t = -2.0 * slab.threshold
        edge = np.column_stack([[logit_t], [0.0]])
        inside = slab.contains(asked)
        for region in (exact_region(head, logit_t), HeadRegion(head, log_entropy, float(log_entropy(edge)[0]))):
            away = np.abs(np.abs(np.diff(head.logits(asked), axis=1)[:, 0]) - logit_t) > 1e-9
            differ += int((inside != region.contains(asked))[away].sum())
            points += int(away.sum())
    return Measured(
        {"trials": trials, "seed": seed, "points": points, "disagreements": differ, "worst_coverage_error": worst},
        {"slab and exact regions are one": differ == 0, "a share 1 - epsilon of the mixture lies outside": worst < 4.5},
    )


@checks("T6")
def check_gaussian(*, formula: Coverage = gaussian_coverage, trials: int = 300, seed: int = 6) -> Measured:
    """T6: the share of the mixture that the erf equation leaves outside, against the exact share."""
    rng = np.random.default_rng(seed)
    rows = [_gaussian_case(formula, rng) for _ in range(trials)]
    overlap, gap, offset_error, printed_error = np.array(rows).T
    separable = overlap < 1e-4
    share, offset = float(gap[separable].max()), float(offset_error[separable].max())
    printed = float(np.median(printed_error[separable]))
    return Measured(
        {
            "trials": trials,
            "seed": seed,
            "separable_trials": int(separable.sum()),
            "worst_share_error_separable": share,
            "worst_offset_error_separable": offset,
            "worst_share_error_overlapping": float(gap.max()),
            "worst_overlap": float(overlap.max()),
            "printed_median_offset_error_separable": printed,
            "share_error_over_overlap": float((gap / np.maximum(overlap, 1e-300)).max()),
        },
        {
            "separable classes: share right to 1e-4": share < 1e-4,
            "separable classes: alpha right to 1%": offset < 0.01,
            "the error stays below the neglected overlap": bool((gap <= overlap + 1e-12).all()),
            "both readings of the printed form fail": printed > 0.05,
        },
    )


def _gaussian_case(formula: Coverage, rng: np.random.Generator) -> tuple[float, float, float, float]:
    """Overlap of two random classes, error of the share left outside, relative errors of alpha: corrected, printed."""
    head, mixture = two_class_case(rng, opposite=True)
    seen = projection(head, mixture)
    true_alpha = slab_offset(head, mixture, 0.05)
    alpha = true_alpha * float(rng.uniform(0.2, 1.2))
    exact = 1.0 - _inside(seen, alpha)
    return (
        float(seen.weights @ _tail(np.array([1, -1]) * seen.means / seen.deviations)),
        abs((1 + formula(seen, alpha)) / 2 - exact),
        abs(_solve(formula, seen, 0.05) - true_alpha) / true_alpha,
        min(abs(_solve(printed, seen, 0.05) - true_alpha) / true_alpha for printed in PRINTED_COVERAGES),
    )


@checks("T9")
def check_equal_for_two(*, formula: Membership = linear_region, trials: int = 200, seed: int = 9) -> Measured:
    """T9: linear and exact regions of two classes at random points, and at points just off the edge."""
    rng = np.random.default_rng(seed)
    differ, points = 0, 0
    for _ in range(trials):
        features = int(rng.integers(1, 20))
        head = Head(rng.standard_normal((2, features)), rng.standard_normal(2))
        logit_t = float(rng.uniform(-1, 6))
        z = 4.0 * rng.standard_normal((5000, features))
        normal = head.weight[0] - head.weight[1]
        gap = head.logits(z) @ np.array([1.0, -1.0])
        onto_edge = z[:500] + ((logit_t * (1 + 1e-9) - gap[:500]) / (normal @ normal))[:, None] * normal
        asked = np.concatenate([z, onto_edge])
        differ += int((formula(head, logit_t).contains(asked) != exact_region(head, logit_t).contains(asked)).sum())
        points += len(asked)
    return Measured(
        {"trials": trials, "seed": seed, "points": points, "disagreements": differ},
        {"linear and exact regions are one for K = 2": differ == 0},
    )


def two_class_case(rng: np.random.Generator, *, opposite: bool) -> tuple[Head, KnownMixture]:
    """A random two-class head (w_1 = -w_2 if `opposite`, else any weights and bias), one Gaussian on each side."""
    size = int(rng.integers(1, 7))
    w = rng.standard_normal(size)
    weight = np.stack([w, -w]) if opposite else rng.standard_normal((2, size))
    head = Head(weight, None if opposite else rng.standard_normal(2))
    normal = weight[0] - weight[1]
    apart = rng.uniform(0.5, 4.0) * normal / np.linalg.norm(normal)
    # A point of the decision boundary: without bias the origin.
    origin = np.zeros(size) if opposite else -normal * float(head.bias @ [1, -1]) / float(normal @ normal)
    half = rng.standard_normal((2, size, size)) / np.sqrt(size)
    covariances = 0.6 * half @ half.transpose(0, 2, 1) + 0.2 * np.eye(size)
    share = rng.uniform(0.2, 0.8)
    return head, KnownMixture([share, 1 - share], [origin + apart, origin - rng.uniform(0.7, 1.3) * apart], covariances)


def _printed(seen: Projection, alpha: float, i: int) -> float:
    from scipy.special import erf

    return float(erf((seen.means[i] - alpha * seen.squared_norm) / (np.sqrt(2.0) * seen.deviations[i])))


# Both erf terms of the printed equation carry the same symbols: it can be read with class 1 in both, or class 2.
PRINTED_COVERAGES: tuple[Coverage, ...] = (partial(_printed, i=0), partial(_printed, i=1))


def _inside(seen: Projection, alpha: float) -> float:
    edge = alpha * seen.squared_norm
    inside = _tail((-edge - seen.means) / seen.deviations) - _tail((edge - seen.means) / seen.deviations)
    return float(seen.weights @ inside)


def _tail(x: Floats) -> Floats:
    from scipy.special import ndtr

    return np.asarray(ndtr(-x))


def _solve(coverage: Coverage, seen: Projection, epsilon: float) -> float:
    from scipy.optimize import brentq

    reach = float((np.abs(seen.means) + 40.0 * seen.deviations).max()) / seen.squared_norm
    ends = [coverage(seen, edge) - (1 - 2 * epsilon) for edge in (-reach, reach)]
    if ends[0] * ends[1] >= 0:
        return float("inf")
    return float(brentq(lambda alpha: coverage(seen, alpha) - (1 - 2 * epsilon), -reach, reach, xtol=1e-13))


@checks("T7")
def check_ellipsoids(*, formula: Ellipsoids = ellipsoid_region, trials: int = 12, seed: int = 7) -> Measured:
    """T7: ellipsoids against the exact density region, for components apart and overlapping, and as printed."""
    rng = np.random.default_rng(seed)
    apart = [_mismatch(_random_mixture(rng, 8.0), formula, rng) for _ in range(trials)]
    printed = [_mismatch(_random_mixture(rng, 8.0), printed_ellipsoids, rng) for _ in range(trials)]
    overlap = {
        gap: float(np.mean([_mismatch(_random_mixture(rng, gap), formula, rng) for _ in range(trials)]))
        for gap in (0.5, 1.0, 2.0, 4.0)
    }
    return Measured(
        {
            "trials": trials,
            "seed": seed,
            "mismatch_apart": float(np.mean(apart)),
            "worst_mismatch_apart": float(np.max(apart)),
            "mismatch_printed": float(np.mean(printed)),
            "mismatch_by_distance": overlap,
        },
        {
            "components apart: the regions agree to 1 %": float(np.max(apart)) < 0.01,
            "the printed form does not": float(np.mean(printed)) > 0.05,
            "overlap makes the ellipsoids approximate": overlap[0.5] > 3 * float(np.mean(apart)),
        },
        {"overlapping": overlap[0.5]},
    )


def printed_ellipsoids(mixture: KnownMixture, epsilon: float) -> Region:
    """T7 as printed: (z - mu_i)' Sigma_i (z - mu_i) > c_i, each c_i such that a share 1 - epsilon of its own is inside.

    The c_i are not printed; these are the most favourable choice that gets each component's share right.
    """
    draws = np.random.default_rng(0).standard_normal((20_000, mixture.n_features))
    sizes = []
    for factor, covariance in zip(mixture.factors, mixture.covariances):
        z = draws @ factor.T
        sizes.append(np.quantile(np.einsum("nh,hg,ng->n", z, covariance, z), 1 - epsilon))
    inverted = KnownMixture(mixture.weights, mixture.means, np.linalg.inv(mixture.covariances))
    return EllipsoidRegion(inverted, np.array(sizes))


def _mismatch(mixture: KnownMixture, formula: Ellipsoids, rng: np.random.Generator) -> float:
    """Share of points, half from the mixture and half around it, where formula and exact region disagree."""
    z, _ = mixture.sample(100_000, rng)
    level = valid_threshold(-mixture.log_density(z), EPSILON)
    near = z[:4000] + 1.0 * rng.standard_normal((4000, mixture.n_features))
    asked = np.concatenate([z[:4000], near])
    return float((formula(mixture, EPSILON).contains(asked) != (-mixture.log_density(asked) > level)).mean())


def _random_mixture(rng: np.random.Generator, distance: float) -> KnownMixture:
    """2 to 4 components on the axes, `distance` times their largest deviation from the origin."""
    count = int(rng.integers(2, 5))
    size = count + int(rng.integers(0, 2))
    half = rng.standard_normal((count, size, size)) / np.sqrt(size)
    covariances = half @ half.transpose(0, 2, 1) + 0.2 * np.eye(size)
    covariances *= np.exp(rng.uniform(-0.7, 0.7, count))[:, None, None]
    largest = float(np.sqrt(np.linalg.eigvalsh(covariances).max()))
    weights = rng.random(count) + 0.3
    return KnownMixture(weights / weights.sum(), distance * largest * np.eye(count, size), covariances)
