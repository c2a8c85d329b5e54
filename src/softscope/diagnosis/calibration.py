"""Confidence on the test inputs: is it a probability, what does abstaining buy, and how do classes differ?"""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from ..arrays import Floats
from ..geometry import valid_threshold
from ..metrics import Interval, proportion
from .model import ClassRow, Reliability, ReliabilityBin, RiskCurve
from .scores import Scored
from .sets import confidence

BINS = 15
FALSE_ALARMS = 0.05
_DRAWS = 1_000
_POINTS = 100


def reliability(test: Scored, seed: int) -> Reliability | None:
    """Accuracy against confidence in BINS bins of equally many test inputs; None without labels."""
    correct = test.seen.correct
    if correct is None:
        return None
    sure = confidence(test.seen.odds)
    order = np.argsort(sure, kind="stable")
    parts = [part for part in np.array_split(order, min(BINS, len(order))) if len(part)]
    bins = tuple(
        ReliabilityBin(float(sure[part].mean()), proportion(int(correct[part].sum()), len(part)), len(part))
        for part in parts
    )
    return Reliability(bins, expected_error(bins, seed))


def expected_error(bins: tuple[ReliabilityBin, ...], seed: int) -> Interval:
    """The expected calibration error, sum_b n_b / N abs(accuracy_b - confidence_b), with an interval that covers.

    The noise of the accuracies alone moves it by at most sum_b n_b / N abs(noise_b); the 95 % quantile of that sum,
    with binomial noise about each accuracy (half a success added to either side), is the arm on both sides.
    """
    rows = np.array([one.rows for one in bins])
    accuracy = np.array([one.accuracy.value for one in bins])
    share = rows / rows.sum()
    value = float(share @ np.abs(accuracy - [one.confidence for one in bins]))
    smoothed = (accuracy * rows + 0.5) / (rows + 1)
    drawn = np.random.default_rng([seed, 5]).binomial(rows, smoothed, (_DRAWS, len(rows))) / rows
    arm = float(np.quantile(np.abs(drawn - smoothed) @ share, 0.95))
    return Interval(value, max(0.0, value - arm), min(1.0, value + arm))


def risk_curve(test: Scored) -> RiskCurve | None:
    """Share of wrong predictions among the surest inputs, by the share of inputs kept; None without labels."""
    correct = test.seen.correct
    if correct is None:
        return None
    order = np.argsort(test.seen.odds, kind="stable")
    kept = np.unique(np.linspace(1, len(order), min(_POINTS, len(order))).astype(np.int64))
    wrong = np.cumsum(~correct[order])
    return RiskCurve(_shares(kept / len(order)), _shares(wrong[kept - 1] / kept))


def by_class(test: Scored, ood: Mapping[str, Scored], classes: int, recommended: str | None) -> tuple[ClassRow, ...]:
    """For each class its test inputs' accuracy, confidence and false alarms, and the OOD inputs taken for it."""
    labels = test.seen.labels
    if labels is None:
        return ()
    names = dict.fromkeys(["plain-max", *([recommended] if recommended else [])])
    limits = {name: valid_threshold(test.values[name], FALSE_ALARMS) for name in names}
    sure, correct = confidence(test.seen.odds), test.seen.correct
    assert correct is not None
    let_through = np.zeros(classes, np.int64)
    for scored in ood.values():
        through = scored.values["plain-max"] <= limits["plain-max"]
        let_through += np.bincount(scored.seen.predicted[through], minlength=classes)
    out = []
    for number in range(classes):
        own: NDArray[np.bool_] = labels == number
        count = int(own.sum())
        if count:
            alarms = {name: int((test.values[name][own] > limits[name]).sum()) for name in names}
            out.append(
                ClassRow(
                    number=number,
                    rows=count,
                    accuracy=proportion(int(correct[own].sum()), count),
                    confidence=float(sure[own].mean()),
                    false_alarms={name: proportion(alarms[name], count) for name in names},
                    let_through=int(let_through[number]),
                )
            )
    return tuple(out)


def _shares(values: Floats) -> tuple[float, ...]:
    return tuple(np.round(values, 6).tolist())
