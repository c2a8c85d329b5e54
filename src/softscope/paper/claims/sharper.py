"""S1 and S2, past the paper: what does order U_max at fixed norm on the optimal structure, and what bounds it.

Both rest on one identity: the gaps g_j = cos_1 - cos_j, j >= 2, add up to K cos_1, because the cosines add up to 0.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ...arrays import Floats
from .base import HOLDS, Claim, Finding, decide
from .order import discordance, draw_cosines, largest_cosine, log_odds_of

Order = Callable[[Floats, Floats], NDArray[np.bool_]]
Exponent = Callable[[Floats, int], Floats]
_SIZES = ((3, 3), (3, 16), (5, 5), (10, 64), (100, 512))
_NORMS = (0.1, 1.0, 5.0, 20.0, 100.0)


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


def check_order(*, precedes: Order = less_apart, pairs: int = 20_000, seed: int = 28) -> Finding:
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


def check_bound(*, exponent: Exponent = equal_gaps_exponent, points: int = 100_000, seed: int = 29) -> Finding:
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


CLAIMS = (
    Claim(
        "S1",
        "What orders U_max at fixed norm",
        "past the paper: sharpens T15 and T16",
        "On the optimal structure let g_j = cos_1 - cos_j be the gaps to the leading class, ascending. If for every k "
        "the k smallest gaps of z' add up to at most those of z, then U_max(z') >= U_max(z) at every norm. All of them "
        "add up to K max cos, so the last condition is T15's; the first is the gap of the linear region (T8). The last "
        "alone decides as the norm goes to 0, the first alone as it grows.",
        "Optimal structure, any K and H. U_max is ordered exactly by log sum_j exp(-c g_j), c = norm(w) norm(z).",
        HOLDS,
        check_order,
        picture="evidence_T15",
    ),
    Claim(
        "S2",
        "The most confident a familiarity allows",
        "past the paper: sharpens T19",
        "On the optimal structure s_max <= 1 / (1 + (K-1) exp(-c K max cos / (K-1))), c = norm(w) norm(z), with "
        "equality exactly where all other classes are equally far; the mental model E5 (with c for the norm) is "
        "never less confident than that.",
        "Optimal structure, any K and H.",
        HOLDS,
        check_bound,
    ),
)
