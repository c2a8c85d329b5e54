"""T14, T18 and T22: what the norm of z does to confidence, and what max cos does away from the optimal structure."""

from collections.abc import Callable
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from ...arrays import Floats
from ...estimators.softmax import entropy, log_odds
from ...geometry import uniform_on_sphere
from ...geometry.structures import sandwich
from ...head import Head
from .base import CONDITIONS, CORRECTED, Claim, Finding, decide

Score = Callable[[NDArray], Floats]
Activation = Callable[[Floats], Floats]
# A bias that makes class 2 lead near the origin: doubling z brings it to the boundary, and confidence falls.
BIASED = Head(np.array([[1.0], [-1.0]]), np.array([-2.0, 2.0]))


def relu(x: Floats) -> Floats:
    """max(x, 0)."""
    return np.maximum(x, 0.0)


def check_norm(*, score: Score = log_odds, trials: int = 300, seed: int = 14) -> Finding:
    """T14: U_max along rays from the origin without bias; the same with bias; warmed logits."""
    rng = np.random.default_rng(seed)
    rising, biased, warmed, points = 0, 0, 0, 0
    for _ in range(trials):
        classes, features = int(rng.integers(2, 30)), int(rng.integers(1, 30))
        head = Head(rng.standard_normal((classes, features)))
        z = np.exp(rng.uniform(-3, 2)) * rng.standard_normal((200, features))
        stretch = np.exp(rng.uniform(0.01, 2.0, (200, 1)))
        near, far = head.logits(z), head.logits(stretch * z)
        rising += int((score(far) > score(near) + 1e-9 * (1 + np.abs(score(near)))).sum())
        shift = rng.standard_normal(classes)
        biased += int((score(far + shift) > score(near + shift) + 1e-9).sum())
        warm = near / stretch
        warmed += int(((score(warm) < score(near) - 1e-9) | (entropy(warm) < entropy(near) - 1e-9)).sum())
        points += len(z)
    one, two = (float(score(BIASED.logits(np.array([[norm]])))[0]) for norm in (1.0, 2.0))
    return decide(
        CONDITIONS,
        f"without bias no ray out of {points:,} makes U_max rise with the norm; with a random bias "
        f"{biased / points:.0%} do, e.g. w = (1, -1), b = (-2, 2), where doubling z = 1 takes s_max from "
        f"{_confidence(one):.2f} to {_confidence(two):.2f}; warming the logits raises U_max and U_entropy at all of "
        "these points",
        {
            "points": points,
            "seed": seed,
            "rising_without_bias": rising,
            "rising_share_with_bias": biased / points,
            "example_s_max": [_confidence(one), _confidence(two)],
            "lowered_by_warming": warmed,
        },
        {
            "without bias U_max falls as the norm grows": rising == 0,
            "the example with a bias rises": two > one + 0.1,
            "a random bias often breaks it": biased / points > 0.01,
            "warmed logits raise both uncertainties": warmed == 0,
        },
    )


def check_not_always(*, score: Score = log_odds, seed: int = 18, pairs: int = 100_000) -> Finding:
    """T18: the printed pair of points with its numbers, the same pair at exactly unit norm, and how common it is."""
    head = sandwich(3, 2)
    first, second = np.array([[1.0, 0.0]]), np.array([[0.9, -0.44]])
    norm = float(np.linalg.norm(second))
    confidence = [_confidence(float(score(head.logits(z))[0])) for z in (first, second, second / norm)]
    familiarity = float(head.cosines(second).max())
    z = uniform_on_sphere(2 * pairs, 2, np.random.default_rng(seed))
    u_max, lead = score(head.logits(z)), head.cosines(z).max(axis=1)
    discordant = float(((u_max[:pairs] - u_max[pairs:]) * (lead[:pairs] - lead[pairs:]) > 0).mean())
    return decide(
        CORRECTED,
        f"max cos falls from 1 to {familiarity:.3f} and s_max rises from {confidence[0]:.3f} to {confidence[1]:.3f} "
        f"({confidence[2]:.3f} with z_2 scaled to norm 1; printed, its norm is {norm:.3f}); on the sandwich "
        f"{discordant:.0%} of pairs of norm 1 are ordered this way",
        {
            "pairs": pairs,
            "seed": seed,
            "s_max": confidence,
            "norm_z2": norm,
            "max_cos_z2": familiarity,
            "discordant_share": discordant,
        },
        {
            "s_max is 0.665 and 0.701": abs(confidence[0] - 0.665) < 5e-4 and abs(confidence[1] - 0.701) < 5e-4,
            "less familiar and more confident, also at equal norms": familiarity < 1 and confidence[2] > confidence[0],
            "the printed max cos of 0.8 is 0.898": abs(familiarity - 0.898) < 5e-4,
            "the printed norms differ": abs(norm - 1.002) < 5e-4,
        },
    )


def check_homogeneous(*, activation: Activation = relu, trials: int = 100, seed: int = 22) -> Finding:
    """T22: psi(a x) against a psi(x) in random networks, without biases and with them."""
    rng = np.random.default_rng(seed)
    worst, losing, departures, falls, points = 0.0, 0, [], 0, 0
    factors = np.array([2.0, 10.0, 100.0, 1000.0])
    for _ in range(trials):
        layers, head = _random_network(rng)
        x = rng.standard_normal((50, layers[0][0].shape[1]))
        plain = [(weight, 0.0 * bias) for weight, bias in layers]
        z, limit = features(layers, x, activation), features(plain, x, activation)
        scale = np.linalg.norm(limit) + 1e-300
        for a in factors:
            worst = max(worst, float(np.linalg.norm(features(plain, a * x, activation) - a * limit) / (a * scale)))
        magnified = features(layers, 10.0 * x, activation)
        losing += int((log_odds(head.logits(10.0 * limit)) > log_odds(head.logits(limit)) + 1e-9).sum())
        falls += int((log_odds(head.logits(magnified)) > log_odds(head.logits(z)) + 1e-9).sum())
        departures.append([np.linalg.norm(features(layers, a * x, activation) / a - limit) / scale for a in factors])
        points += len(x)
    mean = np.median(departures, axis=0)
    rate = float(np.polyfit(np.log(factors[1:]), np.log(mean[1:]), 1)[0])
    return decide(
        CONDITIONS,
        f"without biases psi(a x) = a psi(x) to {worst:.0e} and none of {points:,} inputs loses confidence when "
        f"magnified 10 times; with biases psi(a x) / a is {mean[0]:.0%} away at a = 2, {mean[2]:.1%} at 100 (falling "
        f"as a^{rate:.2f}), and {falls / points:.1%} of inputs lose confidence",
        {
            "networks": trials,
            "seed": seed,
            "points": points,
            "worst_departure_without_bias": worst,
            "losing_without_bias": losing,
            "median_departure_with_bias": dict(zip(factors.tolist(), mean.tolist())),
            "rate": rate,
            "losing_share_with_bias": falls / points,
        },
        {
            "without biases it is exact": worst < 1e-12,
            "without biases magnified inputs gain confidence": losing == 0,
            "with biases the departure falls as 1/a": abs(rate + 1.0) < 0.1,
            "with biases some inputs lose confidence": 0.0 < falls / points < 0.5,
        },
    )


def features(layers: list[tuple[Floats, Floats]], x: Floats, activation: Activation = relu) -> Floats:
    """psi(x): every layer is linear, then the activation."""
    for weight, bias in layers:
        x = activation(x @ weight.T + bias)
    return x


def _random_network(rng: np.random.Generator) -> tuple[list[tuple[Floats, Floats]], Head]:
    """2 to 4 hidden layers with weights and biases of common initialisations, and a head without bias."""
    sizes = [int(rng.integers(2, 20)), *rng.integers(8, 65, int(rng.integers(2, 5))).tolist()]
    layers = []
    for fan_in, fan_out in pairwise(sizes):
        weight = np.sqrt(2.0 / fan_in) * rng.standard_normal((fan_out, fan_in))
        layers.append((weight, rng.uniform(-1.0, 1.0, fan_out) / np.sqrt(fan_in)))
    return layers, Head(rng.standard_normal((int(rng.integers(2, 11)), sizes[-1])) / np.sqrt(sizes[-1]))


def _confidence(u: float) -> float:
    """s_max from its rank form log((1 - s_max) / s_max)."""
    return float(1.0 / (1.0 + np.exp(u)))


CLAIMS = (
    Claim(
        "T14",
        "Strength lowers U_max",
        "prop_optimal_zmag",
        "For any weights, U_max falls as norm(z) grows along a fixed direction.",
        "No bias. With a bias it need not, as the example in the evidence shows.",
        CONDITIONS,
        check_norm,
        slip="The proof prints U_max as the max of -s (it is minus the max). The main text says that warmed logits "
        "(T > 1) give lower U_max and U_entropy; they raise both.",
    ),
    Claim(
        "T18",
        "Familiarity need not order U_max",
        "prop_optimal_notalways",
        "Away from the optimal structure a lower max cos can come with a lower U_max: on the sandwich structure the "
        "point (0.9, -0.44) is less familiar than (1, 0), and more confident.",
        "One counterexample suffices; the sandwich of three classes in the plane.",
        CORRECTED,
        check_not_always,
        slip="z_2 = (0.9, -0.44) has norm 1.002, not 1, and its max cos is 0.898, not 0.8. The conclusion stands, also "
        "at exactly equal norms.",
    ),
    Claim(
        "T22",
        "Magnified inputs gain confidence",
        "sec_feats_intuition",
        "A ReLU network maps a magnified input to a magnified feature, psi(a x) = a psi(x), a > 0, so its confidence "
        "grows with a.",
        "Exact without biases. With biases psi(a x) / a only tends to the features of the network without them, as "
        "1/a, and single inputs can lose confidence.",
        CONDITIONS,
        check_homogeneous,
    ),
)
