"""What keeps and measures the nearest rows while they arrive block by block (compiled)."""

import numpy as np
from numpy.typing import NDArray

from ..compiling import kernel


@kernel()
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


@kernel("contract", "reassoc", "nsz")
def square_distances(rows: NDArray, queries: NDArray, chosen: NDArray, out: NDArray) -> None:
    """out[i, j] = norm(rows[chosen[i, j]] - queries[i])^2, in float64."""
    for i in range(len(queries)):
        for j in range(chosen.shape[1]):
            row, total = rows[chosen[i, j]], 0.0
            for h in range(queries.shape[1]):
                step = np.float64(row[h]) - np.float64(queries[i, h])
                total += step * step
            out[i, j] = total
