"""What a report shows beside scores and causes.

How strength, angles and uncertainties are spread over the sets: histograms, ROC curves, tables of thresholds; what
became of every OOD input at 5 % false alarms; whether confidence is a probability, and how classes differ; the final
layer in two dimensions (X1).
"""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from ..arrays import Floats
from ..estimators.softmax import log_odds
from ..features import FeatureSet
from ..geometry import Plane, square_window, valid_threshold
from ..head import Head
from ..metrics import Interval, known_envelope, proportion, roc_curve
from .ceiling import CeilingScores
from .model import (
    OUTCOMES,
    ClassRow,
    Curve,
    FinalLayerMap,
    Histogram,
    InputRow,
    Inputs,
    Reliability,
    ReliabilityBin,
    RiskCurve,
    ThresholdTable,
)
from .sets import COSINE_EDGES, Observed, Pair, Scored, confidence

BINS = 60
CURVE_POINTS = 190
#: Known inputs yet to come for which a table bounds the false alarms.
FURTHER_INPUTS = 1_000
_DIGITS = 6  # of shares in curves and tables: a page shows three
#: Aimed-at false-alarm rates of a table: half of them up to 20 %, where thresholds are chosen.
_RATES = np.concatenate([np.linspace(0.0, 0.2, 101), np.linspace(0.2, 1.0, 101)[1:]])
RELIABILITY_BINS = 15
_DRAWS = 1_000
_POINTS = 100
FALSE_ALARMS = 0.05
EXAMPLES = 48
#: Of the map of the final layer: points of each set, points on each axis, rows of each set that place its axes.
MAP_POINTS, MAP_GRID, MAP_ROWS, _MAP_DIGITS = 300, 64, 1000, 4
#: Letter of OUTCOMES -> the score that catches such an input, in the order they are asked.
STAGES = {"E": "plain-entropy", "R": "entropy", "T": "cool", "X": "density"}


def histogram(values: Mapping[str, NDArray], bins: int = BINS) -> Histogram:
    """Counts of each set in common bins over all but the outermost 0.1 % of every set; these go to the outer bins."""
    ends = np.array([np.quantile(numbers, [0.001, 0.999]) for numbers in values.values()])
    low, high = float(ends[:, 0].min()), float(ends[:, 1].max())
    if not high > low:
        low, high = low - 0.5 * max(1.0, abs(low)), low + 0.5 * max(1.0, abs(low))
    edges = np.linspace(low, high, bins + 1)
    counts = {name: np.histogram(np.clip(numbers, low, high), edges)[0] for name, numbers in values.items()}
    return Histogram(_floats(edges), {name: tuple(counted.tolist()) for name, counted in counts.items()})


def other_cosines(sets: Mapping[str, Observed]) -> Histogram:
    """The cosines to all classes but the nearest in direction (fig_cifar_etc)."""
    return Histogram(_floats(COSINE_EDGES), {name: tuple(seen.other_cosines.tolist()) for name, seen in sets.items()})


def uncertainties(test: Scored, ood: Mapping[str, Scored]) -> dict[str, Histogram]:
    """Of each estimator, over test and every OOD set."""
    sets = {"test": test, **ood}
    return {name: histogram({key: scored.values[name] for key, scored in sets.items()}) for name in test.values}


def curves(pair: Pair, shown: Sequence[str]) -> dict[str, Curve]:
    """ROC curves of one OOD set on its balanced rows."""
    out = {}
    for name in shown:
        curve = roc_curve(*pair.sides(name), CURVE_POINTS)
        out[name] = Curve(_shares(curve.false_positive_rate), _shares(curve.recall))
    return out


def threshold_table(name: str, test: Scored, ood: Mapping[str, Scored]) -> ThresholdTable:
    """What thresholds of the estimator `name` do, from no false alarm on test to all of them (over all rows)."""
    familiar = np.sort(test.values[name])
    aimed = [valid_threshold(familiar, rate) for rate in _RATES[1:]]
    thresholds = np.unique([*aimed, familiar[-1]])[::-1]
    above = familiar.size - np.searchsorted(familiar, thresholds, "right")
    # A threshold that c test inputs exceed is at least the (c + 1)-th largest of them, which b_(c + 1) bounds.
    envelope = np.append(known_envelope(familiar.size, FURTHER_INPUTS), FURTHER_INPUTS)
    return ThresholdTable(
        thresholds=_floats(thresholds),
        false_alarms=_shares(above / familiar.size),
        at_most=_shares(envelope[above] / FURTHER_INPUTS),
        missed={
            key: _shares(np.searchsorted(np.sort(scored.values[name]), thresholds, "right") / len(scored))
            for key, scored in ood.items()
        },
    )


def inputs_of(test: Scored, ood: Scored, ceiling: CeilingScores, classes: int, shown: Sequence[str]) -> Inputs:
    """Outcomes of one OOD set's inputs, the classes they were taken for, and the most confident of them."""
    codes = outcomes(test, ood, ceiling)
    through = codes != "E"
    order = np.argsort(ood.seen.odds, kind="stable")[:EXAMPLES]
    return Inputs(
        counts={letter: int((codes == letter).sum()) for letter in OUTCOMES},
        codes="".join(codes.tolist()),
        taken_for=_counted(ood.seen.predicted, classes),
        let_through=_counted(ood.seen.predicted[through], classes),
        examples=tuple(_row(ood, int(row), str(codes[row]), shown) for row in order),
    )


def outcomes(test: Scored, ood: Scored, ceiling: CeilingScores) -> NDArray[np.str_]:
    """One letter of OUTCOMES a row: the first score that exceeds its threshold of 5 % false alarms on test."""
    codes = np.full(len(ood), "O")
    open_ = np.ones(len(ood), bool)
    stages = {letter: (test.values[name], ood.values[name]) for letter, name in STAGES.items()}
    for letter, (familiar, unfamiliar) in (stages | {"M": (ceiling.test, ceiling.ood)}).items():
        caught = open_ & flagged(familiar if ood.against is None else familiar[ood.against], unfamiliar)
        codes[caught] = letter
        open_ &= ~caught
    return codes


def flagged(test: Floats, ood: Floats) -> NDArray[np.bool_]:
    """Rows of `ood` above the score that at most 5 % of `test` exceed."""
    above: NDArray[np.bool_] = ood > valid_threshold(test, FALSE_ALARMS)
    return above


def mistakes_of(test: Scored, shown: Sequence[str]) -> tuple[InputRow, ...]:
    """The test inputs that the head gets wrong, the most confident first."""
    correct = test.seen.correct
    if correct is None:
        return ()
    wrong = np.flatnonzero(~correct)
    order = wrong[np.argsort(test.seen.odds[wrong], kind="stable")][:EXAMPLES]
    return tuple(_row(test, int(row), "", shown) for row in order)


def _counted(predicted: NDArray[np.int64], classes: int) -> tuple[int, ...]:
    return tuple(np.bincount(predicted, minlength=classes).tolist())


def _row(scored: Scored, row: int, outcome: str, shown: Sequence[str]) -> InputRow:
    labels = scored.seen.features.labels
    return InputRow(
        row=row,
        predicted=int(scored.seen.predicted[row]),
        label=None if labels is None else int(labels[row]),
        confidence=float(confidence(scored.seen.odds[[row]])[0]),
        outcome=outcome,
        scores={name: float(scored.values[name][row]) for name in shown},
    )


def reliability(test: Scored, seed: int) -> Reliability | None:
    """Accuracy against confidence in RELIABILITY_BINS bins of equally many test inputs; None without labels."""
    correct = test.seen.correct
    if correct is None:
        return None
    sure = confidence(test.seen.odds)
    order = np.argsort(sure, kind="stable")
    parts = [part for part in np.array_split(order, min(RELIABILITY_BINS, len(order))) if len(part)]
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


def map_layer(head: Head, sets: Mapping[str, FeatureSet], seed: int) -> FinalLayerMap:
    """The first two principal components of training and OOD rows (test is shown there too), confidence behind them."""
    rng = np.random.default_rng([seed, 3])
    samples = {name: features.rows(_drawn(features, MAP_ROWS, rng)) for name, features in sets.items()}
    fitted = [rows for name, rows in samples.items() if name != "test"]
    plane = Plane.principal(*fitted)
    shown = {name: rows[rng.permutation(len(rows))[:MAP_POINTS]] for name, rows in samples.items()}
    points = {name: plane.project(rows) for name, rows in shown.items()}
    window = square_window(np.concatenate(list(points.values())))
    x, y = (np.linspace(low, high, MAP_GRID) for low, high in window)
    grid = np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)
    behind = confidence(log_odds(head.logits(plane.lift(grid)))).reshape(MAP_GRID, MAP_GRID)
    logits = {name: head.logits(rows) for name, rows in shown.items()}
    return FinalLayerMap(
        x=_short(x),
        y=_short(y),
        confidence=tuple(tuple(row) for row in np.round(behind, _MAP_DIGITS).tolist()),
        explained=_explained(plane, fitted),
        points={name: tuple(_short(point) for point in places) for name, places in points.items()},
        classes={name: tuple(own.argmax(axis=1).tolist()) for name, own in logits.items()},
        sure={name: _short(confidence(log_odds(own))) for name, own in logits.items()},
    )


def _drawn(features: FeatureSet, most: int, rng: np.random.Generator) -> NDArray[np.int64]:
    rows = len(features)
    return np.arange(rows) if rows <= most else np.sort(rng.choice(rows, most, replace=False))


def _explained(plane: Plane, fitted: list[NDArray]) -> tuple[float, ...]:
    z = np.concatenate(fitted).astype(np.float64)
    total = float(z.var(axis=0).sum())
    return tuple((plane.project(z).var(axis=0) / total).tolist()) if total > 0 else (0.0, 0.0)


def _short(values: Floats) -> tuple[float, ...]:
    """To the five digits that a picture shows."""
    return tuple(float(f"{value:.5g}") for value in values)


def _floats(values: Floats) -> tuple[float, ...]:
    return tuple(values.tolist())


def _shares(values: Floats) -> tuple[float, ...]:
    return tuple(np.round(values, _DIGITS).tolist())
