"""T19 and T23-T26: claims about trained networks, decided by the tables that experiments leave in their results.

An experiment gives evidence on a claim by a table named after it (`Result.tables["T23"]`), one row a network or a pair
of data sets. The columns each claim reads are named by its check; rows may hold more. Nothing is trained here.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...arrays import Floats
from ...geometry.structures import simplex
from .base import APPROXIMATE, CONDITIONS, HOLDS, OPEN, Claim, Finding, decide
from .order import log_odds_of
from .sharper import mental_exponent

Rows = Sequence[dict[str, Any]]
Exponent = Callable[[Floats, int], Floats]


def check_mental(*, rows: Rows = (), exponent: Exponent = mental_exponent) -> Finding:
    """T19: E5 equals U_max where its assumptions hold; `spearman` (of U_mental and U_max) on trained networks."""
    error = 0.0
    for classes in (2, 3, 10, 100):
        aligned = simplex(classes)[:1] @ simplex(classes).T
        for c in (0.1, 1.0, 10.0):
            mental = np.log(classes - 1.0) - c * exponent(aligned.max(axis=1), classes)
            error = max(error, float(np.abs(log_odds_of(aligned, c) - mental).max()))
    tests = {"under its assumptions the model equals U_max": error < 1e-9}
    if not rows:
        return decide(
            OPEN, f"equal to U_max under its assumptions, to {error:.0e}; {_REST_WAITS}", {"error": error}, tests
        )
    agreement = _column(rows, "spearman")
    return decide(
        APPROXIMATE,
        f"equal to U_max under its assumptions, to {error:.0e}; on {len(rows)} trained networks its rank agreement "
        f"with U_max is {np.median(agreement):.2f} (median), {agreement.min():.2f} to {agreement.max():.2f}",
        {"error": error, "networks": len(rows), "spearman_range": [float(agreement.min()), float(agreement.max())]},
        {**tests, "it agrees with U_max better than chance": float(np.median(agreement)) > 0.2},
    )


def check_entropy_preferred(*, rows: Rows = ()) -> Finding:
    """T23: `difference` = AUROC of U_entropy less that of U_max, with its paired interval `low`..`high`."""
    if not rows:
        return _open()
    difference, low, high = (_column(rows, name) for name in ("difference", "low", "high"))
    better, worse = int((low > 0).sum()), int((high < 0).sum())
    return decide(
        HOLDS if worse == 0 else CONDITIONS,
        f"of {len(rows)} pairs U_entropy is better in {better} and worse in {worse} beyond the paired interval; mean "
        f"difference {difference.mean():+.4f}",
        {"pairs": len(rows), "better": better, "worse": worse, "mean_difference": float(difference.mean())},
        {"U_entropy is better more often than worse": better > worse and float(difference.mean()) > 0},
    )


def check_saturation(*, rows: Rows = ()) -> Finding:
    """T24: `equal_share` = share of equal float32 scores, `lost` = AUROC that rounding costs; `network`: the family.

    By the share alone, 1 % and 20 % being the limits, the claim fails for ResNet18 on MNIST; such equal scores, of
    inputs that are all familiar, cost nothing. Where `lost` is given it decides what is minor, and the share is said.
    """
    if not rows:
        return _open()
    families = {"resnet": "ResNet", "efficient": "EfficientNet"}
    own = {name: [row for row in rows if key in str(row["network"]).lower()] for key, name in families.items()}
    shares = {name: max((row["equal_share"] for row in found), default=0.0) for name, found in own.items()}
    known = [row["lost"] for found in own.values() for row in found if "lost" in row]
    minor = [
        row["lost"] < 0.005 if "lost" in row else row["equal_share"] < 0.2 for found in own.values() for row in found
    ]
    rare = "" if shares["ResNet"] < 0.01 else "not absent by that share, but "
    lost = f"; {rare}rounding costs at most {100 * max(known):.2f} points of AUROC" if known else ""
    return decide(
        HOLDS if shares["ResNet"] < 0.01 else CONDITIONS,
        f"largest share of equal float32 scores: {shares['ResNet']:.2%} in {len(own['ResNet'])} ResNet rows, "
        f"{shares['EfficientNet']:.2%} in {len(own['EfficientNet'])} EfficientNet rows{lost}",
        {"largest_equal_share": shares, "rows": len(rows), "largest_loss": max(known, default=None)},
        {"saturation is at most minor": all(minor), "some rows bear on it": bool(minor)},
    )


def check_skewness(*, rows: Rows = ()) -> Finding:
    """T25: `skewness` of the cosines between weights of a head with `classes` classes."""
    many = [row for row in rows if row["classes"] >= 100]
    if not many:
        return _open()
    skewness = _column(many, "skewness")
    positive = int((skewness > 0).sum())
    return decide(
        HOLDS if positive == len(many) else CONDITIONS,
        f"skewness of cos(w_i, w_j) with 100 classes or more: {skewness.min():+.2f} to {skewness.max():+.2f} in "
        f"{len(many)} heads, positive in {positive}",
        {"heads": len(many), "positive": positive, "skewness": skewness.tolist()},
        {"the skew is to the positive in most heads": 2 * positive > len(many)},
    )


def check_ensemble(*, rows: Rows = ()) -> Finding:
    """T26: `entropy_in` and `entropy_out`, mean softmax entropy over networks trained alike, on test and OOD data."""
    if not rows:
        return _open()
    rise = _column(rows, "entropy_out") - _column(rows, "entropy_in")
    rising = int((rise > 0).sum())
    return decide(
        HOLDS if rising == len(rows) else CONDITIONS,
        f"averaged over networks, entropy is higher on OOD than on test data in {rising} of {len(rows)} pairs "
        f"(mean rise {rise.mean():+.3f} nats)",
        {"pairs": len(rows), "rising": rising, "mean_rise": float(rise.mean())},
        {"entropy rises on most OOD data": 2 * rising > len(rows)},
    )


_WAITING = "no result of an experiment bears on it yet"
_REST_WAITS = "its agreement on trained networks waits for results"


def _open() -> Finding:
    return Finding(OPEN, _WAITING, {"rows": 0})


def _column(rows: Rows, name: str) -> Floats:
    return np.array([row[name] for row in rows], np.float64)


CLAIMS = (
    Claim(
        "T19",
        "The mental model",
        "prop_mentalmodel",
        "If the structure is optimal and every cosine but the largest is -1/(K-1), U_max has the order of "
        "-1 / (1 + (K-1) exp(-norm(z) (1/(K-1) + max cos))). On trained networks it agrees in rank, roughly.",
        "Its two assumptions. Together they force max cos = 1, since cosines add up to 0; S2 gives the bound that "
        "replaces the model where they do not hold.",
        OPEN,
        check_mental,
    ),
    Claim(
        "T23",
        "U_entropy before U_max",
        "sec_failure_measure",
        "U_entropy detects OOD inputs at least as well as U_max, consistently over data sets.",
        "Empirical: paired intervals from X4, X7, X9, X10.",
        OPEN,
        check_entropy_preferred,
    ),
    Claim(
        "T24",
        "Saturation is rare",
        "sec_failure_measure",
        "Softmax scores do not saturate for ResNet18, and little for EfficientNet.",
        "Empirical: the share of equal float32 scores, from X9 and X10.",
        OPEN,
        check_saturation,
    ),
    Claim(
        "T25",
        "Related classes share features",
        "sec_decision_analysis",
        "With many classes the cosines between weights are skewed to the positive: related classes share features.",
        "Empirical: heads with 100 classes or more, from X3.",
        OPEN,
        check_skewness,
    ),
    Claim(
        "T26",
        "Entropy rises on OOD data",
        "sec_app_comprehensive",
        "Averaged over networks trained alike, softmax entropy is higher on OOD data than on test data.",
        "Empirical: from the runs of X7 and X9.",
        OPEN,
        check_ensemble,
    ),
)
