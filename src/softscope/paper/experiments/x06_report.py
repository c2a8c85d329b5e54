"""Tables and pictures of X6."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ...arrays import Floats
from ..filter import QUANTITIES, Climbed, edges, exact_binomial, log_odds_of
from ..filter import inputs as bits_of

if TYPE_CHECKING:
    from .x06_filter import Scan


@dataclass(frozen=True)
class Digits:
    """Bits [N, 9, 9], labels, and the names of the classes."""

    bits: NDArray[np.uint8]
    labels: NDArray[np.int64]
    names: tuple[str, ...]


def tables(scans: "Sequence[Scan]", climbed: Climbed, levels: tuple[float, ...]) -> dict[str, list[dict[str, Any]]]:
    """Shares above confidences with exact intervals, quantiles, the finds with their numbers, and the climbs."""
    return {
        "shares": [_share(scan, level) for scan in scans for level in levels],
        "classes": [_class(scan, k) for scan in scans for k in range(scan.statistics.classes)],
        "quantiles": [_quantiles(scan, quantity) for scan in scans for quantity in QUANTITIES],
        "finds": [row for scan in scans for row in _finds(scan)],
        "climbs": [
            {
                "predicted": int(k),
                "from_word": int(start),
                "to_word": int(end),
                "log_odds": float(odds),
                "steps": int(steps),
            }
            for k, start, end, odds, steps in zip(
                scans[0].wanted, scans[0].words, climbed.words, climbed.odds, climbed.steps
            )
        ],
    }


def figures(
    scans: "Sequence[Scan]", climbed: Climbed, known: Digits, test: Digits, logits: NDArray, norms: NDArray
) -> dict[str, Any]:
    """The finds (fig_noise), the gallery, and noise beside digits; of one run, deepest network first."""
    from ..plots.filter import finds_figure, gallery_figure, noise_and_digits

    statistics = scans[0].statistics
    drawn = f"{statistics.inputs:,} inputs drawn uniformly"
    noise = {q: (edges(q, statistics.classes), statistics.histogram(q) / statistics.inputs) for q in QUANTITIES}
    return {
        "finds": finds_figure(scans[0].finds, statistics.odds, known.names, f"Most confident of {drawn}", visible=8),
        "gallery": gallery_figure(_gallery(scans, climbed, known), known.names),
        "noise_and_digits": noise_and_digits(
            noise, _digit_quantities(scans[0], logits, norms), float(statistics.odds.max()), f"{drawn}, and test digits"
        ),
    }


def _gallery(scans: "Sequence[Scan]", climbed: Climbed, known: Digits) -> dict[str, NDArray]:
    classes = range(len(known.names))
    rows = {"class mean": np.stack([known.bits[known.labels == k].mean(axis=0) for k in classes])}
    rows["nearest digit\nto the best find"] = np.stack([_nearest(known, k, scans[0].finds[k, 0]) for k in classes])
    for scan in scans:
        rows[f"best find,\n{scan.depth} conv layers"] = scan.finds[:, 0].astype(np.float64)
    ends = np.zeros((len(known.names), 9, 9))
    for k in np.unique(scans[0].wanted):
        own = np.flatnonzero(scans[0].wanted == k)
        ends[k, :8, :8] = bits_of.unpack(climbed.words[own[[climbed.odds[own].argmax()]]])[0]
    rows["best climb"] = ends
    return rows


def _nearest(known: Digits, k: int, find: NDArray) -> NDArray:
    own = known.bits[known.labels == k]
    away = np.bitwise_count(bits_of.pack(own) ^ bits_of.pack(find[None])[0])
    return np.asarray(own[int(away.argmin())], dtype=np.float64)


def _digit_quantities(scan: "Scan", logits: NDArray, norms: NDArray) -> dict[str, Floats]:
    """The four quantities of the statistics, of real digits."""
    from ...estimators.softmax import entropy, log_odds

    weight = np.linalg.norm(scan.network.weight, axis=1)
    cosines = (logits - scan.network.bias) / weight / np.maximum(norms, 1e-30)[:, None]
    return {
        "log_odds": -log_odds(logits),
        "entropy": np.asarray(entropy(logits), dtype=np.float64),
        "norm": norms.astype(np.float64),
        "cosine": cosines.max(axis=1).astype(np.float64),
    }


def _share(scan: "Scan", level: float) -> dict[str, Any]:
    return {
        "conv_layers": scan.depth,
        "confidence": level,
        "share": scan.statistics.share_above(log_odds_of(level)).to_dict(),
    }


def _class(scan: "Scan", k: int) -> dict[str, Any]:
    statistics = scan.statistics
    share = exact_binomial(int(statistics.predicted[k]), statistics.inputs)
    return {
        "conv_layers": scan.depth,
        "predicted": k,
        "share": share.to_dict(),
        "best_log_odds": _number(statistics.odds[k, 0]),
    }


def _quantiles(scan: "Scan", quantity: str) -> dict[str, Any]:
    shares = (0.0, 0.01, 0.25, 0.5, 0.75, 0.99, 0.9999, 1.0)
    values = {f"{share:g}": scan.statistics.quantile(quantity, share).value for share in shares}
    return {"conv_layers": scan.depth, "quantity": quantity, **values}


def _finds(scan: "Scan") -> list[dict[str, Any]]:
    statistics = scan.statistics
    return [
        {
            "conv_layers": scan.depth,
            "predicted": k,
            "number": int(statistics.numbers[k, i]),
            "log_odds": float(statistics.odds[k, i]),
        }
        for k, i in np.argwhere(statistics.odds > -np.inf).tolist()
    ]


def _number(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
