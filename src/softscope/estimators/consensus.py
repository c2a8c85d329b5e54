"""Consensus: three complementary scores, each turned into a conformal p-value, combined by Fisher's rule.

A distance between directions (does training have rows that point this way? the paper's extrapolation), the energy (are
the logits as large as those of training rows? saturation) and the residual (what does the head not read?) fail on
different inputs. Under the null hypothesis each p-value is uniform, so that their logarithms are on one scale whatever
the units of the scores, and -sum log p is large where some of them are clearly small. docs/consensus.md has the trial.
"""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from ..arrays import Floats
from ..errors import SoftscopeError
from ..features import FeatureSet
from ..head import Head
from ..mixture import ClassMoments
from .base import Estimator, Info, register
from .distances import MahalanobisPlus
from .logits import Energy
from .subspace import Residual

MOST_CALIBRATION_ROWS = 10_000


@register
class Consensus(Estimator):
    """Minus the summed logarithms of the conformal p-values of `mahalanobis++`, `energy` and `residual`.

    p = (1 + #{calibration >= s}) / (n + 1); the calibration rows are the share `held_out` of the training rows, 10,000
    at most, drawn by `seed`, which the three are not fitted on. Between calibration scores log p is interpolated, and
    beyond the largest it goes on falling by 1 for each range of the calibration scores, so that no rows tie. Training
    rows are held in memory while it is fitted.
    """

    info = Info(
        "R18",
        "consensus",
        "U_consensus",
        "-sum_i log p_i, p_i the conformal p-values of mahalanobis++, energy and residual",
        ("head", "train", "labels"),
        "Fisher 1932; three scores chosen here",
        "training rows are as strange to the network as other rows of their kind, or nearly so",
    )

    def __init__(self, *, held_out: float = 0.2, seed: int = 0) -> None:
        self.held_out = held_out
        self.seed = seed

    def _check(self, head: Head) -> None:
        if not 0 < self.held_out < 1:
            raise SoftscopeError(f"consensus: held_out is {self.held_out}", "Give a share between 0 and 1")

    def _fit(self, head: Head, train: FeatureSet, moments: ClassMoments | None) -> None:
        rows = min(MOST_CALIBRATION_ROWS, round(self.held_out * len(train)))
        if not 0 < rows < len(train):
            raise SoftscopeError(f"consensus: {len(train)} training rows", "Give at least 5")
        order = np.random.default_rng(self.seed).permutation(len(train))
        calibration, fit = train.rows(np.sort(order[:rows])), train.take(np.sort(order[rows:]))
        self._parts = _parts()
        self._levels = {}
        for name, part in self._parts.items():
            part.fit(head, fit)
            self._levels[name] = np.sort(part.uncertainty(calibration))

    def _uncertainty(self, rows: NDArray) -> NDArray:
        scored = [surprise(part.uncertainty(rows), self._levels[name]) for name, part in self._parts.items()]
        return np.asarray(np.sum(scored, axis=0))

    def state(self) -> dict[str, NDArray]:
        fitted = {f"{name}.{key}": array for name, part in self._parts.items() for key, array in part.state().items()}
        return fitted | {f"{name}.calibration": levels for name, levels in self._levels.items()}

    def _restore(self, state: Mapping[str, NDArray]) -> None:
        self._parts = _parts()
        self._levels = {name: state[f"{name}.calibration"] for name in self._parts}
        for name, part in self._parts.items():
            own = {key.removeprefix(f"{name}."): array for key, array in state.items() if key.startswith(f"{name}.")}
            part.restore(self.head_, own)


def surprise(scores: Floats, ascending: Floats) -> Floats:
    """-log p of each score among the `ascending` calibration scores, interpolated between them, unbounded beyond."""
    levels, first = np.unique(ascending, return_index=True)
    n = len(ascending)
    logs = np.log(n + 1.0) - np.log(n + 1.0 - first)
    spread = max(float(levels[-1] - levels[0]), float(np.finfo(np.float64).tiny))
    above = np.maximum(scores - levels[-1], 0.0) / spread
    below = np.maximum(levels[0] - scores, 0.0) / spread / (n + 1.0)
    return np.asarray(np.interp(scores, levels, logs) + above - below)


def _parts() -> dict[str, Estimator]:
    parts: tuple[Estimator, ...] = (MahalanobisPlus(), Energy(), Residual())
    return {part.info.name: part for part in parts}
