"""T19, T23-T26, T30, T31, T33, T34: claims about trained networks, decided by rows that experiments have left.

The rows travel in the package (`evidence`), so that a verdict is the same in every folder. A network counts once,
whatever the number of OOD sets it met. How rows decide is said by each claim's `rule`; nothing is trained here.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from ...arrays import Floats
from ...geometry import simplex
from ...metrics import mean_interval
from .evidence import Rows
from .order import log_odds_of
from .register import APPROXIMATE, CONDITIONS, FAILS, HOLDS, UNDECIDED, Outcome, checks, decide
from .strength import mental_exponent

Exponent = Callable[[Floats, int], Floats]
# Fewer networks trained alike say nothing about their mean or their variance (T26, T34).
ENOUGH_ALIKE = 5
# The paper trains ResNet18 for 100 epochs; alignment of features and weights grows late (T30).
ENOUGH_EPOCHS = 50


@checks("T19")
def check_mental(*, rows: Rows, exponent: Exponent = mental_exponent) -> Outcome:
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
    return decide(
        APPROXIMATE,
        f"equal to U_max under its assumptions, to {error:.0e}; on {len(agreement)} trained networks, each counted "
        f"once, its rank agreement with U_max is {np.median(agreement):.2f} (median), {agreement.min():.2f} to "
        f"{agreement.max():.2f}",
        {"error": error, "networks": len(agreement), "rows": len(rows), "spearman_range": _ends(agreement)},
        {
            "under its assumptions the model equals U_max": error < 1e-9,
            "it agrees with U_max better than chance": float(np.median(agreement)) > 0.2,
        },
    )


@checks("T23")
def check_entropy_preferred(*, rows: Rows) -> Outcome:
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
    verdict = (HOLDS if worse == 0 else CONDITIONS) if better > worse else FAILS if worse > better else UNDECIDED
    up, down = means[means > 0], means[means < 0]
    return Outcome(
        verdict,
        f"of {len(networks)} networks, each counted once, U_entropy is better for {better} and worse for {worse} "
        f"beyond the paired interval, undecided for {len(networks) - better - worse}; where it gains the mean is "
        f"{_points(up)}, where it loses {_points(down)}; it loses for {_named(networks, means < -halves)}",
        {"networks": len(networks), "rows": len(rows), "better": better, "worse": worse},
    )


@checks("T24")
def check_saturation(*, rows: Rows, absent: float = 0.01, minor: float = 0.2) -> Outcome:
    """T24: `equal_share` = share of equal float32 scores, `lost` = AUROC that rounding costs; `network`: the family."""
    families = {"resnet": "ResNet18", "efficient": "EfficientNet"}
    own = {name: [row for row in rows if key in str(row["network"]).lower()] for key, name in families.items()}
    if not all(own.values()):
        return _undecided("it needs networks of both families")
    share = {name: max(row["equal_share"] for row in each) for name, each in own.items()}
    networks = {name: len({row["network"] for row in each}) for name, each in own.items()}
    lost = max((row["lost"] for each in own.values() for row in each if "lost" in row), default=float("nan"))
    by_share = {"ResNet18": share["ResNet18"] < absent, "EfficientNet": share["EfficientNet"] < minor}
    said = {True: "holds", False: "does not hold"}
    return Outcome(
        HOLDS if all(by_share.values()) else FAILS,
        f"first rule, the share of equal float32 scores: {share['ResNet18']:.2%} at most in {networks['ResNet18']} "
        f"ResNet18 (absent: below {absent:.0%}; {said[by_share['ResNet18']]}), {share['EfficientNet']:.2%} in "
        f"{networks['EfficientNet']} EfficientNets (minor: below {minor:.0%}; {said[by_share['EfficientNet']]}); "
        f"second rule, added after these numbers were seen, the AUROC that rounding costs: {100 * lost:.2f} points "
        f"at most (minor: below 0.5; {said[lost < 0.005]})",
        {"largest_equal_share": share, "networks": networks, "rows": len(rows), "largest_loss": lost},
    )


@checks("T25")
def check_skewness(*, rows: Rows) -> Outcome:
    """T25: `skewness` of the cosines between weights of a head with `classes` classes."""
    many = [row for row in rows if row["classes"] >= 100]
    if len(many) < 2:
        return _undecided(f"{len(many)} heads with 100 classes or more bear on it")
    skewness = np.array([row["skewness"] for row in many])
    positive = int((skewness > 0).sum())
    return Outcome(
        HOLDS if positive == len(many) else FAILS if 2 * positive <= len(many) else UNDECIDED,
        f"skewness of cos(w_i, w_j) with 100 classes or more: {skewness.min():+.2f} to {skewness.max():+.2f} in "
        f"{len(many)} heads, positive in {positive}",
        {"heads": len(many), "positive": positive, "skewness": skewness.tolist()},
    )


@checks("T26")
def check_ensemble(*, rows: Rows) -> Outcome:
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
    verdict = HOLDS if rising == len(enough) else FAILS if falling > 0 else UNDECIDED
    least = min(spans)
    return Outcome(
        verdict,
        f"over {min(len(row['rises']) for row in enough)} or more networks trained alike the mean entropy rises on OOD "
        f"data in {rising} of {len(enough)} settings and falls in {falling}, beyond the interval over networks; least "
        f"{least[0]:+.3f} nats [{least[1]:.3f}, {least[2]:.3f}]",
        {"settings": len(enough), "rising": rising, "falling": falling, "intervals": [list(span) for span in spans]},
    )


@checks("T30")
def check_alignment(*, rows: Rows, least: float = 0.9) -> Outcome:
    """T30: `largest_cosine` = median of max_i cos(w_i, z) of known inputs, `epochs` = how long the network trained."""
    values = np.array([row["largest_cosine"] for row in rows])
    long = np.array([row["epochs"] >= ENOUGH_EPOCHS for row in rows], bool)
    if long.sum() < 2:
        brief = f"; {len(rows)} briefly trained networks have {_range(values)}" if len(rows) else ""
        return _undecided(
            f"it is about networks trained for 100 epochs, of which {long.sum()} with {ENOUGH_EPOCHS} or more are at "
            f"hand{brief}, where the claim needs {least}",
            networks=len(rows),
        )
    mean, low, high = interval(values[long])
    return Outcome(
        HOLDS if low > least else FAILS if high < least else UNDECIDED,
        f"median of max cos over known inputs: {mean:.2f} [{low:.2f}, {high:.2f}] over {long.sum()} networks of "
        f"{ENOUGH_EPOCHS} epochs or more, against about 1 (at least {least})",
        {"networks": int(long.sum()), "values": values[long].tolist(), "interval": [mean, low, high]},
    )


@checks("T31")
def check_falling(*, rows: Rows) -> Outcome:
    """T31: `norm` and `familiarity`, AUROC in percent of -norm(z) and of -max cos for a network and an OOD set."""
    names = ("norm", "familiarity")
    networks = by_network(rows, *names)
    if len(networks) < 2:
        return _undecided(f"{len(networks)} trained networks bear on it")
    spans = {name: interval([own[name].mean() for own in networks.values()]) for name in names}
    below = {name: sum(row[name] < 50.0 for row in rows) for name in names}
    either = sum(min(row["norm"], row["familiarity"]) < 50.0 for row in rows)
    holds = all(span[1] > 50.0 for span in spans.values())
    fails = any(span[2] < 50.0 for span in spans.values())
    said = ", ".join(
        f"{name} {mean:.1f} % [{low:.1f}, {min(high, 100.0):.1f}]" for name, (mean, low, high) in spans.items()
    )
    return Outcome(
        HOLDS if holds else FAILS if fails else UNDECIDED,
        f"AUROC over {len(networks)} networks: {said}; either is below 50 % in {either} of {len(rows)} pairs (norm "
        f"{below['norm']}, familiarity {below['familiarity']}): a tendency, not a rule",
        {"networks": len(networks), "pairs": len(rows), "below_half": below, "intervals": spans},
    )


@checks("T33")
def check_filter(*, rows: Rows, most: float = 0.01) -> Outcome:
    """T33: `p_value` that the surest noise looks like its class, `above_digit`: noise surer than the median digit."""
    if len(rows) < 2:
        return _undecided(f"{len(rows)} scans of noise bear on it")
    alike = [row["p_value"] <= 0.01 for row in rows]
    above = [row["above_digit"] for row in rows if row.get("above_digit") is not None]
    confident = [row["above_0.9"] for row in rows]
    general = bool(above) and max(above) < most
    verdict = (HOLDS if general else CONDITIONS) if all(alike) else FAILS if not any(alike) else UNDECIDED
    return Outcome(
        verdict,
        f"the surest of 2^27 noise inputs look like their class in {sum(alike)} of {len(rows)} networks (p <= 0.01); "
        f"but {_percent(min(confident))} to {_percent(max(confident))} of all noise has confidence above 0.9, and "
        f"{_percent(max(above, default=0.0))} is surer than the median digit (below {most:.0%} would be a filter of "
        "noise in general): it holds for the extremes, not for noise in general",
        {"networks": len(rows), "alike": sum(alike), "above_median_digit": above, "above_0.9": confident},
    )


@checks("T34")
def check_ambiguity(*, rows: Rows) -> Outcome:
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
    return Outcome(
        HOLDS if rises and spoils else FAILS if denied else UNDECIDED,
        f"the variance of the entropies over {len(last['entropy'])} networks trained alike is higher on OOD inputs in "
        f"{sum(span[1] > 0 for span in spans)} of {len(enough)} settings; from {_percent(first['ambiguous'])} to "
        f"{_percent(last['ambiguous'])} ambiguous training inputs U_entropy loses {_span(lost['entropy'])} points of "
        f"AUROC, U_density {_span(lost['density'])}, the difference is {_span(apart)} (the claim needs more than 1)",
        {"settings": len(enough), "rise_of_variance": spans, "lost": lost, "softmax_less_density": apart},
    )


def by_network(rows: Rows, *columns: str) -> dict[str, dict[str, Floats]]:
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


def _undecided(reason: str, **numbers: Any) -> Outcome:
    return Outcome(UNDECIDED, reason, {"networks": 0, **numbers})


def _ends(values: Floats) -> list[float]:
    return [float(values.min()), float(values.max())]


def _range(values: Floats) -> str:
    return f"{values.min():.2f} to {values.max():.2f}"


def _points(values: Floats) -> str:
    return f"{100 * values.mean():+.2f} points" if len(values) else "none"


def _percent(share: float) -> str:
    return f"{100 * share:.3g} %"


def _span(span: tuple[float, float, float]) -> str:
    return f"{span[0]:.1f} [{span[1]:.1f}, {span[2]:.1f}]"


def _named(networks: dict[str, Any], chosen: Any) -> str:
    return "; ".join(name for name, yes in zip(networks, chosen) if yes) or "none"
