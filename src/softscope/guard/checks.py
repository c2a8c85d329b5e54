"""What makes calibration rows unfit for a promise: too few of them, or rows that were trained on."""

import warnings
from collections import Counter
from collections.abc import Iterator

import numpy as np

from ..arrays import check_columns
from ..errors import SoftscopeError
from ..features import FeatureSet
from ..head import Head
from .conformal import Promise, Whole
from .judging import predicted


def check_calibration(head: Head, known: FeatureSet, promise: Promise, per_class: bool) -> Whole:
    """The predicted classes of the rows `known`, or a SoftscopeError where they can't keep `promise`."""
    check_columns(known.n_features, f"{known.name}: z", columns=head.n_features)
    check_enough(np.array([len(known)]), promise, known.name, None)
    classes = predicted(head, known)
    if per_class:
        check_enough(np.bincount(classes, minlength=head.n_classes), promise, known.name, head)
    return classes


def check_enough(counts: Whole, promise: Promise, name: str, head: Head | None) -> None:
    """Raise unless every group has the rows that `promise` needs; groups are the classes of `head`, or all rows."""
    needed = promise.smallest_calibration
    short = np.flatnonzero(counts < needed)
    if not len(short):
        return
    fewest = int(counts[short].min())
    rate = f"a rate of {promise.rate:g}" + (f" with confidence {promise.confidence:g}" if promise.confidence else "")
    if head is None:
        what = f"{name}: {fewest} calibration rows, {rate} needs at least {needed}"
        possible = f", or a rate of at least 1/{fewest + 1}" if promise.confidence is None else ", or a larger rate"
        raise SoftscopeError(what, f"Give {needed} or more{possible}")
    worst = int(short[counts[short].argmin()])
    others = f" (and {len(short) - 1} more classes have too few)" if len(short) > 1 else ""
    raise SoftscopeError(
        f"{name}: {fewest} calibration rows are taken for class {head.class_name(worst)}, {rate} for each "
        f"class needs at least {needed}{others}",
        "Give more calibration rows, a larger rate, or calibrate all classes together",
    )


def check_apart(train: FeatureSet, calibration: FeatureSet) -> None:
    """An error where most calibration rows are training rows, a warning where some are: those look too familiar.

    Rows that occur more than once in the calibration set don't count: an input that leaves every unit off, or a small
    set of possible features, gives equal rows although nobody has mixed up files.
    """
    counts = Counter(key for block in _keys(calibration) for key in block)
    once = {key for key, count in counts.items() if count == 1}
    shared = {key for block in _keys(train) for key in once.intersection(block)}
    if not shared:
        return
    what = f"{calibration.name}: {len(shared):,} of {len(calibration):,} calibration rows are rows of {train.name}"
    if 2 * len(shared) > len(calibration):
        raise SoftscopeError(what, "Calibrate on rows that the network and the estimator were not trained on")
    warnings.warn(f"{what}: expect more false alarms than promised", stacklevel=3)


def _keys(features: FeatureSet) -> Iterator[list[int]]:
    """A 64-bit hash of each row as float32, chunk by chunk; 0 and -0 are the same number."""
    for rows in features.chunks():
        with np.errstate(over="ignore"):
            narrow = np.ascontiguousarray(rows, np.float32) + np.float32(0)
        yield list(map(hash, narrow.view(f"V{4 * features.n_features}").ravel().tolist()))
