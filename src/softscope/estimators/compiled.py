"""Compiled loops: the tails of rows of logits, and what keeps and measures the nearest rows block by block.

`tails` makes all that every score of the logits needs (`softmax.Tail`), at two temperatures in one pass. Logits are
turned into tiles of TILE rows side by side, so that each step of the sums is one vector instruction over rows whatever
K is, and nothing has to be added up across a vector. Agrees with `Tail.of` to a few float64 roundings.
"""

import numpy as np
from numpy.typing import NDArray

from ..arrays import Floats
from ..compiling import compiled, exp

TILE = 64
_NEGLIGIBLE = -70.0  # exp of less can't move a float64 sum that holds a 1; its 10th power is not yet denormal


@compiled("contract", "nsz")
def tails(product: NDArray, bias: NDArray, cooling: float, warm: Floats, cool: Floats) -> None:
    """Tails of the logits `product` + `bias` [rows, K] into `warm` [4, rows], at temperature 1/cooling into `cool`.

    Where a row's logits are all NaN or inf, so is its `first`.
    """
    rows, classes = product.shape
    tile = np.zeros((classes, TILE), product.dtype)
    first = np.empty(TILE, product.dtype)
    second = np.empty(TILE, product.dtype)
    sums = np.empty((4, TILE))
    for start in range(0, rows, TILE):
        stop = min(rows, start + TILE)
        _turn(product[start:stop], bias, tile, first, second)
        _add_up(tile, second, cooling, sums)
        for row in range(start, stop):
            at = row - start
            gap = np.float64(first[at]) - np.float64(second[at])
            warm[0, row], warm[1, row], warm[2, row], warm[3, row] = first[at], gap, sums[0, at], sums[1, at]
            cool[0, row], cool[1, row], cool[2, row], cool[3, row] = first[at], gap * cooling, sums[2, at], sums[3, at]


@compiled("contract", "nsz")
def _turn(product: NDArray, bias: NDArray, tile: NDArray, first: NDArray, second: NDArray) -> None:
    """Logits product + bias of up to TILE rows into `tile` [K, TILE], their two largest into `first` and `second`."""
    first[:] = -np.inf
    second[:] = -np.inf
    for j in range(len(tile)):
        line = tile[j]
        for row in range(len(product)):  # apart from the next loop, which becomes vector code only without it
            line[row] = product[row, j]
        for row in range(TILE):
            logit = line[row] + bias[j]
            line[row] = logit
            loser = logit if logit < first[row] else first[row]
            second[row] = loser if loser > second[row] else second[row]
            first[row] = first[row] if first[row] > logit else logit


@compiled("contract", "nsz")
def _add_up(tile: NDArray, second: NDArray, cooling: float, sums: Floats) -> None:
    """Sums over the losers of exp(x), x exp(x), exp(c) and c exp(c), c = x * cooling, into `sums` [4, TILE]."""
    pivot = second.astype(np.float64)
    rest, moment, cool_rest, cool_moment = sums[0], sums[1], sums[2], sums[3]
    # The winner's x is cut to 0 and adds exactly 1 to each sum of powers, 0 to the others.
    rest[:] = -1.0
    moment[:] = 0.0
    cool_rest[:] = -1.0
    cool_moment[:] = 0.0
    tenth = cooling == 0.1  # then exp(x) is the 10th power of exp(c): four products instead of a polynomial
    for j in range(len(tile)):
        line = tile[j]
        for row in range(TILE):
            x = np.float64(line[row]) - pivot[row]
            x = x if x < 0.0 else 0.0
            c = x * cooling
            c = c if c > _NEGLIGIBLE else _NEGLIGIBLE
            cool_power = exp(c)
            if tenth:
                x = 10.0 * c
                square = cool_power * cool_power
                fourth = square * square
                power = fourth * fourth * square
            else:
                x = x if x > _NEGLIGIBLE else _NEGLIGIBLE
                power = exp(x)
            rest[row] += power
            moment[row] += x * power
            cool_rest[row] += cool_power
            cool_moment[row] += c * cool_power


@compiled()
def push_rows(block: NDArray, first: int, values: NDArray, indices: NDArray) -> None:
    """Push each row of `block` into the min-heap of its largest entries so far, with their places first + j.

    In random order the n-th entry gets in with probability k/n, so this costs little more than one reading.
    """
    k = values.shape[1]
    for i in range(block.shape[0]):
        for j in range(block.shape[1]):
            value = block[i, j]
            if value > values[i, 0]:
                hole = 0
                child = 1
                while child < k:
                    if child + 1 < k and values[i, child + 1] < values[i, child]:
                        child += 1
                    if values[i, child] >= value:
                        break
                    values[i, hole] = values[i, child]
                    indices[i, hole] = indices[i, child]
                    hole = child
                    child = 2 * hole + 1
                values[i, hole] = value
                indices[i, hole] = first + j


@compiled("contract", "reassoc", "nsz")
def square_distances(rows: NDArray, queries: NDArray, chosen: NDArray, out: NDArray) -> None:
    """out[i, j] = norm(rows[chosen[i, j]] - queries[i])^2, in float64."""
    for i in range(len(queries)):
        for j in range(chosen.shape[1]):
            row, total = rows[chosen[i, j]], 0.0
            for h in range(queries.shape[1]):
                step = np.float64(row[h]) - np.float64(queries[i, h])
                total += step * step
            out[i, j] = total
