"""What a guard says of rows: uncertainty, class, p-value, alarm; an error or a mark where a row can't be scored."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..arrays import Floats, chunk_rows, spans
from ..errors import SoftscopeError
from ..estimators import Estimator
from ..features import FeatureSet
from ..head import Head
from .conformal import Whole

if TYPE_CHECKING:
    from .guard import Guard


@dataclass(frozen=True)
class Judgement:
    """Of each row; one that can't be scored, for any reason, has score NaN, class -1 and p 0, and is an alarm."""

    scores: Floats
    classes: Whole
    p_values: Floats
    alarms: NDArray[np.bool_]

    @property
    def bad(self) -> NDArray[np.bool_]:
        """Which rows can't be scored."""
        return self.classes < 0


def judge(guard: "Guard", rows: NDArray, classes: Whole | None = None) -> Judgement:
    """The judgement of rows in any state; `classes` are what `classify` gave, where that is known already."""
    classes = classify(guard.head, rows) if classes is None else classes
    scores, p_values, alarms = np.full(len(rows), np.nan), np.zeros(len(rows)), np.ones(len(rows), bool)
    known = np.flatnonzero(classes >= 0)
    scores[known] = _scores_or_nan(guard.estimator, _chosen(rows, known))
    good = np.isfinite(scores)
    groups = guard.groups_of(classes[good])
    p_values[good] = guard.calibration.p_values(scores[good], groups)
    alarms[good] = guard.alarming(p_values[good], groups)
    return Judgement(scores, np.where(good, classes, -1), p_values, alarms)


def classify(head: Head, rows: NDArray, confidence: Floats | None = None) -> Whole:
    """The class with the largest logit of each row, -1 where row or logits are not finite.

    `confidence`, where given, is filled with max_i softmax_i of the rows that have a class.
    """
    finite = np.flatnonzero(np.isfinite(rows).all(axis=1))
    classes = np.full(len(rows), -1, np.int64)
    for span, logits in _logit_blocks(head, _chosen(rows, finite)):
        classes[finite[span]] = _largest(logits)
        if confidence is not None:
            with np.errstate(all="ignore"):
                powers = np.exp((logits - logits.max(axis=1, keepdims=True)).astype(np.float64, copy=False))
                confidence[finite[span]] = 1.0 / powers.sum(axis=1)
    return classes


def finite_scores(estimator: Estimator, z: Any) -> Floats:
    """Uncertainties, or a SoftscopeError that names the first row whose score is beyond floating point."""
    with np.errstate(over="ignore", invalid="ignore"):
        scores = estimator.uncertainty(z)
    unsound = ~np.isfinite(scores)
    if unsound.any():
        name = z.name if isinstance(z, FeatureSet) else "z"
        raise _unscored(name, int(unsound.argmax()))
    return scores


def predicted(head: Head, z: Any) -> Whole:
    """The class with the largest logit of each row, or a SoftscopeError that names the first row without one."""
    features = FeatureSet.of(z)
    classes = np.concatenate(
        [_largest(logits) for rows in features.chunks() for _, logits in _logit_blocks(head, rows)]
    )
    if classes.min() < 0:
        raise _unscored(features.name, int(classes.argmin()))
    return classes


def _chosen(rows: NDArray, numbers: Whole) -> NDArray:
    """`rows[numbers]`; no copy where these are all rows, as they mostly are."""
    return rows if len(numbers) == len(rows) else rows[numbers]


def _logit_blocks(head: Head, rows: NDArray) -> Iterator[tuple[slice, NDArray]]:
    """The logits of finite rows, some at a time, with their place."""
    for span in spans(len(rows), chunk_rows(max(head.n_classes, head.n_features))):
        logits = np.empty((span.stop - span.start, head.n_classes), head.logit_dtype(rows.dtype))
        with np.errstate(over="ignore", invalid="ignore"):
            head.product(rows[span], logits)
            logits += head.bias.astype(logits.dtype, copy=False)
        yield span, logits


def _largest(logits: NDArray) -> Whole:
    """The class with the largest logit of each row, -1 where logits are beyond floating point."""
    return np.where(np.isfinite(logits).all(axis=1), logits.argmax(axis=1), -1)


def _scores_or_nan(estimator: Estimator, rows: NDArray) -> Floats:
    """Scores of finite rows, NaN where one is beyond floating point: found by halving, as they are rare."""
    if not len(rows):
        return np.empty(0)
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            scores = estimator.uncertainty(rows)
        return np.where(np.isfinite(scores), scores, np.nan)
    except SoftscopeError:
        if len(rows) == 1:
            return np.array([np.nan])
        half = len(rows) // 2
        return np.concatenate([_scores_or_nan(estimator, rows[:half]), _scores_or_nan(estimator, rows[half:])])


def _unscored(name: str, row: int) -> SoftscopeError:
    return SoftscopeError(
        f"{name}: row {row} can't be scored, its features are too large", "Check the source of this row, or drop it"
    )
