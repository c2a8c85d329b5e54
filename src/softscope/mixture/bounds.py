"""Ruling out components without evaluating them: an exact bound from a few whitened coordinates.

Any subset of the whitened coordinates y = L^-1 (z - mu) gives sum_subset y_i^2 <= norm(y)^2. Which coordinates rule
out most, and how many pay for themselves, is weighed on a sample of rows; where nothing would be ruled out, none are
used. The sample decides the speed, never the result.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..arrays import Floats, spans
from .conditioning import Factor

KEEP_NATS = 60.0  # a component this far below the best can't change a float64 sum
SAMPLE = 256
_WIDTHS = (4, 8, 16, 32, 64)
_PIECE = 1024
# Measured: gathering and centring rows costs a fifth of whitening them, and a bound's GEMM twice its share of a
# triangular product.
_GATHER, _GEMM = 1.2, 2.0


class Bounds:
    """The most telling whitened coordinates of each component, as one matrix for one GEMM.

    `width` coordinates a component are used; 0 says that on rows like the sample evaluating every component is
    cheaper.
    """

    def __init__(self, factors: list[Factor], means: Floats, constants: Floats, sample: NDArray) -> None:
        self._classes, features = means.shape
        self._constants = constants.astype(np.float32)
        self._centre = np.asarray(sample, np.float64).mean(axis=0)
        telling, upper, best = self._try(factors, means, constants, sample)
        self.width = self._least_work(upper, best, features)
        if not self.width:
            return
        rows = np.stack([factor.inverse[t[: self.width]] for factor, t in zip(factors, telling)])
        offsets = np.einsum("kmh,kh->mk", rows, means - self._centre)
        # Coordinate-major, so that the kernel's inner loop runs over components.
        self._matrix = np.ascontiguousarray(rows.transpose(1, 0, 2).reshape(-1, features), dtype=np.float32)
        self._offsets = offsets.astype(np.float32)
        # Rounding of the GEMM and of the offset, so that the bound stays a bound in float32.
        unit = 4.0 * np.finfo(np.float32).eps * np.sqrt(features)
        self._slack = (unit * np.sqrt(np.einsum("kmh,kmh->k", rows, rows, dtype=np.float64))).astype(np.float32)
        self._reach = np.linalg.norm(means - self._centre, axis=1).astype(np.float32)

    def upper(self, x: NDArray) -> NDArray[np.float32]:
        """Upper bounds [n, K] of log w_k + log N_k at each row."""
        from .bounds_kernel import upper_bounds

        out = np.empty((len(x), self._classes), np.float32)
        piece = min(_PIECE, len(x))
        product, centred = np.empty((piece, len(self._matrix)), np.float32), np.empty((piece, x.shape[1]), np.float32)
        centre = self._centre.astype(np.float32)
        for span in spans(len(x), _PIECE):
            rows = centred[: span.stop - span.start]
            np.subtract(x[span], centre, out=rows, casting="same_kind")
            norms = np.sqrt(np.einsum("ij,ij->i", rows, rows))
            white = np.matmul(rows, self._matrix.T, out=product[: len(rows)])
            upper_bounds(white, self._offsets, norms, self._reach, self._slack, self._constants, out[span])
        return out

    def _try(self, factors: list[Factor], means: Floats, constants: Floats, sample: NDArray) -> tuple[Any, Any, Any]:
        """Telling coordinates of each component, the bound each width gives on the sample, and the best density."""
        widths = [w for w in _WIDTHS if w <= means.shape[1] // 2]
        telling: list[NDArray] = []
        upper = {w: np.empty((len(sample), self._classes)) for w in widths}
        joint = np.empty((len(sample), self._classes))
        for k, factor in enumerate(factors):
            squares = factor.whiten((sample - means[k]).astype(factor.inverse.dtype)) ** 2
            # Capped, so that a coordinate counts by how many rows it rules out, not by how far.
            telling.append(np.argsort(np.minimum(squares, 2 * KEEP_NATS).mean(axis=0))[::-1][: _WIDTHS[-1]])
            joint[:, k] = constants[k] - 0.5 * squares.sum(axis=1)
            partial = np.cumsum(squares[:, telling[k]], axis=1)
            for w in widths:
                upper[w][:, k] = constants[k] - 0.5 * partial[:, w - 1]
        return telling, upper, joint.max(axis=1)

    def _least_work(self, upper: dict[int, Floats], best: Floats, features: int) -> int:
        work = {0: float(self._classes * features)}
        for width, bound in upper.items():
            left = max(1.0, float((bound > best[:, None] - KEEP_NATS).sum(axis=1).mean()))
            work[width] = _GEMM * self._classes * width + _GATHER * left * features
        return min(work, key=lambda width: work[width])


def spread_sample(rows: Any) -> NDArray:
    """Rows spread evenly over all of them (a FeatureSet or a view of one): what the bounds are weighed on."""
    step, done, blocks = max(1, len(rows) // SAMPLE), 0, []
    for x in rows.chunks():
        blocks.append(np.array(x[-done % step :: step]))
        done += len(x)
    return np.concatenate(blocks)
