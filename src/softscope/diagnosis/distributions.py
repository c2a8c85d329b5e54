"""How strength, angles and uncertainties are spread over the sets: histograms, ROC curves, tables of thresholds."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from ..arrays import Floats
from ..geometry import valid_threshold
from ..metrics import known_envelope, roc_curve
from .model import Curve, Histogram, ThresholdTable
from .resampling import Rows
from .scores import Scored
from .sets import COSINE_EDGES, Observed

BINS = 60
CURVE_POINTS = 190
#: Known inputs yet to come for which a table bounds the false alarms.
FURTHER_INPUTS = 1_000
_DIGITS = 6  # of shares in curves and tables: a page shows three
#: Aimed-at false-alarm rates of a table: half of them up to 20 %, where thresholds are chosen.
_RATES = np.concatenate([np.linspace(0.0, 0.2, 101), np.linspace(0.2, 1.0, 101)[1:]])


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


def curves(test: Scored, ood: Scored, low: Rows, high: Rows, shown: Sequence[str]) -> dict[str, Curve]:
    """ROC curves of one OOD set on its balanced rows."""
    out = {}
    for name in shown:
        curve = roc_curve(test.values[name][low], ood.values[name][high], CURVE_POINTS)
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


def _floats(values: Floats) -> tuple[float, ...]:
    return tuple(values.tolist())


def _shares(values: Floats) -> tuple[float, ...]:
    return tuple(np.round(values, _DIGITS).tolist())
