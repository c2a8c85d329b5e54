"""Whether calibration rows are training rows: those look more familiar than fresh ones, and the promise breaks."""

import warnings
from collections import Counter
from collections.abc import Iterator

import numpy as np

from ..errors import SoftscopeError
from ..features import FeatureSet


def check_apart(train: FeatureSet, calibration: FeatureSet) -> None:
    """An error where most calibration rows are training rows, a warning where some are.

    Rows that occur more than once in the calibration set don't count: an input that leaves every unit off, or a small
    set of possible features, gives equal rows without anyone having mixed up files.
    """
    counts = Counter(key for block in _keys(calibration) for key in block)
    once = {key for key, count in counts.items() if count == 1}
    shared = {key for block in _keys(train) for key in once.intersection(block)}
    if not shared:
        return
    what = f"{calibration.name}: {len(shared):,} of {len(calibration):,} calibration rows are rows of {train.name}"
    if 2 * len(shared) > len(once):
        raise SoftscopeError(what, "Calibrate on rows that the network and the estimator were not trained on")
    warnings.warn(f"{what}: more false alarms than promised are to be expected", stacklevel=3)


def _keys(features: FeatureSet) -> Iterator[list[int]]:
    """A 64-bit hash of each row as float32, chunk by chunk; 0 and -0 are the same number."""
    for rows in features.chunks():
        with np.errstate(over="ignore"):
            narrow = np.ascontiguousarray(rows, np.float32) + np.float32(0)
        yield list(map(hash, narrow.view(f"V{4 * features.n_features}").ravel().tolist()))
