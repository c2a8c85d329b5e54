"""Scores checked, sorted and counted against each other: what every metric of rank needs, in O(n log n).

Small inputs use numpy; from `COMPILED_FROM` scores on, compiled loops (numba) give the same numbers 10 times faster,
which is worth their import only there.
"""

from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..arrays import Floats
from ..errors import SoftscopeError

COMPILED_FROM = 1 << 18
Counts = NDArray[np.int64]


def as_scores(values: Any, name: str) -> Floats:
    """`values` as float64, which keeps the order of every pair; +-inf can be ordered and is allowed, NaN can't."""
    try:
        array = np.asarray(values)
    except (ValueError, TypeError, RuntimeError) as error:
        raise SoftscopeError(f"{name}: is not an array of numbers ({error})", "Pass one real score per row") from error
    if array.dtype.kind not in "fiub" or array.dtype.itemsize > 8:
        raise SoftscopeError(f"{name}: expected real scores, found {array.dtype}", "Pass float32 or float64")
    if array.ndim != 1 or array.size == 0:
        raise SoftscopeError(
            f"{name}: expected one score per row, at least one, found shape {array.shape}", "Check what was passed"
        )
    scores = np.ascontiguousarray(array, dtype=np.float64)
    if array.dtype.kind in "iu" and array.dtype.itemsize == 8 and np.abs(scores).max() > 2.0**53:
        raise SoftscopeError(f"{name}: whole numbers beyond 2^53 can't all be told apart", "Pass float64 scores")
    if np.isnan(scores.min()):
        bad = np.isnan(scores)
        raise SoftscopeError(
            f"{name}: row {int(bad.argmax())} is NaN, the first of {int(bad.sum())}",
            "Drop these rows or fix their source",
        )
    return scores


def sort(scores: Floats) -> Floats:
    """The scores in ascending order, as a new array."""
    compiled = _compiled(scores.size)
    if compiled is None:
        return np.sort(scores)
    # Room from numpy, which asks the system for huge pages: scattering over small ones costs a third more.
    keys, spare = np.empty(scores.size, np.uint64), np.empty(scores.size, np.uint64)
    ascending: Floats = compiled.sort(scores, keys, spare)
    return ascending


def count(ascending: Floats, queries: Floats) -> tuple[Counts, Counts]:
    """For each of the ascending `queries`, how many of `ascending` are smaller, and how many smaller or equal."""
    compiled = _compiled(ascending.size + queries.size)
    if compiled is None:
        return np.searchsorted(ascending, queries, "left"), np.searchsorted(ascending, queries, "right")
    below, upto = compiled.count(ascending, queries)
    return below, upto


def placements(low: Floats, high: Floats) -> tuple[int, float, float]:
    """Sum of twice the placements of `high` in `low` (both ascending), and each side's squares about the mean.

    Twice the placement of a score in the other side = scores smaller + scores smaller or equal: a whole number, so that
    the sum is exact. The squares are of the placements of `low` in `high` and of `high` in `low`, doubled likewise.
    """
    compiled = _compiled(low.size + high.size)
    if compiled is not None:
        total, squares_low, squares_high = compiled.placements(low, high)
        return int(total), float(squares_low), float(squares_high)
    in_high, in_low = np.add(*count(high, low)), np.add(*count(low, high))
    squares_low, squares_high = (float(np.square(twice - twice.mean()).sum()) for twice in (in_high, in_low))
    return int(in_low.sum()), squares_low, squares_high


def _compiled(size: int) -> ModuleType | None:
    if size < COMPILED_FROM:
        return None
    try:
        from . import compiled
    except ImportError:  # a numba that doesn't know this numpy: slower, but the same numbers
        return None
    return compiled
