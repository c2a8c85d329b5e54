"""The compiled inner loop of `bounds`, apart so that numba is imported only where it is used."""

import numpy as np
from numpy.typing import NDArray

from ..compiling import compiled


@compiled("contract", "reassoc", "nsz", "arcp")
def upper_bounds(
    white: NDArray, offsets: NDArray, norms: NDArray, reach: NDArray, slack: NDArray, constants: NDArray, out: NDArray
) -> None:
    """out[i, k] = constants[k] - max(0, norm(white[i, :, k] - offsets[:, k]) - rounding)^2 / 2."""
    width, classes = offsets.shape
    for i in range(len(out)):
        row = out[i]
        row[:] = np.float32(0.0)
        for m in range(width):
            start = m * classes
            for k in range(classes):
                difference = white[i, start + k] - offsets[m, k]
                row[k] += difference * difference
        for k in range(classes):
            least = max(np.float32(0.0), np.sqrt(row[k]) - slack[k] * (norms[i] + reach[k]))
            row[k] = constants[k] - np.float32(0.5) * least * least
