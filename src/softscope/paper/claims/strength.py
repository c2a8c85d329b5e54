"""T14, T18, T22, S1 and S2: what the strength of z and its familiarity do to confidence.

S1 and S2 go past the paper. Both rest on one identity: on the optimal structure the gaps g_j = cos_1 - cos_j, j >= 2,
add up to K cos_1, because the cosines add up to 0.
"""

from collections.abc import Callable
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from ...arrays import Floats
from ...estimators.softmax import entropy, log_odds
from ...geometry import sandwich, uniform_on_sphere
from ...head import Head
from .evidence import Rows
from .order import discordance, draw_cosines, largest_cosine, log_odds_of
from .register import CONDITIONS, CORRECTED, HOLDS, Outcome, checks, decide

Score = Callable[[NDArray], Floats]
Activation = Callable[[Floats], Floats]
# A bias that makes class 2 lead near the origin: doubling z brings it to the boundary, and confidence falls.
BIASED = Head(np.array([[1.0], [-1.0]]), np.array([-2.0, 2.0]))
Order = Callable[[Floats, Floats], NDArray[np.bool_]]
Exponent = Callable[[Floats, int], Floats]
_SIZES = ((3, 3), (3, 16), (5, 5), (10, 64), (100, 512))
_NORMS = (0.1, 1.0, 5.0, 20.0, 100.0)


def relu(x: Floats) -> Floats:
    """max(x, 0)."""
    return np.maximum(x, 0.0)


@checks("T14")
def check_norm(*, score: Score = log_odds, trials: int = 300, seed: int = 14) -> Outcome:
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


@checks("T18")
def check_not_always(*, score: Score = log_odds, seed: int = 18, pairs: int = 100_000) -> Outcome:
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


@checks("T22")
def check_homogeneous(*, activation: Activation = relu, rows: Rows, trials: int = 100, seed: int = 22) -> Outcome:
    """T22: psi(a x) against a psi(x) in random networks, without biases and with them, and in trained LeNets."""
    rng = np.random.default_rng(seed)
    worst, losing, departures, falls, points = 0.0, 0, [], 0, 0
    factors = np.array([2.0, 10.0, 100.0, 1000.0])
    for _ in range(trials):
        layers, head = _random_network(rng)
        x = rng.standard_normal((50, layers[0][0].shape[1]))
        unbiased = [(weight, 0.0 * bias) for weight, bias in layers]
        z, limit = features(layers, x, activation), features(unbiased, x, activation)
        scale = np.linalg.norm(limit) + 1e-300
        for a in factors:
            worst = max(worst, float(np.linalg.norm(features(unbiased, a * x, activation) - a * limit) / (a * scale)))
        magnified = features(layers, 10.0 * x, activation)
        losing += int((log_odds(head.logits(10.0 * limit)) > log_odds(head.logits(limit)) + 1e-9).sum())
        falls += int((log_odds(head.logits(magnified)) > log_odds(head.logits(z)) + 1e-9).sum())
        departures.append([np.linalg.norm(features(layers, a * x, activation) / a - limit) / scale for a in factors])
        points += len(x)
    mean = np.median(departures, axis=0)
    away, gaining = (np.array([row[name] for row in rows]) for name in ("departure_10", "gaining"))
    rate = float(np.polyfit(np.log(factors[1:]), np.log(mean[1:]), 1)[0])
    return decide(
        CONDITIONS,
        f"without biases psi(a x) = a psi(x) to {worst:.0e} and none of {points:,} inputs loses confidence when "
        f"magnified 10 times; with biases psi(a x) / a is {mean[0]:.0%} away at a = 2, {mean[2]:.1%} at 100 (falling "
        f"as a^{rate:.2f}), and {falls / points:.1%} of inputs lose confidence; "
        f"{len(rows)} trained LeNets are {away.min():.1%} to {away.max():.1%} away at a = 10, where "
        f"{gaining.min():.0f} % or more of their inputs gain confidence",
        {
            "networks": trials,
            "seed": seed,
            "points": points,
            "worst_departure_without_bias": worst,
            "losing_without_bias": losing,
            "median_departure_with_bias": dict(zip(factors.tolist(), mean.tolist())),
            "rate": rate,
            "losing_share_with_bias": falls / points,
            "lenets": len(rows),
        },
        {
            "without biases it is exact": worst < 1e-12,
            "without biases magnified inputs gain confidence": losing == 0,
            "with biases the departure falls as 1/a": abs(rate + 1.0) < 0.1,
            "with biases some inputs lose confidence": 0.0 < falls / points < 0.5,
            "in trained LeNets magnified inputs gain confidence": bool((gaining > 90.0).all()),
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
def check_order(*, precedes: Order = less_apart, pairs: int = 20_000, seed: int = 28) -> Outcome:
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
    least, most = min(decided.values()), max(decided.values())
    return decide(
        HOLDS,
        f"none of the decided pairs is decided wrongly at any norm from 0.1 to 100 ({pairs:,} pairs for each of "
        f"{len(_SIZES)} sizes, {least:.0%} to {most:.0%} of them decided); max cos alone orders U_max as the norm goes "
        f"to 0 ({by_cosine[0]:.2%} discordant at 0.01), the gap of the top two as it grows ({by_gap[-1]:.2%} at 1000)",
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
    )


@checks("S2")
def check_bound(*, exponent: Exponent = equal_gaps_exponent, points: int = 100_000, seed: int = 29) -> Outcome:
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
    return decide(
        HOLDS,
        f"no point of {points:,} for each of {len(_SIZES) + 1} sizes and 3 norms is below the bound (smallest excess "
        f"{excess:.0e}); it is reached along each weight, lifted off the span or not, to {reached:.0e}; the mental "
        "model E5 is at or below the bound everywhere, so it never understates confidence",
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
    )


def sorted_gaps(cosines: Floats) -> Floats:
    """cos_1 - cos_j for all j but the leading class, ascending, [N, K-1]."""
    ordered = np.sort(cosines, axis=1)[:, ::-1]
    return ordered[:, :1] - ordered[:, 1:]
