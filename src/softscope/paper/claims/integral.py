"""T13: the closed form for the mean softmax of a Gaussian, against numerical integration."""

from collections.abc import Callable
from itertools import product

import numpy as np

from ...arrays import Floats
from ...geometry.structures import simplex
from .base import APPROXIMATE, Claim, Finding, decide

Approximation = Callable[[Floats, Floats, Floats, int], float]
_DISTANCES, _SPREADS, _CLASSES = (0.0, 1.0, 2.0, 4.0, 8.0), (0.1, 0.5, 1.0, 2.0, 4.0), (2, 3, 5, 10)
_LOG_POINTS = 13


def mean_softmax(weight: Floats, mu: Floats, covariance: Floats, i: int) -> float:
    """T13 as corrected: 1/(1 + sum_{j != i} exp(-(w_i'mu - w_j'mu) / sqrt(1 + pi/8 (w_i'S w_i + w_j'S w_j))))."""
    spread = np.einsum("kh,hg,kg->k", weight, covariance, weight)
    lead = weight[i] @ mu - weight @ mu
    return _from_terms(-lead / np.sqrt(1.0 + np.pi / 8.0 * (spread[i] + spread)), i)


def printed_mean_softmax(weight: Floats, mu: Floats, covariance: Floats, i: int) -> float:
    """T13 as printed, with mu where it says z: the sign of the exponent is the other way round."""
    spread = np.einsum("kh,hg,kg->k", weight, covariance, weight)
    lead = weight[i] @ mu - weight @ mu
    return _from_terms(lead / np.sqrt(1.0 + np.pi / 8.0 * (spread[i] + spread)), i)


def mean_softmax_with_cross_term(weight: Floats, mu: Floats, covariance: Floats, i: int) -> float:
    """T13 with the variance of the difference, (w_i - w_j)'S(w_i - w_j): the term w_i'S w_j is kept."""
    apart = weight[i] - weight
    spread = np.einsum("kh,hg,kg->k", apart, covariance, apart)
    return _from_terms(-(apart @ mu) / np.sqrt(1.0 + np.pi / 8.0 * spread), i)


def check_integral(*, formula: Approximation = mean_softmax, seed: int = 13) -> Finding:
    """T13: errors over a grid of classes, distances and spreads, optimal and random weights."""
    rng = np.random.default_rng(seed)
    forms = {"corrected": formula, "printed": printed_mean_softmax, "cross_term": mean_softmax_with_cross_term}
    errors: dict[str, list[float]] = {name: [] for name in forms}
    places: list[tuple[int, float, float]] = []
    for classes in _CLASSES:
        normals = _even_normals(classes)
        for distance, spread, optimal in product(_DISTANCES, _SPREADS, (True, False)):
            weight = _weights(classes, optimal, rng)
            root = spread * rng.standard_normal((classes, classes)) / np.sqrt(classes)
            mu = distance * weight[0]
            true = _mean_by_points(weight, mu + normals @ root.T)
            for name, form in forms.items():
                errors[name].append(abs(form(weight, mu, root @ root.T, 0) - true))
            places.append((classes, distance, spread))
    return _judge({name: np.array(values) for name, values in errors.items()}, np.array(places), seed)


def _judge(errors: dict[str, Floats], places: Floats, seed: int) -> Finding:
    ours, printed, cross = errors["corrected"], errors["printed"], errors["cross_term"]
    worst = int(ours.argmax())
    two = places[:, 0] == 2
    by_spread = {spread: float(ours[places[:, 2] == spread].max()) for spread in _SPREADS}
    numbers = {
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
    }
    return decide(
        APPROXIMATE,
        f"error {ours.mean():.3f} on average and {ours.max():.2f} at worst over {len(ours)} cases, growing with the "
        f"spread ({by_spread[0.1]:.0e} at 0.1); as printed {printed.mean():.2f} on average; keeping the cross term "
        f"cuts K = 2 from {ours[two].mean():.3f} to {cross[two].mean():.4f} and does not help for larger K",
        numbers,
        {
            "small spreads: right to 0.01": by_spread[0.1] < 0.01,
            "on average right to 0.05": float(ours.mean()) < 0.05,
            "it is an approximation only": float(ours.max()) > 0.02,
            "the printed form fails": float(printed.mean()) > 0.3,
        },
    )


def _even_normals(size: int) -> Floats:
    """Scrambled Sobol points, as Gaussians: integrals to about 1e-4 with few points."""
    from scipy.special import ndtri
    from scipy.stats import qmc

    cube = qmc.Sobol(size, seed=0).random_base2(_LOG_POINTS)
    return np.asarray(ndtri(np.clip(cube, 1e-12, 1 - 1e-12)))


def _weights(classes: int, optimal: bool, rng: np.random.Generator) -> Floats:
    if optimal:
        return np.column_stack([simplex(classes), np.zeros(classes)])
    rows = rng.standard_normal((classes, classes))
    found: Floats = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return found


def _mean_by_points(weight: Floats, z: Floats) -> float:
    logits = z @ weight.T
    return float(np.exp(logits[:, 0] - np.logaddexp.reduce(logits, axis=1)).mean())


def _from_terms(exponents: Floats, i: int) -> float:
    return float(1.0 / (1.0 + np.exp(np.delete(exponents, i)).sum()))


CLAIMS = (
    Claim(
        "T13",
        "Mean softmax of a Gaussian",
        "theorem_hyperplane_structure_optimal (proof)",
        "The mean of s_i over z ~ N(mu, S) is about 1 / (1 + sum_{j != i} exp(-(w_i'mu - w_j'mu) / "
        "sqrt(1 + pi/8 (w_i'S w_i + w_j'S w_j)))).",
        "An approximation, good for small spreads; it leaves out the cross term w_i'S w_j.",
        APPROXIMATE,
        check_integral,
        slip="The exponent is printed with the opposite sign, and with z where the mean mu belongs.",
    ),
)
