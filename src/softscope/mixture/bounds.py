"""Ruling out components without evaluating them: an exact bound from a few whitened coordinates.

Any subset of the whitened coordinates y = L^-1 (z - mu) gives sum_subset y_i^2 <= norm(y)^2. The coordinates with the
smallest pivots L_ii stretch most and rule out most. How many to use is weighed on a sample of the rows; where nothing
would be ruled out, none are.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..arrays import Floats, spans
from .conditioning import Factor

KEEP_NATS = 60.0  # a component this far below the best can't change a float64 sum
_CHOICES = (4, 8, 16, 32)
_SAMPLE = 192
_PIECE = 1024
_SPARE = 1.15  # what gathering rows costs on top of whitening them


class Bounds:
    """The `_CHOICES[-1]` most telling whitened coordinates of each component, as one matrix for one GEMM."""

    def __init__(self, factors: list[Factor], means: Floats, constants: Floats, centre: Floats) -> None:
        self._classes, self._width = len(factors), min(_CHOICES[-1], means.shape[1])
        rows = np.empty((self._classes, self._width, means.shape[1]), np.float32)
        for k, factor in enumerate(factors):
            telling = np.argsort(np.diagonal(factor.inverse))[::-1][: self._width]
            rows[k] = factor.inverse[telling]
        self._rows = rows
        self._offsets = np.einsum("kmh,kh->km", rows.astype(np.float64), means - centre).astype(np.float32)
        self._constants = constants
        self._centre = centre.astype(np.float32)
        # Rounding of the GEMM and of the offset, so that the bound stays a bound in float32.
        unit = 4.0 * np.finfo(np.float32).eps * np.sqrt(means.shape[1])
        norms = np.sqrt(np.cumsum(np.einsum("kmh,kmh->km", rows, rows, dtype=np.float64), axis=1))
        self._slack = unit * norms
        self._reach = np.linalg.norm(means - centre, axis=1)
        self._packed: dict[int, tuple[NDArray, NDArray]] = {}

    def upper(self, x: NDArray, width: int) -> NDArray[np.float32]:
        """Upper bounds [n, K] of log w_k + log N_k at each row, from `width` coordinates a component."""
        matrix, offsets = self._pack(width)
        out = np.empty((len(x), self._classes), np.float32)
        product = np.empty((min(_PIECE, len(x)), len(matrix)), np.float32)
        centred = np.empty((min(_PIECE, len(x)), x.shape[1]), np.float32)
        slack = self._slack[:, width - 1].astype(np.float32)
        kernel = _kernel()
        for span in spans(len(x), _PIECE):
            rows = centred[: span.stop - span.start]
            np.subtract(x[span], self._centre, out=rows, casting="unsafe")
            norms = np.sqrt(np.einsum("ij,ij->i", rows, rows))
            found = np.matmul(rows, matrix.T, out=product[: len(rows)])
            kernel(found, offsets, norms, self._reach, slack, self._constants, out[span])
        return out

    def width(self, x: NDArray, evaluate: Any) -> int:
        """How many coordinates to use for rows like `x`, 0 for none: least expected work on a sample of the rows.

        `evaluate(rows, k)` is the exact log joint density of component k.
        """
        sample = x[:: max(1, len(x) // _SAMPLE)][:_SAMPLE]
        widest = self.upper(sample, self._width)
        best = np.empty(len(sample))
        leading = widest.argmax(axis=1)
        for k in np.unique(leading):
            rows = np.flatnonzero(leading == k)
            best[rows] = evaluate(sample[rows], k)
        features = x.shape[1]
        work = {0: self._classes * features}
        for width in (w for w in _CHOICES if w <= self._width):
            bound = widest if width == self._width else self.upper(sample, width)
            left = max(1.0, float((bound > best[:, None] - KEEP_NATS).sum(axis=1).mean()))
            work[width] = 2 * self._classes * width + left * features * _SPARE
        return min(work, key=lambda w: work[w])

    def _pack(self, width: int) -> tuple[NDArray, NDArray]:
        if width not in self._packed:
            # Coordinate-major, so that the kernel's inner loop runs over components.
            rows = self._rows[:, :width].transpose(1, 0, 2).reshape(-1, self._rows.shape[2])
            self._packed[width] = np.ascontiguousarray(rows), np.ascontiguousarray(self._offsets[:, :width].T)
        return self._packed[width]


_compiled: Any = None


def _kernel() -> Any:
    global _compiled
    if _compiled is None:
        from numba import njit

        _compiled = njit(cache=True, nogil=True, fastmath={"contract", "reassoc", "nsz", "arcp"})(_upper_bounds)
    return _compiled


def _upper_bounds(
    found: NDArray, offsets: NDArray, norms: NDArray, reach: NDArray, slack: NDArray, constants: NDArray, out: NDArray
) -> None:
    """out[i, k] = constants[k] - max(0, norm(found[i, :, k] - offsets[:, k]) - rounding)^2 / 2."""
    width, classes = offsets.shape
    for i in range(len(out)):
        row = out[i]
        row[:] = np.float32(0.0)
        for m in range(width):
            start = m * classes
            for k in range(classes):
                difference = found[i, start + k] - offsets[m, k]
                row[k] += difference * difference
        for k in range(classes):
            least = np.sqrt(row[k]) - slack[k] * (norms[i] + np.float32(reach[k]))
            if least < 0:
                least = np.float32(0.0)
            row[k] = np.float32(constants[k]) - np.float32(0.5) * least * least
