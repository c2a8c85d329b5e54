"""T7 and T21: the region of U_density, and which inputs it flags that softmax does not."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...arrays import Floats
from ...estimators.softmax import log_entropy
from ...geometry import KnownMixture, uniform_in_ball
from ...geometry.regions import EllipsoidRegion, Region, ellipsoid_region, valid_threshold
from ...head import Head
from .base import CONDITIONS, CORRECTED, Claim, Finding, decide

EPSILON = 0.05
Ellipsoids = Callable[[KnownMixture, float], Region]
Density = Callable[[KnownMixture, NDArray], Floats]


def u_density(mixture: KnownMixture, z: NDArray) -> Floats:
    """-log q(z)."""
    return -mixture.log_density(z)


def check_ellipsoids(*, formula: Ellipsoids = ellipsoid_region, trials: int = 12, seed: int = 7) -> Finding:
    """T7: ellipsoids against the exact density region, for components apart and overlapping, and as printed."""
    rng = np.random.default_rng(seed)
    apart = [_mismatch(_random_mixture(rng, 8.0), formula, rng) for _ in range(trials)]
    printed = [_mismatch(_random_mixture(rng, 8.0), printed_ellipsoids, rng) for _ in range(trials)]
    overlap = {
        gap: float(np.mean([_mismatch(_random_mixture(rng, gap), formula, rng) for _ in range(trials)]))
        for gap in (0.5, 1.0, 2.0, 4.0)
    }
    return decide(
        CORRECTED,
        f"components apart: ellipsoids and exact region differ at {np.mean(apart):.2%} of points (noise of the "
        f"quantile); as printed, with Sigma for its inverse, at {np.mean(printed):.0%}; overlapping components (means "
        f"0.5 deviations out): {overlap[0.5]:.1%}",
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


@dataclass(frozen=True)
class Flags:
    """Shares of reference points flagged by both, softmax only, density only and neither; accuracy of the head."""

    accuracy: float
    both: float
    softmax_only: float
    density_only: float
    neither: float

    @property
    def density_given_softmax(self) -> float:
        """Of what softmax flags, the share that density flags too (1 where softmax flags nothing)."""
        total = self.both + self.softmax_only
        return self.both / total if total > 0 else 1.0

    @property
    def softmax_given_density(self) -> float:
        """Of what density flags, the share that softmax flags too."""
        total = self.both + self.density_only
        return self.both / total if total > 0 else 1.0


def check_flags(*, density: Density = u_density, trials: int = 8, seed: int = 21) -> Finding:
    """T21: the four shares for random Gaussian classes at several distances, against two references."""
    rng = np.random.default_rng(seed)
    table = []
    for classes, size in ((2, 2), (3, 2), (3, 8), (10, 16)):
        for distance in (1.0, 2.0, 4.0, 8.0):
            for reference in ("ball", "gaussian"):
                found = [four_shares(classes, size, distance, reference, rng, density) for _ in range(trials)]
                table.append((classes, size, distance, reference, found))
    wide, near = (_summary(table, reference, 0.999, 1.0) for reference in ("ball", "gaussian"))
    mixed = _summary(table, "gaussian", 0.0, 0.9)
    return decide(
        CONDITIONS,
        "classes apart (accuracy 99.9 %), OOD points in a wide ball: density flags "
        f"{wide['density_given_softmax']:.0%} of what softmax flags, softmax {wide['softmax_given_density']:.0%} of "
        f"what density flags; OOD points as close as training itself: {near['density_given_softmax']:.0%} and "
        f"{near['softmax_given_density']:.0%}; close, and classes that overlap (accuracy below 90 %): "
        f"{mixed['density_given_softmax']:.0%}",
        {
            "mixtures": len(table) * trials,
            "seed": seed,
            "epsilon": EPSILON,
            "apart_wide": wide,
            "apart_near": near,
            "overlapping_near": mixed,
            "shares": [_as_row(*row) for row in table],
        },
        {
            "classes apart: what softmax flags, density flags": wide["density_given_softmax"] > 0.95,
            "not the other way round": wide["density_only"] > 10 * wide["softmax_only"]
            and near["density_given_softmax"] > near["softmax_given_density"] + 0.05,
            "overlapping classes are a counterexample": mixed["density_given_softmax"] < 0.5,
        },
    )


def _summary(table: list[Any], reference: str, low: float, high: float) -> dict[str, float]:
    """Means over the mixtures of one reference whose head has an accuracy in low..high."""
    rows = [(kind, found) for _, _, _, kind, found in table]
    chosen = [flags for kind, found in rows if kind == reference for flags in found if low <= flags.accuracy <= high]
    names = ("density_given_softmax", "softmax_given_density", "softmax_only", "density_only")
    return {name: float(np.mean([getattr(flags, name) for flags in chosen])) for name in names}


def four_shares(
    classes: int, size: int, distance: float, reference: str, rng: np.random.Generator, density: Density = u_density
) -> Flags:
    """Classes N(mu_i, S), norm(mu_i) = distance; the head is the Bayes classifier, which is linear; 4000 points each.

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
    soft = log_entropy(head.logits(z)) > valid_threshold(log_entropy(head.logits(train)), EPSILON)
    dense = density(mixture, z) > valid_threshold(density(mixture, train), EPSILON)
    accuracy = float((head.logits(train).argmax(axis=1) == labels).mean())
    shares = (float(part.mean()) for part in (soft & dense, soft & ~dense, ~soft & dense, ~soft & ~dense))
    return Flags(accuracy, *shares)


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


def _as_row(classes: int, size: int, distance: float, reference: str, found: list[Flags]) -> dict[str, object]:
    names = ("accuracy", "both", "softmax_only", "density_only", "neither")
    means = {name: round(float(np.mean([getattr(flags, name) for flags in found])), 4) for name in names}
    return {"K": classes, "H": size, "distance": distance, "reference": reference, **means}


CLAIMS = (
    Claim(
        "T7",
        "Region of U_density",
        "prop_valid_ood_region_density",
        "For Gaussian classes the region of U_density is outside every ellipsoid (z - mu_i)' Sigma_i^-1 (z - mu_i) <= "
        "c_i, where all c_i belong to one level of the density.",
        "Components that do not overlap; otherwise the ellipsoids approximate a contour of the mixture.",
        CORRECTED,
        check_ellipsoids,
        slip="Sigma_i is printed where its inverse belongs, which stretches each ellipsoid the wrong way.",
        picture="fig_valid_ood_region",
    ),
    Claim(
        "T21",
        "What softmax flags, density flags too",
        "sec_region_defn, sec_failure_measure",
        "Almost everything flagged by softmax uncertainty is flagged by density as well, but not the other way round; "
        "what density flags and softmax does not is the softmax extrapolation region, the paper's cause 2.",
        "Classes well apart, OOD points spread wider than training. Between overlapping classes, and among points as "
        "close as training itself, softmax flags much that density does not.",
        CONDITIONS,
        check_flags,
        picture="evidence_T21",
    ),
)
