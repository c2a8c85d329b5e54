"""Compiled (numba) sort and merge for large score arrays. Import only where needed: numba takes half a second."""

from typing import Any

import numpy as np

from ..compiling import compiled

_DIGIT = 10  # bits a pass: 2^10 counters stay in the first-level cache
_FIRST = 30  # leading bits that are sorted by radix before insertion finishes
_MOVES = 4  # insertion moves a score allowed before the remaining bits are sorted by radix as well
_UNLIKELY = 1e-15  # a probability that no bound's level can notice


@compiled()
def sort(scores: Any, keys: Any, spare: Any) -> Any:
    """Ascending float64 scores without NaN, linear in their number; `keys` and `spare` (uint64) are room to work in.

    Floats become whole numbers of the same order. Radix passes over the leading bits in which they differ leave
    them almost in order and insertion finishes; where that would take long (many agree in these bits), radix takes all.
    """
    high = _fill(keys, scores)
    low = max(0, high - _FIRST)
    keys, spare = _radix(keys, spare, low, high)
    if low > 0 and not _insertion(keys, _MOVES * keys.size):
        keys, spare = _radix(keys, spare, 0, high)
    return _floats(keys)


@compiled()
def count(ascending: Any, queries: Any) -> Any:
    """For each ascending query how many of `ascending` are smaller, and how many smaller or equal, by one merge."""
    below = np.empty(queries.size, np.int64)
    upto = np.empty(queries.size, np.int64)
    first, last = 0, 0
    for row in range(queries.size):
        query = queries[row]
        if row == 0 or query != queries[row - 1]:
            first = last
            while first < ascending.size and ascending[first] < query:
                first += 1
            last = first
            while last < ascending.size and ascending[last] == query:
                last += 1
        below[row] = first
        upto[row] = last
    return below, upto


@compiled()
def placements(low: Any, high: Any) -> Any:
    """`order.placements` by two merges of the ascending sides: first the sum, then the squares about its mean."""
    total, squares_low, squares_high = 0, 0.0, 0.0
    for centred in range(2):
        mean_low, mean_high = 2 * high.size - total / low.size, total / high.size
        row_low, row_high = 0, 0
        while row_high < high.size:
            value = high[row_high]
            while row_low < low.size and low[row_low] < value:
                squares_low += centred * (2 * row_high - mean_low) ** 2
                row_low += 1
            end_low, end_high = row_low, row_high + 1
            while end_low < low.size and low[end_low] == value:
                end_low += 1
            while end_high < high.size and high[end_high] == value:
                end_high += 1
            if centred:
                squares_low += (end_low - row_low) * (row_high + end_high - mean_low) ** 2
                squares_high += (end_high - row_high) * (row_low + end_low - mean_high) ** 2
            else:
                total += (end_high - row_high) * (row_low + end_low)
            row_low, row_high = end_low, end_high
        squares_low += centred * (low.size - row_low) * (2 * high.size - mean_low) ** 2
    return total, squares_low, squares_high


@compiled()
def _fill(keys: Any, scores: Any) -> int:
    # The bits of a float, as a whole number, ascend with it once negative ones are flipped.
    # Returns how many low bits hold all differences.
    top = np.uint64(1 << 63)
    bits = scores.view(np.int64)
    differ = np.uint64(0)
    for row in range(scores.size):
        keys[row] = np.uint64(bits[row]) ^ (np.uint64(bits[row] >> 63) | top)
        differ |= keys[row] ^ keys[0]
    high = 0
    while high < 64 and differ >> np.uint64(high):
        high += 1
    return high


@compiled()
def _floats(keys: Any) -> Any:
    top = np.uint64(1 << 63)
    for row in range(keys.size):
        keys[row] = keys[row] ^ top if keys[row] & top else ~keys[row]
    return keys.view(np.float64)


@compiled()
def _radix(keys: Any, spare: Any, low: int, high: int) -> Any:
    # Least significant digit first; stable, so that each pass keeps the order of the ones before.
    mask = np.uint64((1 << _DIGIT) - 1)
    for start in range(low, high, _DIGIT):
        shift = np.uint64(start)
        counts = np.zeros(1 << _DIGIT, np.int64)
        for row in range(keys.size):
            counts[(keys[row] >> shift) & mask] += 1
        place = np.cumsum(counts) - counts
        for row in range(keys.size):
            value = (keys[row] >> shift) & mask
            spare[place[value]] = keys[row]
            place[value] += 1
        keys, spare = spare, keys
    return keys, spare


@compiled()
def _insertion(keys: Any, moves: int) -> bool:
    for row in range(1, keys.size):
        key = keys[row]
        at = row
        while at > 0 and keys[at - 1] > key:
            keys[at] = keys[at - 1]
            at -= 1
        keys[at] = key
        moves -= row - at
        if moves < 0:
            return False
    return True


@compiled()
def exceeding(bounds: Any, calibrated: int, fresh: int, enough: float = 1.0) -> Any:
    """P(for some k more than `bounds[k-1]` of `fresh` scores lie above the k-th largest of `calibrated` scores).

    Scores are drawn from the largest down, each order of calibration and fresh ones equally likely; `at[t]` is the
    probability of t fresh ones so far without having exceeded a bound. Unlikely states count as exceeding: on the safe
    side, and fast. Beyond `enough` the sum is not finished.
    """
    at = np.zeros(fresh + 2)
    at[0] = 1.0
    lowest, beyond = 0, 0.0
    for drawn in range(calibrated):
        bound = bounds[drawn]
        if bound >= fresh or beyond > enough:
            break
        while lowest < bound and at[lowest] < _UNLIKELY:
            beyond += at[lowest]
            lowest += 1
        for t in range(lowest, bound + 1):
            one_more = at[t] * (fresh - t) / (calibrated + fresh - drawn - t)
            at[t] -= one_more
            if t == bound or (one_more < _UNLIKELY and at[t + 1] == 0.0):
                beyond += one_more
                break
            at[t + 1] += one_more
    return beyond
