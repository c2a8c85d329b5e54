"""T1-T3 and T27: the printed gradients of U_max, U_entropy and U_density against derivatives by complex steps."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ...arrays import Floats
from ...estimators.softmax import entropy, log_odds
from ...geometry import KnownMixture, density_field, entropy_field, max_field
from ...head import Head
from .register import CORRECTED, HOLDS, Outcome, checks, decide

HeadField = Callable[[Head, Floats], Floats]
DensityField = Callable[[Floats, Floats, Floats, Floats], Floats]
_STEP = 1e-30
_TOLERANCE = 1e-6
# Two Gaussians of different size, at a point between them: the register's example for T3.
EXAMPLE = KnownMixture([0.5, 0.5], [[0.0, 0.0], [3.0, 1.0]], [0.2 * np.eye(2), 3.0 * np.eye(2)])
EXAMPLE_POINT = np.array([[1.0, 0.5]])


@checks("T1")
def check_max(*, formula: HeadField = max_field, trials: int = 40, seed: int = 1) -> Outcome:
    """T1: `formula` against the complex-step gradient of -max_i s_i."""

    def u_max(logits: NDArray, lead: int) -> NDArray:
        u: NDArray = -1.0 / np.exp(logits - logits[:, lead : lead + 1]).sum(axis=1)
        return u

    return _check_head_field(formula, u_max, trials, seed)


@checks("T2")
def check_entropy(*, formula: HeadField = entropy_field, trials: int = 40, seed: int = 2) -> Outcome:
    """T2: `formula` against the complex-step gradient of -sum_i s_i log s_i."""

    def u_entropy(logits: NDArray, lead: int) -> NDArray:
        shifted = logits - logits[:, lead : lead + 1]
        log_s = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
        u: NDArray = -(np.exp(log_s) * log_s).sum(axis=1)
        return u

    return _check_head_field(formula, u_entropy, trials, seed)


@checks("T3")
def check_density(*, formula: DensityField = density_field, trials: int = 200, seed: int = 3) -> Outcome:
    """T3: `formula` against complex steps, and how far the printed direction is from it."""
    rng = np.random.default_rng(seed)
    worst, cosines = 0.0, []
    for _ in range(trials):
        mixture = random_mixture(rng, int(rng.integers(2, 6)), int(rng.integers(2, 9)))
        z = mixture.means[:1] + 2.0 * rng.standard_normal((1, mixture.n_features))
        true = _density_gradient(mixture, z[0])
        ours = formula(mixture.weights, mixture.means, mixture.covariances, z)[0]
        worst = max(worst, _relative(ours, true))
        cosines.append(_cosine(printed_density_field(mixture, z)[0], true))
    at_example = _cosine(printed_density_field(EXAMPLE, EXAMPLE_POINT)[0], _density_gradient(EXAMPLE, EXAMPLE_POINT[0]))
    off = float(np.mean(np.array(cosines) < 0.99))
    numbers = {
        "trials": trials,
        "seed": seed,
        "worst_relative_error": worst,
        "printed_cosine_at_example": at_example,
        "printed_worst_cosine": float(min(cosines)),
        "printed_share_below_0.99": off,
    }
    return decide(
        CORRECTED,
        f"with the normaliser, error at most {worst:.0e} in {trials} random mixtures; printed direction: cosine "
        f"{at_example:.2f} with the gradient at the example, {min(cosines):.2f} at worst, below 0.99 in {off:.0%}",
        numbers,
        {
            "the corrected form equals the gradient to 1e-6": worst < _TOLERANCE,
            "the printed form has cosine -0.74 at the example": abs(at_example + 0.74) < 0.005,
            "the printed form fails on random mixtures": off > 0.01,
        },
    )


def printed_density_field(mixture: KnownMixture, z: Floats) -> Floats:
    """T3 as printed, up to its common factor: sum_i pi_i exp(-distance_i / 2) Sigma_i^-1 (z - mu_i), no normaliser."""
    scale = np.log(mixture.weights) - 0.5 * mixture.squared_distances(z)
    pull = np.exp(scale - scale.max(axis=1, keepdims=True))
    inverses = np.linalg.inv(mixture.covariances)
    field: Floats = np.einsum("nc,chg,ncg->nh", pull, inverses, z[:, None, :] - mixture.means)
    return field


def random_mixture(rng: np.random.Generator, count: int, size: int) -> KnownMixture:
    """KnownMixture of random weights, places, sizes (over a factor of 30) and orientations."""
    half = rng.standard_normal((count, size, size)) / np.sqrt(size)
    shapes = half @ half.transpose(0, 2, 1) + 0.1 * np.eye(size)
    sizes = np.exp(rng.uniform(-1.7, 1.7, count))
    weights = rng.random(count) + 0.2
    means = 2.0 * rng.standard_normal((count, size))
    return KnownMixture(weights / weights.sum(), means, sizes[:, None, None] * shapes)


def _check_head_field(formula: HeadField, value: Callable[[NDArray, int], NDArray], trials: int, seed: int) -> Outcome:
    rng = np.random.default_rng(seed)
    worst, largest = 0.0, (0, 0)
    for trial in range(trials):
        # The last trial is the largest size named in the claim.
        sizes = (100, 512) if trial == trials - 1 else (int(rng.integers(2, 101)), int(rng.integers(1, 513)))
        head, z = _random_head(rng, *sizes)
        weight, bias = head.weight, head.bias
        lead = int((weight @ z[0] + bias).argmax())
        steps = z + 1j * _STEP * np.eye(sizes[1])
        true = value(steps @ weight.T + bias, lead).imag / _STEP
        worst, largest = max(worst, _relative(formula(head, z)[0], true)), max(largest, sizes)
    return decide(
        HOLDS,
        f"equal to the complex-step gradient to {worst:.0e} in {trials} random heads up to K = {largest[0]}, "
        f"H = {largest[1]}",
        {"trials": trials, "seed": seed, "worst_relative_error": worst, "largest": list(largest)},
        {"the formula equals the gradient to 1e-6": worst < _TOLERANCE},
    )


def _random_head(rng: np.random.Generator, classes: int, features: int) -> tuple[Head, Floats]:
    scale = np.exp(rng.uniform(-1.0, 2.0)) / np.sqrt(features)
    head = Head(scale * rng.standard_normal((classes, features)), rng.standard_normal(classes))
    return head, rng.standard_normal((1, features))


def _density_gradient(mixture: KnownMixture, row: Floats) -> Floats:
    """Complex-step gradient of -log q, from determinants and inverses: no code shared with the formula under test."""
    inverses, logdets = np.linalg.inv(mixture.covariances), np.linalg.slogdet(mixture.covariances)[1]
    offsets = (row + 1j * _STEP * np.eye(len(row)))[:, None, :] - mixture.means
    parts = np.log(mixture.weights) - 0.5 * logdets - 0.5 * np.einsum("nch,chg,ncg->nc", offsets, inverses, offsets)
    top = parts.real.max(axis=1, keepdims=True)
    return np.asarray(-np.log(np.exp(parts - top).sum(axis=1)).imag / _STEP)


def _relative(ours: Floats, true: Floats) -> float:
    return float(np.linalg.norm(ours - true) / max(float(np.linalg.norm(true)), 1e-12))


def _cosine(a: Floats, b: Floats) -> float:
    return float(a @ b / (np.linalg.norm(a) * np.linalg.norm(b)))


@checks("T27")
def check_direction(
    *,
    max_gradient: HeadField = max_field,
    entropy_gradient: HeadField = entropy_field,
    trials: int = 2000,
    seed: int = 27,
) -> Outcome:
    """T27: the sign of the derivative of both uncertainties along -w_1 where class 1 leads, w_1 = -w_2."""
    rng = np.random.default_rng(seed)
    slopes, steps = [], []
    for _ in range(trials):
        w = rng.standard_normal(int(rng.integers(1, 12)))
        head = Head(np.stack([w, -w]))
        z = rng.standard_normal((1, len(w)))
        z = z * np.sign(z @ w)[:, None]
        slopes.append([float(gradient(head, z)[0] @ -w) for gradient in (max_gradient, entropy_gradient)])
        # A short step along -w_1 that stays on class 1's side: the same question without any gradient.
        ahead = z - 0.4 * float(z[0] @ w) / float(w @ w) * w
        steps.append([float((score(head.logits(ahead)) - score(head.logits(z)))[0]) for score in (log_odds, entropy)])
    rising, moved = np.array(slopes), np.array(steps)
    return decide(
        CORRECTED,
        f"along -w_1 both uncertainties rise in all {trials} random cases (slope and finite step); the printed lemma "
        "says they fall",
        {
            "trials": trials,
            "seed": seed,
            "smallest_slope_max": float(rising[:, 0].min()),
            "smallest_slope_entropy": float(rising[:, 1].min()),
            "share_falling_as_printed": float((rising < 0).mean()),
        },
        {
            "both gradients point along -w_1": bool((rising > 0).all()),
            "both uncertainties rise over a finite step": bool((moved > 0).all()),
        },
    )
