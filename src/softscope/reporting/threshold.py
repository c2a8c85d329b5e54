"""The threshold slider: what it needs to know, the histograms it moves a line through, the inputs that change sides."""

import math
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from ..diagnosis.model import OUTCOMES, Diagnosis, InputRow, ThresholdTable
from .charts import HistogramRow, histogram_rows
from .thumbnails import MAX_SHOWN, Thumbnails
from .verdict import CONFIDENCE, EXACT_CONFIDENCE

FALSE_ALARMS = 0.05
_TAGS = {"E": "caught", "R": "rounding", "T": "saturation", "X": "extrapolation", "M": "misfit", "O": "overlap"}


@dataclass(frozen=True)
class Tile:
    """One shown input. `number` is its place in the slider's data."""

    number: int
    row: int
    image: str | None
    taken_for: str
    true_class: str | None
    confidence: str
    outcome: str
    tag: str
    words: str
    flagged: bool


@dataclass(frozen=True)
class Shelf:
    name: str
    of_test: bool
    total: int
    rows: list[InputRow]
    tiles: list[Tile]
    pixelated: bool


@dataclass(frozen=True)
class SliderChoice:
    """An estimator the slider can use, its histograms, and where it starts."""

    symbol: str
    start: int
    last: int
    picture: Markup


@dataclass(frozen=True)
class Slider:
    """The slider's choices, the shares at its start, and all it needs to know as JSON (numbers only, no names)."""

    choices: list[SliderChoice]
    false_alarms: float
    at_most: float | None
    rule: str
    missed: dict[str, float]
    data: Markup


def chosen_estimators(diagnosis: Diagnosis) -> list[str]:
    """The estimators with a table of thresholds, confidence first."""
    return sorted(diagnosis.thresholds, key=lambda key: key not in (CONFIDENCE, EXACT_CONFIDENCE))


def start_of(table: ThresholdTable) -> int:
    """The last threshold with at most 5 % false alarms."""
    fitting = [index for index, share in enumerate(table.false_alarms) if share <= FALSE_ALARMS + 1e-9]
    return fitting[-1] if fitting else 0


def slider(diagnosis: Diagnosis, shelves: list[Shelf]) -> Slider:
    """Everything the slider shows, at the start and when it moves."""
    from jinja2.utils import htmlsafe_json_dumps

    names = chosen_estimators(diagnosis)
    choices = [_choice(diagnosis, name) for name in names]
    first, start = diagnosis.thresholds[names[0]], choices[0].start
    missed = {name: first.missed[name][start] for name in diagnosis.ood}
    data = {
        "estimators": [_numbers(diagnosis, name) for name in names],
        "inputs": [[row.scores.get(name) for name in names] for shelf in shelves for row in shelf.rows],
    }
    safe = htmlsafe_json_dumps(data, separators=(",", ":"), allow_nan=False)
    rule = rule_of(names[0], first.thresholds[start])
    at_most = first.at_most[start] if first.at_most else None
    return Slider(choices, first.false_alarms[start], at_most, rule, missed, safe)


def gallery(diagnosis: Diagnosis, pictures: Thumbnails) -> list[Shelf]:
    """The most confident inputs of each OOD set, and the most confident mistakes on test."""
    sets = [(name, inputs.examples, diagnosis.ood[name].rows) for name, inputs in diagnosis.inputs.items()]
    shelves, number = [], 0
    for name, rows, total in [*sets, ("test", diagnosis.test_mistakes, diagnosis.test.rows)]:
        images = pictures.get(name, {})
        shown = [row for row in rows[:MAX_SHOWN] if row.row in images or not images]
        if shown:
            tiles = [_tile(diagnosis, number + place, row, images.get(row.row)) for place, row in enumerate(shown)]
            small = any(uri.startswith("data:image/png") for uri in images.values())
            shelves.append(Shelf(name, name not in diagnosis.ood, total, shown, tiles, small))
            number += len(shown)
    return shelves


def rule_of(name: str, threshold: float) -> str:
    """The threshold in words; of confidence as a confidence: U_max = -max s, in its rank form log((1 - s) / s)."""
    if name == CONFIDENCE:
        return f"confidence below {confidence_words(-threshold)}"
    if name == EXACT_CONFIDENCE:
        return f"confidence below {confidence_words(1 / (1 + math.exp(min(threshold, 700.0))))}"
    return f"score above {threshold:.4g}"


def _choice(diagnosis: Diagnosis, name: str) -> SliderChoice:
    table = diagnosis.thresholds[name]
    start = start_of(table)
    symbol = diagnosis.estimators[name].symbol
    histogram = diagnosis.uncertainty[name]
    aurocs = {ood: diagnosis.scores[ood][name].auroc.value for ood in diagnosis.ood}
    rows = [
        HistogramRow(
            ood, f"AUROC {100 * aurocs[ood]:.1f} %", {"test": histogram.counts["test"], "ood": histogram.counts[ood]}
        )
        for ood in diagnosis.ood
    ]
    words = ", ".join(f"{ood} {100 * area:.1f} %" for ood, area in aurocs.items())
    label = f"Histograms of {symbol} for test inputs and each OOD set; AUROC of {words}"
    axis = f"{symbol}: certain on the left, uncertain on the right"
    picture = histogram_rows(histogram.edges, rows, axis, label, threshold=table.thresholds[start])
    label_of = f"{symbol} (confidence)" if name in (CONFIDENCE, EXACT_CONFIDENCE) else symbol
    return SliderChoice(label_of, start, len(table.thresholds) - 1, picture)


def _numbers(diagnosis: Diagnosis, name: str) -> dict[str, Any]:
    table = diagnosis.thresholds[name]
    return {
        "start": start_of(table),
        "thresholds": list(table.thresholds),
        "rules": [rule_of(name, threshold) for threshold in table.thresholds],
        "alarms": _rounded(table.false_alarms),
        "atMost": _rounded(table.at_most),
        "missed": [_rounded(table.missed[ood]) for ood in diagnosis.ood],
    }


def _rounded(shares: tuple[float, ...]) -> list[float]:
    return [round(share, 5) for share in shares]


def _tile(diagnosis: Diagnosis, number: int, row: InputRow, image: str | None) -> Tile:
    first = chosen_estimators(diagnosis)[0]
    table = diagnosis.thresholds[first]
    return Tile(
        number=number,
        row=row.row,
        image=image,
        taken_for=diagnosis.classes[row.predicted],
        true_class=None if row.label is None or row.outcome else diagnosis.classes[row.label],
        confidence=confidence_words(row.confidence),
        outcome=row.outcome,
        tag=_TAGS.get(row.outcome, ""),
        words=OUTCOMES.get(row.outcome, ""),
        flagged=row.scores[first] > table.thresholds[start_of(table)],
    )


def confidence_words(confidence: float) -> str:
    """99.98 %, never rounded up to 100 unless it is."""
    for digits in (1, 2, 3, 4):
        words = f"{100 * confidence:.{digits}f}"
        if float(words) < 100:
            return f"{words}\u00a0%"
    return "100\u00a0%" if confidence == 1 else ">99.9999\u00a0%"
