"""T20 and T32: the arithmetic of the paper's tables (table_AUROC_bench, table_reported_results), as printed."""

import tomllib
from collections.abc import Callable, Mapping, Sequence
from importlib.resources import files
from typing import Any

import numpy as np

from .register import Measured, checks

PrintedLine = tuple[float, ...]
CauseRule = Callable[[float, float, float], tuple[float, float, float]]
_PRINTED: dict[str, Any] = tomllib.loads((files("softscope.paper") / "printed.toml").read_text("utf-8"))


def _lines(experiment: str) -> dict[str, PrintedLine]:
    """In percent: U_max, U_entropy (B), U_cool (C), U_density (D), then causes 1, 2 and 3; `mean` among the lines."""
    return {name: (*line["scores"][-4:], *line["causes"]) for name, line in _PRINTED[experiment]["lines"].items()}


STANDARD, PRETRAINED = _lines("X9"), _lines("X10")
STANDARD_MEAN, PRETRAINED_MEAN = STANDARD.pop("mean"), PRETRAINED.pop("mean")
# `printed.toml` has the number that the experiments are judged by; the paper prints another.
STANDARD["cifar10"] = (*STANDARD["cifar10"][:6], 0.7)
# Each printed number is rounded to 0.1, so a difference of two of them is known to 0.1 only.
_ROUNDING = 0.1 + 1e-9


def causes(b: float, c: float, d: float) -> tuple[float, float, float]:
    """Cause 1 = C - B, cause 2 = D - C, cause 3 = 100 - D."""
    return c - b, d - c, 100.0 - d


@checks("T20")
def check_table(
    *,
    rule: CauseRule = causes,
    standard: Mapping[str, PrintedLine] = STANDARD,
    pretrained: Mapping[str, PrintedLine] = PRETRAINED,
) -> Measured:
    """T20: recompute every cause and every mean; list what does not follow from the other columns."""
    slips = [
        {"row": name, "cause": 1 + k, "printed": row[4 + k], "from_columns": round(value, 1)}
        for name, row in {**standard, **pretrained}.items()
        for k, value in enumerate(rule(*row[1:4]))
        if abs(value - row[4 + k]) > _ROUNDING
    ]
    repaired = {name: (*row[:4], *rule(*row[1:4])) for name, row in standard.items()}
    mean_gap = float(np.abs(np.mean(list(repaired.values()), axis=0) - STANDARD_MEAN).max())
    as_printed = float(np.mean([row[6] for row in standard.values()]))
    lower_gap = float(np.abs(np.mean(list(pretrained.values()), axis=0) - PRETRAINED_MEAN).max())
    means = np.mean([row[4:] for row in repaired.values()], axis=0)
    dominant = 1 + int(np.argmax(means))
    return Measured(
        {
            "slips": slips,
            "largest_gap_of_means_standard": mean_gap,
            "largest_gap_of_means_pretrained": lower_gap,
            "mean_of_cause_3_as_printed": as_printed,
            "mean_causes": means.round(2).tolist(),
            "dominant_cause": dominant,
        },
        {
            "exactly one cause is misprinted: cifar10, cause 3": [(s["row"], s["cause"]) for s in slips]
            == [("cifar10", 3)],
            "with it repaired all means follow": mean_gap < _ROUNDING and lower_gap < _ROUNDING,
            "as printed they would not": abs(as_printed - STANDARD_MEAN[6]) > 1.0,
            "cause 3 dominates, not cause 1": dominant == 3,
        },
        {"repaired": repaired["cifar10"][6], "largest": means.max(), "first": means[0]},
    )


@checks("T32")
def check_gains(*, lines: Sequence[dict[str, Any]] | None = None, low: float = 1.0, high: float = 5.0) -> Measured:
    """T32: how much each line of the table gains over softmax by its best method, and which method loses.

    A line holds `scores` by method, softmax among them; lines that report accuracy, or softmax alone, say nothing here.
    """
    lines = reported() if lines is None else lines
    compared = [line for line in lines if len(line["scores"]) > 1 and line.get("metric", "AUROC") == "AUROC"]
    every = [{f"{line['learned']}: {name}": gain for name, gain in _over_softmax(line).items()} for line in compared]
    best = [max(own.items(), key=lambda item: item[1]) for own in every]
    gains = [gain for _, gain in best]
    large = {name: gain for name, gain in best if gain > high + 0.05}
    losses = {name: gain for own in every for name, gain in own.items() if gain < 0}
    least = min(line["scores"]["Softmax"] for line in lines if line.get("metric", "AUROC") == "AUROC")
    median = float(np.median(gains))
    return Measured(
        {"lines": len(gains), "gains": gains, "above": large, "losses": losses, "lowest_softmax": least},
        {
            "the typical gain is 1 to 5 points": low <= median <= high,
            "three lines gain more, not two": len(large) == 3,
            "one method is worse than softmax": len(losses) == 1,
            "softmax is below 78 once": least < 78.0,
        },
        {
            "median": median,
            "high": high,
            "large": len(large),
            "listed_large": _listed(large),
            "listed_losses": _listed(losses),
        },
    )


def reported() -> list[dict[str, Any]]:
    """The lines of table_reported_results."""
    return list(_PRINTED["X11"]["table"])


def _over_softmax(line: dict[str, Any]) -> dict[str, float]:
    return {name: score - line["scores"]["Softmax"] for name, score in line["scores"].items() if name != "Softmax"}


def _listed(gains: dict[str, float]) -> str:
    return ", ".join(f"{name} {gain:+.1f}" for name, gain in gains.items())
