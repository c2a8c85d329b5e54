"""T19, T23-T26, T30, T31, T33, T34: claims about trained networks, decided by rows that experiments have left.

The rows travel in the package (`evidence`), so that a verdict is the same in every folder. A network counts once,
whatever the number of OOD sets it met. How rows decide is said by each claim's `rule`; nothing is trained here.
"""

from typing import Any

import numpy as np

from ...arrays import Floats
from ...geometry import simplex
from ...metrics import mean_interval
from .evidence import EvidenceRows
from .order import Exponent, log_odds_of, mental_exponent
from .register import CONDITIONS, FAILS, HOLDS, UNDECIDED, Measured, checks

# Fewer networks trained alike say nothing about their mean or their variance (T26, T34).
ENOUGH_ALIKE = 5
# The paper trains ResNet18 for 100 epochs; alignment of features and weights grows late (T30).
ENOUGH_EPOCHS = 50


@checks("T19")
def check_mental(*, rows: EvidenceRows, exponent: Exponent = mental_exponent) -> Measured:
    """T19: E5 equals U_max where its assumptions hold; `spearman` (of U_mental and U_max) on trained networks."""
    error = 0.0
    for classes in (2, 3, 10, 100):
        aligned = simplex(classes)[:1] @ simplex(classes).T
        for c in (0.1, 1.0, 10.0):
            mental = np.log(classes - 1.0) - c * exponent(aligned.max(axis=1), classes)
            error = max(error, float(np.abs(log_odds_of(aligned, c) - mental).max()))
    if not rows:
        return _undecided("no trained network bears on it")
    agreement = np.array([own["spearman"].mean() for own in by_network(rows, "spearman").values()])
    median = float(np.median(agreement))
    return Measured(
        {
            "error": error,
            "networks": len(agreement),
            "rows": len(rows),
            "spearman_range": [agreement.min(), agreement.max()],
        },
        {
            "under its assumptions the model equals U_max": error < 1e-9,
            "it agrees with U_max better than chance": median > 0.2,
        },
        {"median": median},
    )


@checks("T23")
def check_entropy_preferred(*, rows: EvidenceRows) -> Measured:
    """T23: `difference` = AUROC of U_entropy less that of U_max, with its paired interval `low`..`high`."""
    networks = by_network(rows, "difference", "low", "high")
    if len(networks) < 2:
        return _undecided(f"{len(networks)} trained networks bear on it")
    means = np.array([own["difference"].mean() for own in networks.values()])
    # The OOD sets of a network are independent draws: the interval of their mean shrinks accordingly.
    halves = np.array(
        [np.sqrt((((own["high"] - own["low"]) / 2) ** 2).sum()) / len(own["low"]) for own in networks.values()]
    )
    better, worse = int((means > halves).sum()), int((means < -halves).sum())
    return Measured(
        {"networks": len(networks), "rows": len(rows), "better": better, "worse": worse},
        said={
            "undecided": len(networks) - better - worse,
            "gain": _points(means[means > 0]),
            "loss": _points(means[means < 0]),
            "losers": _named(networks, means < -halves),
        },
        verdict=(HOLDS if worse == 0 else CONDITIONS) if better > worse else FAILS if worse > better else UNDECIDED,
    )


@checks("T24")
def check_saturation(*, rows: EvidenceRows, absent: float = 0.01, minor: float = 0.2) -> Measured:
    """T24: `equal_share` = share of equal float32 scores, `lost` = AUROC that rounding costs; `network`: the family."""
    families = {"resnet": "ResNet18", "efficient": "EfficientNet"}
    own = {name: [row for row in rows if key in str(row["network"]).lower()] for key, name in families.items()}
    if not all(own.values()):
        return _undecided("it needs networks of both families")
    share = {name: max(row["equal_share"] for row in each) for name, each in own.items()}
    networks = {name: len({row["network"] for row in each}) for name, each in own.items()}
    lost = max((row["lost"] for each in own.values() for row in each if "lost" in row), default=float("nan"))
    by_share = {"ResNet18": share["ResNet18"] < absent, "EfficientNet": share["EfficientNet"] < minor}
    return Measured(
        {"largest_equal_share": share, "networks": networks, "rows": len(rows), "largest_loss": lost},
        said={
            "absent": absent,
            "minor": minor,
            "resnet": HOLDS if by_share["ResNet18"] else FAILS,
            "efficientnet": HOLDS if by_share["EfficientNet"] else FAILS,
            "points": 100 * lost,
            "second": HOLDS if lost < 0.005 else FAILS,
        },
        verdict=HOLDS if all(by_share.values()) else FAILS,
    )


@checks("T25")
def check_skewness(*, rows: EvidenceRows) -> Measured:
    """T25: `skewness` of the cosines between weights of a head with `classes` classes."""
    many = [row for row in rows if row["classes"] >= 100]
    if len(many) < 2:
        return _undecided(f"{len(many)} heads with 100 classes or more bear on it")
    skewness = np.array([row["skewness"] for row in many])
    positive = int((skewness > 0).sum())
    return Measured(
        {"heads": len(many), "positive": positive, "skewness": skewness.tolist()},
        said={"least": skewness.min(), "most": skewness.max()},
        verdict=HOLDS if positive == len(many) else FAILS if 2 * positive <= len(many) else UNDECIDED,
    )


@checks("T26")
def check_ensemble(*, rows: EvidenceRows) -> Measured:
    """T26: `rises`, of each network trained alike the mean entropy on OOD less that on test inputs; one row per set."""
    enough = [row for row in rows if len(row.get("rises", ())) >= ENOUGH_ALIKE]
    if not enough:
        most = max((row["networks"] for row in rows), default=0)
        return _undecided(
            f"it needs {ENOUGH_ALIKE} networks trained alike, of which each says how far its entropy rises; there are "
            f"{most} at most",
            rows=len(rows),
        )
    spans = [interval(row["rises"]) for row in enough]
    rising, falling = (sum(span[1] > 0 for span in spans), sum(span[2] < 0 for span in spans))
    return Measured(
        {"settings": len(enough), "rising": rising, "falling": falling, "intervals": [list(span) for span in spans]},
        said={"fewest": min(len(row["rises"]) for row in enough), "least": min(spans)},
        verdict=HOLDS if rising == len(enough) else FAILS if falling > 0 else UNDECIDED,
    )


@checks("T30")
def check_alignment(*, rows: EvidenceRows, least: float = 0.9) -> Measured:
    """T30: `largest_cosine` = median of max_i cos(w_i, z) of known inputs, `epochs` = how long the network trained."""
    values = np.array([row["largest_cosine"] for row in rows])
    long = np.array([row["epochs"] >= ENOUGH_EPOCHS for row in rows], bool)
    if long.sum() < 2:
        brief = f"; {len(rows)} briefly trained networks have {min(values):.2f} to {max(values):.2f}" if rows else ""
        return _undecided(
            f"it is about networks trained for 100 epochs, of which {long.sum()} with {ENOUGH_EPOCHS} or more are at "
            f"hand{brief}, where the claim needs {least}",
            networks=len(rows),
        )
    mean, low, high = interval(values[long])
    return Measured(
        {"networks": int(long.sum()), "values": values[long].tolist(), "interval": [mean, low, high]},
        said={"epochs": ENOUGH_EPOCHS, "least": least},
        verdict=HOLDS if low > least else FAILS if high < least else UNDECIDED,
    )


@checks("T31")
def check_falling(*, rows: EvidenceRows) -> Measured:
    """T31: `norm` and `familiarity`, AUROC in percent of -norm(z) and of -max cos for a network and an OOD set."""
    names = ("norm", "familiarity")
    networks = by_network(rows, *names)
    if len(networks) < 2:
        return _undecided(f"{len(networks)} trained networks bear on it")
    spans = {name: interval([own[name].mean() for own in networks.values()]) for name in names}
    below = {name: sum(row[name] < 50.0 for row in rows) for name in names}
    holds = all(span[1] > 50.0 for span in spans.values())
    fails = any(span[2] < 50.0 for span in spans.values())
    areas = ", ".join(
        f"{name} {mean:.1f} % [{low:.1f}, {min(high, 100.0):.1f}]" for name, (mean, low, high) in spans.items()
    )
    return Measured(
        {"networks": len(networks), "pairs": len(rows), "below_half": below, "intervals": spans},
        said={"areas": areas, "either": sum(min(row["norm"], row["familiarity"]) < 50.0 for row in rows)},
        verdict=HOLDS if holds else FAILS if fails else UNDECIDED,
    )


@checks("T33")
def check_filter(*, rows: EvidenceRows, most: float = 0.01) -> Measured:
    """T33: `p_value` that the surest noise looks like its class, `above_digit`: noise surer than the median digit."""
    if len(rows) < 2:
        return _undecided(f"{len(rows)} scans of noise bear on it")
    alike = [row["p_value"] <= 0.01 for row in rows]
    above = [row["above_digit"] for row in rows if row.get("above_digit") is not None]
    confident = [row["above_0.9"] for row in rows]
    general = bool(above) and max(above) < most
    return Measured(
        {"networks": len(rows), "alike": sum(alike), "above_median_digit": above, "above_0.9": confident},
        said={
            "least": _percent(min(confident)),
            "largest": _percent(max(confident)),
            "above": _percent(max(above, default=0.0)),
            "most": most,
        },
        verdict=(HOLDS if general else CONDITIONS) if all(alike) else FAILS if not any(alike) else UNDECIDED,
    )


@checks("T34")
def check_ambiguity(*, rows: EvidenceRows) -> Measured:
    """T34: one row per share of `ambiguous` training inputs, over networks trained alike.

    `spreads`: the rise of the variance of entropies on OOD inputs, as one jackknife value per network; `entropy` and
    `density`: AUROC in percent of each network.
    """
    rows = sorted(rows, key=lambda row: float(row["ambiguous"]))
    enough = [row for row in rows if len(row["entropy"]) >= ENOUGH_ALIKE]
    if len(enough) < 2:
        return _undecided(
            f"it needs {ENOUGH_ALIKE} networks at two shares of ambiguous inputs, there are {len(enough)}"
        )
    spans = [interval(row["spreads"]) for row in enough]
    first, last = enough[0], enough[-1]
    lost = {name: interval(np.subtract(first[name], last[name])) for name in ("entropy", "density")}
    apart = interval(np.subtract(first["entropy"], last["entropy"]) - np.subtract(first["density"], last["density"]))
    rises, spoils = all(span[1] > 0 for span in spans), lost["entropy"][1] > 1.0 and apart[1] > 1.0
    denied = any(span[2] < 0 for span in spans) or lost["entropy"][2] < 1.0 or apart[2] < 1.0
    return Measured(
        {"settings": len(enough), "rise_of_variance": spans, "lost": lost, "softmax_less_density": apart},
        said={
            "alike": len(last["entropy"]),
            "rising": sum(span[1] > 0 for span in spans),
            "first": _percent(first["ambiguous"]),
            "last": _percent(last["ambiguous"]),
        },
        verdict=HOLDS if rises and spoils else FAILS if denied else UNDECIDED,
    )


def by_network(rows: EvidenceRows, *columns: str) -> dict[str, dict[str, Floats]]:
    """The columns of each network's rows, gathered: a network counts once."""
    gathered: dict[str, dict[str, list[float]]] = {}
    for row in rows:
        own = gathered.setdefault(str(row["network"]), {name: [] for name in columns})
        for name in columns:
            own[name].append(float(row[name]))
    return {network: {name: np.array(values) for name, values in own.items()} for network, own in gathered.items()}


def interval(values: Any) -> tuple[float, float, float]:
    """Mean and 95 % interval (Student's t) over networks: (mean, low, high)."""
    over = mean_interval(values)
    return over.value, over.low, over.high


def _undecided(reason: str, **numbers: Any) -> Measured:
    return Measured({"networks": 0, **numbers}, verdict=UNDECIDED, summary=reason)


def _points(values: Floats) -> str:
    return f"{100 * values.mean():+.2f} points" if len(values) else "none"


def _percent(share: float) -> str:
    return f"{100 * share:.3g} %"


def _named(networks: dict[str, Any], chosen: Any) -> str:
    return "; ".join(name for name, yes in zip(networks, chosen) if yes) or "none"
