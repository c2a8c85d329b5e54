"""T12 and T13: the optimal structure minimises the regularised cross-entropy; the mean softmax of a Gaussian.

T12 is checked by descent from random starts and by a bound. Loss: -sum_i pi_i log s_i(mu_i) + lambda sum_i
(norm(w_i)^2 + b_i^2), features mu_i of norm c_2, one per class.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from ...arrays import Floats
from ...geometry import lopsided, optimal_structure, sandwich, stack
from .register import Measured, checks

C2, PENALTY = 2.0, 0.002
Bound = Callable[[int, float, float], float]
Cosine = Callable[[int], float]
Approximation = Callable[[Floats, Floats, Floats, int], float]
_DISTANCES, _SPREADS, _CLASSES = (0.0, 1.0, 2.0, 4.0, 8.0), (0.1, 0.5, 1.0, 2.0, 4.0), (2, 3, 5, 10)
_LOG_POINTS = 13
# Leads and standard deviations of the logits of two classes; beyond 1.5 even the classic approximation is off by 0.01.
_LEADS, _DEVIATIONS = (0.0, 0.5, 1.0, 2.0, 4.0), (0.1, 0.5, 1.0, 1.5)


def optimal_cosine(classes: int) -> float:
    """-1 / (K - 1)."""
    return -1.0 / (classes - 1)


def least_cross_entropy(classes: int, squared_norms: float, c2: float) -> float:
    """log(1 + (K-1) exp(-c_2 sqrt(K sum_i norm(w_i)^2) / (K-1))): no structure of these norms has less.

    By Jensen over the K(K-1) terms exp((w_j - w_i)'mu_i), whose exponents add up to -K sum_i (w_i - mean w)'mu_i, then
    Cauchy-Schwarz. Biases cancel in the sum; noise around mu_i only adds (Jensen again, -log s is convex). Equality
    needs equal norms, mu_i along w_i and equal products: the optimal structure.
    """
    return float(np.log1p((classes - 1) * np.exp(-c2 * np.sqrt(classes * squared_norms) / (classes - 1))))


@dataclass(frozen=True)
class Descent:
    """Where gradient descent ended, for every start at once: W [S, K, H], b [S, K], mu [S, K, H], loss [S]."""

    weight: Floats
    bias: Floats
    features: Floats
    loss: Floats
    history: Floats


@checks("T12")
def check_optimal(
    *,
    cosine: Cosine = optimal_cosine,
    bound: Bound = least_cross_entropy,
    starts: int = 4,
    sizes: Sequence[int] = range(2, 11),
    seed: int = 12,
) -> Measured:
    """T12: descent to the simplex for K = 2..10, the bound in a random search, worse structures, a counterexample."""
    rng = np.random.default_rng(seed)
    errors, gaps, excess = {}, {}, {}
    for classes in sizes:
        ended = descend(classes, classes + 2, starts=starts, rng=rng)
        errors[classes] = _departure(ended, cosine(classes))
        least = least_loss(classes, bound)
        gaps[classes] = float(np.abs(ended.loss - least).max())
        if classes > 2:
            excess[classes] = {name: loss - least for name, loss in frozen_losses(classes, rng).items()}
    below = _search_below(bound, rng, trials=4000)
    uneven = descend(3, 5, starts=starts, rng=rng, shares=np.array([0.8, 0.1, 0.1]))
    worst, lost = max(errors.values()), min(v for row in excess.values() for v in row.values())
    uneven_error = _cosine_error(uneven, cosine(3))
    return Measured(
        {
            "starts": starts,
            "seed": seed,
            "c2": C2,
            "penalty": PENALTY,
            "worst_departure": errors,
            "loss_minus_bound": gaps,
            "excess_loss": excess,
            "bound_trials": 4000,
            "smallest_excess_over_bound": below,
            "unbalanced_cosine_error": uneven_error,
        },
        {
            "descent reaches the optimal structure to 1e-3": worst < 1e-3,
            "its loss is the minimum of the bound": max(gaps.values()) < 1e-6,
            "sandwich, stack and lopsided have higher loss": lost > 1e-3,
            "no random structure is below the bound": below > -1e-9,
            "unbalanced classes have another optimum": uneven_error > 0.05,
        },
        {"smallest": min(sizes), "largest": max(sizes), "worst": worst, "lost": lost},
    )


def descend(
    classes: int,
    features: int,
    *,
    starts: int,
    rng: np.random.Generator,
    shares: Floats | None = None,
    steps: int = 1500,
) -> Descent:
    """Projected gradient descent with momentum on free W, b and mu; every mu_i is put back to norm c_2 each step."""
    shares = np.full(classes, 1.0 / classes) if shares is None else shares
    weight = 0.5 * rng.standard_normal((starts, classes, features))
    bias = 0.5 * rng.standard_normal((starts, classes))
    mu = _on_sphere(rng.standard_normal((starts, classes, features)))
    speed = [np.zeros_like(part) for part in (weight, bias, mu)]
    history = []
    for _ in range(steps):
        loss, slopes = _loss(weight, bias, mu, shares)
        history.append(loss)
        # The loss is a mean over classes, so its slopes shrink as 1/K and the step grows as K.
        speed = [0.9 * v - classes * slope for v, slope in zip(speed, slopes)]
        weight, bias, mu = weight + speed[0], bias + speed[1], _on_sphere(mu + speed[2])
    return Descent(weight, bias, mu, _loss(weight, bias, mu, shares)[0], np.array(history))


def frozen_losses(classes: int, rng: np.random.Generator) -> dict[str, float]:
    """The least loss of each counterfactual structure (K >= 3); features and the scales of W and b are free."""
    builders = {"sandwich": sandwich, "stack": stack, "lopsided": lopsided}
    heads = {name: build(classes, classes + 2) for name, build in builders.items()}
    return {name: _frozen_loss(head.weight, head.bias, rng) for name, head in heads.items()}


def _frozen_loss(weight: Floats, bias: Floats, rng: np.random.Generator, starts: int = 4) -> float:
    shares = np.full(len(weight), 1.0 / len(weight))
    mu = _on_sphere(weight + 0.1 * rng.standard_normal((starts, *weight.shape)))
    scales = np.ones((starts, 2))
    speed_mu, speed = np.zeros_like(mu), np.zeros_like(scales)
    for _ in range(1500):
        loss, (slope_w, slope_b, slope_mu) = _loss(scales[:, :1, None] * weight, scales[:, 1:] * bias, mu, shares)
        slope = np.stack([(slope_w * weight).sum(axis=(1, 2)), (slope_b * bias).sum(axis=1)], axis=1)
        speed, speed_mu = 0.9 * speed - 0.3 * slope, 0.9 * speed_mu - slope_mu
        scales, mu = scales + speed, _on_sphere(mu + speed_mu)
    return float(loss.min())


def _loss(weight: Floats, bias: Floats, mu: Floats, shares: Floats) -> tuple[Floats, tuple[Floats, Floats, Floats]]:
    """Loss of each start, and its slopes by W, b and mu."""
    logits = mu @ weight.transpose(0, 2, 1) + bias[:, None, :]
    logits = logits - logits.max(axis=2, keepdims=True)
    powers = np.exp(logits)
    total = powers.sum(axis=2, keepdims=True)
    own = np.diagonal(logits, axis1=1, axis2=2) - np.log(total[..., 0])
    loss = -(own @ shares) + PENALTY * ((weight**2).sum(axis=(1, 2)) + (bias**2).sum(axis=1))
    pull = shares[:, None] * (powers / total - np.eye(len(shares)))
    slopes = (pull.transpose(0, 2, 1) @ mu + 2 * PENALTY * weight, pull.sum(axis=1) + 2 * PENALTY * bias, pull @ weight)
    return loss, slopes


def least_loss(classes: int, bound: Bound = least_cross_entropy) -> float:
    """min over norm(w) of bound + lambda K norm(w)^2: one number, found by a bounded search."""
    from scipy.optimize import minimize_scalar

    def total(norm: float) -> float:
        return bound(classes, classes * norm**2, C2) + PENALTY * classes * norm**2

    return float(minimize_scalar(total, bounds=(0.0, 50.0), method="bounded", options={"xatol": 1e-10}).fun)


def _search_below(bound: Bound, rng: np.random.Generator, trials: int) -> float:
    """Smallest of cross-entropy minus bound over random W, b, mu, some near the optimum, some with noisy features."""
    smallest = np.inf
    for _ in range(trials):
        classes = int(rng.integers(2, 8))
        features = classes + int(rng.integers(0, 3))
        scale, near = np.exp(rng.uniform(-1.5, 1.5)), np.exp(rng.uniform(-6.0, 1.0))
        centre = np.zeros((classes, features))
        centre[:, :classes] = np.eye(classes) - 1.0 / classes
        weight = scale * (centre + near * rng.standard_normal(centre.shape))
        mu = C2 * _unit(centre + near * rng.standard_normal(centre.shape))
        bias = near * rng.standard_normal(classes)
        noise = near * rng.standard_normal((16, classes, features))
        z = mu + np.concatenate([noise, -noise])
        logits = z @ weight.T + bias
        entropy = np.logaddexp.reduce(logits, axis=2) - np.diagonal(logits, axis1=1, axis2=2)
        smallest = min(smallest, float(entropy.mean()) - bound(classes, float((weight**2).sum()), C2))
    return smallest


def _departure(ended: Descent, cosine: float) -> float:
    """Largest departure from the optimal structure: of cosines, relative norms, relative biases, and alignment."""
    norms = np.linalg.norm(ended.weight, axis=2)
    mean = norms.mean(axis=1, keepdims=True)
    aligned = (ended.weight * ended.features).sum(axis=2) / (norms * C2)
    return float(
        max(
            _cosine_error(ended, cosine),
            np.abs(norms / mean - 1.0).max(),
            np.abs(ended.bias / mean).max(),
            (1.0 - aligned).max(),
        )
    )


def _cosine_error(ended: Descent, cosine: float) -> float:
    unit = _unit(ended.weight)
    classes = unit.shape[1]
    products = (unit @ unit.transpose(0, 2, 1))[:, ~np.eye(classes, dtype=bool)]
    return float(np.abs(products - cosine).max())


def _unit(rows: Floats) -> Floats:
    unit: Floats = rows / np.linalg.norm(rows, axis=-1, keepdims=True)
    return unit


def _on_sphere(rows: Floats) -> Floats:
    return C2 * _unit(rows)


def mean_softmax(weight: Floats, mu: Floats, covariance: Floats, i: int) -> float:
    """T13 as corrected: 1/(1 + sum_{j != i} exp(-(w_i'mu - w_j'mu) / sqrt(1 + pi/8 (w_i'S w_i + w_j'S w_j))))."""
    spread = np.einsum("kh,hg,kg->k", weight, covariance, weight)
    lead = weight[i] @ mu - weight @ mu
    return _from_terms(-lead / np.sqrt(1.0 + np.pi / 8.0 * (spread[i] + spread)), i)


def printed_mean_softmax(weight: Floats, mu: Floats, covariance: Floats, i: int) -> float:
    """T13 as printed, with mu where it says z: the sign of the exponent is the other way round."""
    return mean_softmax(weight, -mu, covariance, i)


def mean_softmax_with_cross_term(weight: Floats, mu: Floats, covariance: Floats, i: int) -> float:
    """T13 with the variance of the difference, (w_i - w_j)'S(w_i - w_j): the term w_i'S w_j is kept."""
    apart = weight[i] - weight
    spread = np.einsum("kh,hg,kg->k", apart, covariance, apart)
    return _from_terms(-(apart @ mu) / np.sqrt(1.0 + np.pi / 8.0 * spread), i)


@checks("T13")
def check_integral(*, formula: Approximation = mean_softmax, seed: int = 13) -> Measured:
    """T13: errors over a grid of classes, distances and spreads, optimal and random weights."""
    rng = np.random.default_rng(seed)
    forms = {"corrected": formula, "printed": printed_mean_softmax, "cross_term": mean_softmax_with_cross_term}
    errors: dict[str, list[float]] = {name: [] for name in forms}
    places: list[tuple[int, float, float]] = []
    for classes in _CLASSES:
        normals, square = _even_normals(classes), (classes, classes)
        for distance, spread, optimal in product(_DISTANCES, _SPREADS, (True, False)):
            weight = optimal_structure(*square).weight if optimal else _unit(rng.standard_normal(square))
            root = spread * rng.standard_normal(square) / np.sqrt(classes)
            mu = distance * weight[0]
            true = _mean_by_points(weight, mu + normals @ root.T)
            for name, form in forms.items():
                errors[name].append(abs(form(weight, mu, root @ root.T, 0) - true))
            places.append((classes, distance, spread))
    apart = two_class_errors(formula)
    return _judge({name: np.array(values) for name, values in errors.items()}, np.array(places), apart, seed)


def two_class_errors(formula: Approximation) -> Floats:
    """K = 2 and w_1'S w_2 = 0, so that nothing is left out: errors against Gauss-Hermite quadrature, [cases].

    Here the formula is the classic approximation of a Gaussian-logistic integral, and every factor in it shows.
    """
    from scipy.special import expit, roots_hermitenorm

    points, shares = roots_hermitenorm(120)
    shares = shares / shares.sum()
    weight, errors = np.eye(2), []
    for lead, first, second in product(_LEADS, _DEVIATIONS, _DEVIATIONS):
        true = float(shares @ expit(lead + np.hypot(first, second) * points))
        errors.append(abs(formula(weight, np.array([lead, 0.0]), np.diag([first**2, second**2]), 0) - true))
    return np.array(errors)


def _judge(errors: dict[str, Floats], places: Floats, apart: Floats, seed: int) -> Measured:
    ours, printed, cross = errors["corrected"], errors["printed"], errors["cross_term"]
    worst = int(ours.argmax())
    two = places[:, 0] == 2
    by_spread = {spread: float(ours[places[:, 2] == spread].max()) for spread in _SPREADS}
    return Measured(
        {
            "grid_points": len(ours),
            "seed": seed,
            "integration_points": 2**_LOG_POINTS,
            "mean_error": float(ours.mean()),
            "worst_error": float(ours.max()),
            "worst_at": dict(zip(("K", "distance", "spread"), places[worst].tolist())),
            "worst_error_by_spread": by_spread,
            "printed_mean_error": float(printed.mean()),
            "cross_term_mean_error": float(cross.mean()),
            "mean_error_two_classes": float(ours[two].mean()),
            "cross_term_mean_error_two_classes": float(cross[two].mean()),
            "worst_error_two_classes_no_cross_term": float(apart.max()),
        },
        {
            "small spreads: right to 0.01": by_spread[0.1] < 0.01,
            "on average right to 0.05": float(ours.mean()) < 0.05,
            "two classes, no cross term: right to 0.01": float(apart.max()) < 0.01,
            "it is an approximation only": float(ours.max()) > 0.02,
            "the printed form fails": float(printed.mean()) > 0.3,
        },
        {"small_spread": by_spread[0.1], "two_class_cases": len(apart)},
    )


def _even_normals(size: int) -> Floats:
    """Scrambled Sobol points, as Gaussians: integrals to about 1e-4 with few points."""
    from scipy.special import ndtri
    from scipy.stats import qmc

    cube = qmc.Sobol(size, seed=0).random_base2(_LOG_POINTS)
    return np.asarray(ndtri(np.clip(cube, 1e-12, 1 - 1e-12)))


def _mean_by_points(weight: Floats, z: Floats) -> float:
    logits = z @ weight.T
    return float(np.exp(logits[:, 0] - np.logaddexp.reduce(logits, axis=1)).mean())


def _from_terms(exponents: Floats, i: int) -> float:
    return float(1.0 / (1.0 + np.exp(np.delete(exponents, i)).sum()))
