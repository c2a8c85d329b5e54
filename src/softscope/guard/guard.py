"""`Guard`: an estimator, calibrated so that fresh inputs of the known kind raise no more than the promised alarms."""

import os
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..arrays import Floats, check_columns
from ..errors import SoftscopeError
from ..estimators import Estimator, default_estimator
from ..estimators import estimator as estimator_named
from ..features import FeatureSet
from ..head import Head
from .checks import check_apart, check_calibration, check_enough
from .conformal import Calibration, Promise, Whole, benjamini_hochberg, check_rate
from .judging import finite_scores, predicted

if TYPE_CHECKING:
    from ..metrics import DiscoveryBound
    from ..torch_door import nn
    from .monitor import Monitor
    from .wrapping import GuardedModel

PROBES = 16


class Guard:
    """A fitted `estimator`, the `calibration` scores, and the `promise` they keep.

    Fresh inputs of the calibration's kind raise an alarm with a probability of at most `false_alarms`: averaged over
    calibration sets, or, with a `confidence`, for this guard with that confidence. That holds whatever the estimator
    and the number of rows; with `per_class`, also among the inputs that are taken for any one class. `probes` are some
    calibration rows with their scores, by which a loaded guard checks itself; `parent` says what it was recalibrated
    from.

    >>> import numpy as np
    >>> import softscope as sx
    >>> rng = np.random.default_rng(0)
    >>> labels = np.arange(499) % 2
    >>> z = 5 * np.eye(2, 4)[labels] + rng.normal(size=(499, 4))
    >>> guard = sx.Guard.fit(sx.Head(np.eye(2, 4)), (z[:300], labels[:300]), z[300:], false_alarms=0.05)
    >>> guard.alarms([[5.0, 0.0, 0.0, 0.0], [0.0, 0.0, 5.0, 0.0]])
    array([False,  True])
    >>> guard.promise.rank(199)
    10
    """

    def __init__(
        self,
        estimator: Estimator,
        calibration: Calibration,
        promise: Promise,
        *,
        per_class: bool,
        probes: tuple[NDArray, Floats],
        parent: Mapping[str, Any] | None = None,
    ) -> None:
        self.estimator = estimator
        self.calibration = calibration
        self.promise = promise
        self.per_class = per_class
        self.probes = probes
        self.parent = parent
        check_enough(calibration.counts, promise, "the guard", self.head if per_class else None)

    @classmethod
    def fit(
        cls,
        head: Head,
        train: Any,
        calibration: Any,
        estimator: Estimator | str | None = None,
        false_alarms: float = 0.05,
        *,
        confidence: float | None = None,
        per_class: bool = False,
    ) -> "Guard":
        """Fit a copy of `estimator` (or one by its name) on `train`, and calibrate it on rows that are not in `train`.

        Without `estimator` it is `default_estimator(train)`: mahalanobis++, which reads the direction of z alone; an
        input that differs from known ones only in its size needs another, "density" for example.

        Both are whatever `FeatureSet.of` takes: a FeatureSet, an array, a path, or a pair (features, labels). `train`
        may be None where the estimator reads the head alone. Labels of the calibration rows are not used.
        """
        promise = Promise(false_alarms, confidence)
        train = None if train is None else FeatureSet.of(train, "train")
        known = FeatureSet.of(calibration, "calibration")
        check_calibration(head, known, promise, per_class)
        if train is not None:
            check_columns(train.n_features, f"{train.name}: z", columns=head.n_features)
            check_apart(train, known)
        if estimator is None:
            chosen = default_estimator(train)
        else:
            chosen = estimator_named(estimator) if isinstance(estimator, str) else estimator.clone()
        return cls.calibrated(chosen.fit(head, train), known, promise, per_class=per_class)

    @classmethod
    def calibrated(
        cls,
        fitted: Estimator,
        known: FeatureSet,
        promise: Promise,
        *,
        per_class: bool,
        parent: Mapping[str, Any] | None = None,
    ) -> "Guard":
        """A guard of a fitted estimator, calibrated on the rows `known`."""
        head = fitted.head_
        classes = check_calibration(head, known, promise, per_class)
        groups, n_groups = (classes, head.n_classes) if per_class else (np.zeros(len(known), np.int64), 1)
        scores = finite_scores(fitted, known)
        shown = np.linspace(0, len(known) - 1, min(PROBES, len(known))).astype(np.int64)
        return cls(
            fitted,
            Calibration.of(scores, groups, n_groups, classes),
            promise,
            per_class=per_class,
            probes=(known.rows(shown), scores[shown]),
            parent=parent,
        )

    def __repr__(self) -> str:
        kind = ", per class" if self.per_class else ""
        sure = "" if self.promise.confidence is None else f" with confidence {self.promise.confidence:g}"
        rows = len(self.calibration.scores)
        return f"Guard({self.estimator!r}, {self.false_alarms:g} false alarms{sure}{kind}, calibrated on {rows} rows)"

    @property
    def head(self) -> Head:
        """The head that the estimator was fitted with."""
        return self.estimator.head_

    @property
    def false_alarms(self) -> float:
        """The promised rate."""
        return self.promise.rate

    @property
    def thresholds(self) -> Floats:
        """The uncertainty above which there is an alarm: one, or with `per_class` one for each predicted class."""
        return self.calibration.thresholds(self.promise)

    def uncertainty(self, z: Any) -> Floats:
        """The estimator's uncertainty of each row, finite float64, larger = more uncertain. One row may stand alone."""
        return finite_scores(self.estimator, self._features(z))

    def p_values(self, z: Any) -> Floats:
        """(1 + #{calibration >= s}) / (n + 1) of each row's uncertainty s: small where few known rows score as high.

        With `per_class` among the calibration rows that are taken for the same class.
        """
        return self._judged(z)[0]

    def alarms(self, z: Any) -> NDArray[np.bool_]:
        """Which rows to distrust: those whose uncertainty is above the threshold."""
        return self.alarming(*self._judged(z))

    def _judged(self, z: Any) -> tuple[Floats, Whole]:
        """The p-value of each row and the group of calibration scores that it was compared with."""
        features = self._features(z)
        scores = finite_scores(self.estimator, features)
        groups = predicted(self.head, features) if self.per_class else np.zeros(len(features), np.int64)
        return self.calibration.p_values(scores, groups), groups

    def alarming(self, p_values: Floats, groups: Whole) -> NDArray[np.bool_]:
        """Which p-values, of rows in these groups of calibration scores, are alarms: p <= l / (n + 1)."""
        return p_values <= self._levels[groups]

    @cached_property
    def _levels(self) -> Floats:
        return self.calibration.levels(self.promise)

    def discoveries(self, z: Any, rate: float) -> NDArray[np.bool_]:
        """Which rows of a batch to call OOD, so that at most `rate` of these are expected to be known ones.

        Benjamini-Hochberg over the p-values of all rows of `z`. To find k OOD rows among m, some p-value must
        reach k rate / m, which takes at least m / (k rate) - 1 calibration rows.
        """
        rate = check_rate(rate, "rate")
        check_enough(self.calibration.counts, Promise(rate), "the guard", self.head if self.per_class else None)
        return benjamini_hochberg(self.p_values(z), rate)

    def discovery_bound(self, z: Any, confidence: float = 0.95) -> "DiscoveryBound":
        """How many of the rows of `z` above a threshold can be known ones, for every threshold at once."""
        from ..metrics import discovery_bound

        if self.per_class:
            raise SoftscopeError("the bound on discoveries needs one threshold", "Fit the guard without per_class")
        return discovery_bound(self.calibration.scores, self.uncertainty(z), confidence)

    def describe(self) -> dict[str, Any]:
        """What the guard is and promises, as plain values; a group is all inputs, or those taken for one class.

        `rate` is the false-alarm rate of fresh inputs: its mean over calibration sets, and where this guard's own lies
        in 95 % of cases; `exceeded` the probability that the own rate is above the promised one. `spread` is the
        rate among the calibration rows taken for each class, where one threshold serves all.
        """
        groups = [
            {
                "class": self.head.class_name(number) if self.per_class else None,
                "rows": int(rows),
                "threshold": float(threshold),
                "rate": self.promise.own_rate(int(rows)).to_dict(),
                "exceeded": self.promise.exceeded(int(rows)),
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
            "confidence": self.promise.confidence,
            "per_class": self.per_class,
            "groups": groups,
            "spread": self._spread(),
            "parent": None if self.parent is None else dict(self.parent),
        }

    def _spread(self) -> list[dict[str, Any]]:
        from ..metrics import proportion

        if self.per_class or self.calibration.classes is None:
            return []
        rows = np.bincount(self.calibration.classes, minlength=self.head.n_classes)
        raising = self.calibration.classes[self.calibration.scores > self.thresholds[0]]
        alarms = np.bincount(raising, minlength=self.head.n_classes)
        return [
            {"class": self.head.class_name(k), "rows": int(n), "rate": proportion(int(a), int(n)).to_dict()}
            for k, (n, a) in enumerate(zip(rows, alarms))
            if n
        ]

    def _features(self, z: Any) -> FeatureSet:
        """`FeatureSet.of(z)`, where z may also be the features of a single input."""
        if isinstance(z, list) and len(z) == self.head.n_features and not any(isinstance(v, list) for v in z):
            z = np.asarray(z, np.float64)
        if getattr(z, "shape", None) == (self.head.n_features,):
            z = z[None]
        return FeatureSet.of(z)

    def groups_of(self, classes: Whole) -> Whole:
        """Which group of calibration scores rows of these predicted classes are compared with."""
        return classes if self.per_class else np.zeros_like(classes)

    def monitor(self, rate: float = 0.01, seed: int = 0) -> "Monitor":
        """A watch over a stream of inputs that raises a false alarm with probability at most `rate`, at any time."""
        from .monitor import Monitor

        return Monitor(self, rate, seed)

    def recalibrate(
        self,
        calibration: Any,
        *,
        false_alarms: float | None = None,
        confidence: float | None = None,
        drifted: bool = False,
    ) -> "Guard":
        """The same fitted estimator, calibrated on new known rows; its `parent` says what this guard was.

        A rate and a confidence that are not given stay as they are. Rows that raise the drift alarm (at 1 %) against
        this guard's calibration are refused, unless `drifted` says that they are known inputs all the same.
        """
        known = FeatureSet.of(calibration, "calibration")
        check_columns(known.n_features, f"{known.name}: z", columns=self.head.n_features)
        evidence = self.monitor().update(known)
        if evidence.alarm and not drifted:
            raise SoftscopeError(
                f"{known.name}: these rows are not like the rows this guard was calibrated on ({evidence})",
                "If they are known inputs all the same, pass drifted=True (--drifted)",
            )
        promise = Promise(false_alarms or self.false_alarms, confidence or self.promise.confidence)
        parent = {
            "sha256": self.sha256,
            "calibration_rows": len(self.calibration.scores),
            "false_alarms": self.false_alarms,
            "confidence": self.promise.confidence,
            "thresholds": self.thresholds.tolist(),
            "drift": str(evidence),
        }
        return Guard.calibrated(self.estimator, known, promise, per_class=self.per_class, parent=parent)

    def wrap(self, model: "nn.Module") -> "GuardedModel":
        """A torch module that returns logits, uncertainty, p and alarm in one forward pass through `model`."""
        from .wrapping import GuardedModel

        return GuardedModel(self, model)

    def export(self, model: Any, path: str | os.PathLike[str], **options: Any) -> dict[str, Any]:
        """Write an .onnx file or a torch module with this guard inside as one ONNX graph (`export_guarded`)."""
        from .exporting import export_guarded

        return export_guarded(self, model, path, **options)

    @property
    def sha256(self) -> str:
        """The digest of all that makes up the guard, as in its file."""
        from .saving import guard_sha256

        return guard_sha256(self)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the guard as one safetensors file, atomically."""
        from .saving import save_guard

        save_guard(self, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Guard":
        """Read a guard that `save` wrote; any changed byte is an error, and nothing in it is ever executed."""
        from .saving import load_guard

        return load_guard(path)
