"""`Guard`: an estimator, calibrated so that fresh inputs of the known kind raise no more than the promised alarms."""

import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..arrays import Floats, check_columns, chunk_rows, spans
from ..errors import SoftscopeError
from ..estimators import Estimator
from ..estimators import estimator as estimator_named
from ..features import FeatureSet
from ..head import Head
from .conformal import Calibration, Whole, benjamini_hochberg, check_rate, kept_rate, smallest_calibration
from .shared_rows import check_apart

PROBES = 16


class Guard:
    """A fitted `estimator`, the `calibration` scores, and the `false_alarms` rate they promise.

    Fresh inputs of the calibration's kind raise an alarm with a probability of at most `false_alarms`, averaged over
    calibration sets, whatever the estimator and the number of rows; with `per_class`, also among the inputs that are
    taken for any one class. `probes` are some rows with their scores, by which a loaded guard checks itself.
    """

    def __init__(
        self,
        estimator: Estimator,
        calibration: Calibration,
        false_alarms: float,
        *,
        per_class: bool,
        probes: tuple[NDArray, Floats],
    ) -> None:
        self.estimator = estimator
        self.calibration = calibration
        self.false_alarms = check_rate(false_alarms, "false_alarms")
        self.per_class = per_class
        self.probes = probes
        _check_enough(calibration.counts, self.false_alarms, "the guard", self.head if per_class else None)

    @classmethod
    def fit(
        cls,
        head: Head,
        train: Any,
        calibration: Any,
        estimator: Estimator | str = "density",
        false_alarms: float = 0.05,
        *,
        per_class: bool = False,
    ) -> "Guard":
        """Fit a copy of `estimator` (or one by its name) on `train`, and calibrate it on rows that are not in `train`.

        Both are whatever `FeatureSet.of` takes: a FeatureSet, an array, a path, or a pair (features, labels). `train`
        may be None where the estimator reads the head alone. Labels of the calibration rows are not used.
        """
        train = None if train is None else FeatureSet.of(train, "train")
        calibration = FeatureSet.of(calibration, "calibration")
        rate = check_rate(false_alarms, "false_alarms")
        check_columns(calibration.n_features, f"{calibration.name}: z", columns=head.n_features)
        _check_enough(np.array([len(calibration)]), rate, calibration.name, None)
        groups, n_groups = np.zeros(len(calibration), np.int64), 1
        if per_class:
            groups, n_groups = predicted(head, calibration), head.n_classes
            _check_enough(np.bincount(groups, minlength=n_groups), rate, calibration.name, head)
        if train is not None:
            check_columns(train.n_features, f"{train.name}: z", columns=head.n_features)
            check_apart(train, calibration)
        fitted = _fresh(estimator).fit(head, train)
        scores = finite_scores(fitted, calibration)
        shown = np.linspace(0, len(calibration) - 1, min(PROBES, len(calibration))).astype(np.int64)
        return cls(
            fitted,
            Calibration.of(scores, groups, n_groups),
            rate,
            per_class=per_class,
            probes=(calibration.rows(shown), scores[shown]),
        )

    def __repr__(self) -> str:
        kind = ", per class" if self.per_class else ""
        rows = len(self.calibration.scores)
        return f"Guard({self.estimator!r}, {self.false_alarms:g} false alarms{kind}, calibrated on {rows} rows)"

    @property
    def head(self) -> Head:
        """The head that the estimator was fitted with."""
        return self.estimator.head_

    @property
    def thresholds(self) -> Floats:
        """The uncertainty above which there is an alarm: one, or with `per_class` one for each predicted class."""
        return self.calibration.thresholds(self.false_alarms)

    def uncertainty(self, z: Any) -> Floats:
        """The estimator's uncertainty of each row, finite float64, larger = more uncertain."""
        return finite_scores(self.estimator, z)

    def p_values(self, z: Any) -> Floats:
        """(1 + #{calibration >= s}) / (n + 1) of each row's uncertainty s: small where few known rows look as strange.

        With `per_class` among the calibration rows that are taken for the same class.
        """
        scores = self.uncertainty(z)
        return self.calibration.p_values(scores, self.groups(z, len(scores)))

    def alarms(self, z: Any) -> NDArray[np.bool_]:
        """Which rows to distrust: p <= `false_alarms`."""
        return self.p_values(z) <= self.false_alarms

    def discoveries(self, z: Any, rate: float) -> NDArray[np.bool_]:
        """Which rows of a batch to call strange, so that at most `rate` of these are expected to be known ones.

        Benjamini-Hochberg over the p-values of all rows of `z`. To find k strange rows among m, some p-value must
        reach k rate / m, which takes at least m / (k rate) - 1 calibration rows.
        """
        rate = check_rate(rate, "rate")
        _check_enough(self.calibration.counts, rate, "the guard", self.head if self.per_class else None)
        return benjamini_hochberg(self.p_values(z), rate)

    def groups(self, z: Any, rows: int) -> Whole:
        """Which group of calibration scores each of the `rows` rows of `z` is compared with."""
        return predicted(self.head, z) if self.per_class else np.zeros(rows, np.int64)

    def describe(self) -> dict[str, Any]:
        """What the guard is and promises, as plain values; a group is all inputs, or those taken for one class.

        `rate` is the false-alarm rate of fresh inputs: its mean over calibration sets, and where this guard's own lies
        in 95 % of cases.
        """
        groups = [
            {
                "class": self.head.class_name(number) if self.per_class else None,
                "rows": int(rows),
                "threshold": float(threshold),
                "rate": kept_rate(self.false_alarms, int(rows)).to_dict(),
            }
            for number, (rows, threshold) in enumerate(zip(self.calibration.counts, self.thresholds))
        ]
        return {
            "estimator": self.estimator.info.name,
            "params": self.estimator.params(),
            "classes": self.head.n_classes,
            "features": self.head.n_features,
            "calibration_rows": len(self.calibration.scores),
            "false_alarms": self.false_alarms,
            "per_class": self.per_class,
            "groups": groups,
        }

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the guard as one safetensors file, atomically."""
        from .saving import save_guard

        save_guard(self, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Guard":
        """Read a guard that `save` wrote; any changed byte is an error, and nothing in it is ever executed."""
        from .saving import load_guard

        return load_guard(path)


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
    classes = np.concatenate([predicted_or_none(head, rows) for rows in features.chunks()])
    if classes.min() < 0:
        raise _unscored(features.name, int(classes.argmin()))
    return classes


def predicted_or_none(head: Head, rows: NDArray) -> Whole:
    """The class with the largest logit of each finite row, -1 where logits are beyond floating point."""
    classes = np.empty(len(rows), np.int64)
    for span in spans(len(rows), chunk_rows(max(head.n_classes, head.n_features))):
        logits = np.empty((span.stop - span.start, head.n_classes), head.logit_dtype(rows.dtype))
        with np.errstate(over="ignore", invalid="ignore"):
            head.product(rows[span], logits)
            logits += head.bias.astype(logits.dtype, copy=False)
        classes[span] = np.where(np.isfinite(logits).all(axis=1), logits.argmax(axis=1), -1)
    return classes


def _unscored(name: str, row: int) -> SoftscopeError:
    return SoftscopeError(
        f"{name}: row {row} can't be scored, its features are too large", "Check what made this row, or drop it"
    )


def _fresh(estimator: Estimator | str) -> Estimator:
    """An unfitted estimator: fitting or changing the caller's own later must not touch the guard."""
    return estimator_named(estimator) if isinstance(estimator, str) else estimator.clone()


def _check_enough(counts: Whole, rate: float, name: str, head: Head | None) -> None:
    """Raise unless every group has the rows that `rate` needs; groups are the classes of `head`, or all rows."""
    needed = smallest_calibration(rate)
    short = np.flatnonzero(counts < needed)
    if not len(short):
        return
    fewest = int(counts[short].min())
    if head is None:
        what = f"{name}: {fewest} calibration rows, a rate of {rate:g} needs at least {needed}"
        raise SoftscopeError(what, f"Give {needed} or more, or a rate of at least 1/{fewest + 1}")
    worst = int(short[counts[short].argmin()])
    others = f" (and {len(short) - 1} more classes have too few)" if len(short) > 1 else ""
    raise SoftscopeError(
        f"{name}: {fewest} calibration rows are taken for class {head.class_name(worst)}, a rate of {rate:g} for each "
        f"class needs at least {needed}{others}",
        "Give more calibration rows, a larger rate, or calibrate all classes together",
    )
