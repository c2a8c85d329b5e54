"""Consensus: complementary scores, each turned into a conformal p-value, combined by Fisher's rule.

A distance between directions (does training have rows that point this way? the paper's extrapolation), the energy (are
the logits as large as those of training rows? saturation) and the residual (what does the head not read?) fail on
different inputs. Under the null hypothesis each p-value is uniform, so that their logarithms are on one scale whatever
the units of the scores, and -sum log p is large where some of them are clearly small. docs/consensus.md has the trial.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ..arrays import Floats
from ..errors import SoftscopeError
from ..features import FeatureSet
from ..head import Head
from ..mixture import ClassMoments
from .base import ESTIMATORS, Estimator, Info, register

PARTS = "mahalanobis++, energy, residual"
MOST_CALIBRATION_ROWS = 10_000
# The parts are fitted on so many training rows, held in memory: a covariance of 2,048 features needs no more.
MOST_FIT_ROWS = 200_000
# Below the smallest calibration score -log p falls by so much for each range of the calibration scores.
FALL_BELOW = 1e-3


@register
@dataclass(kw_only=True, eq=False, repr=False)
class Consensus(Estimator):
    """Minus the summed logarithms of the conformal p-values of the `parts`, names of scores with commas between them.

    p = (1 + #{calibration >= s}) / (n + 1); the calibration rows are the share `held_out` of the training rows, 10,000
    at most, drawn by `seed`, which the parts are not fitted on. Between calibration scores log p is interpolated, and
    beyond the largest it goes on falling by 1 for each range of the calibration scores, so that no rows tie. The parts
    are fitted on the other training rows, 200,000 at most, which are held in memory meanwhile. After `fit`: `parts_` by
    name, and `levels_`, the calibration scores of each with their -log p.
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

    parts: str = PARTS
    held_out: float = 0.2
    seed: int = 0
    parts_: dict[str, Estimator] = field(init=False)
    levels_: dict[str, tuple[Floats, Floats]] = field(init=False)

    def _check(self, head: Head) -> None:
        known = [name for name in ESTIMATORS if name != self.info.name]
        if not set(self._names()) <= set(known):
            raise SoftscopeError(f"consensus: parts are {self.parts!r}", f"Give names among {', '.join(known)}")
        if not 0 < self.held_out < 1:
            raise SoftscopeError(f"consensus: held_out is {self.held_out}", "Give a share between 0 and 1")

    def _fit(self, head: Head, train: FeatureSet, moments: ClassMoments | None) -> None:
        rows = min(MOST_CALIBRATION_ROWS, round(self.held_out * len(train)))
        if not 0 < rows < len(train):
            raise SoftscopeError(f"consensus: {len(train)} training rows", "Give at least 5")
        order = np.random.default_rng(self.seed).permutation(len(train))
        calibration, fit = train.rows(np.sort(order[:rows])), train.take(np.sort(order[rows : rows + MOST_FIT_ROWS]))
        self.parts_ = {name: part.fit(head, fit) for name, part in self._unfitted().items()}
        self.levels_ = {name: surprise_levels(part.uncertainty(calibration)) for name, part in self.parts_.items()}

    def _uncertainty(self, rows: NDArray) -> NDArray:
        return np.asarray(self.surprises(rows).sum(axis=0))

    def surprises(self, rows: NDArray) -> Floats:
        """-log p of each part, [parts, N]."""
        return np.stack([surprise(part.uncertainty(rows), *self.levels_[name]) for name, part in self.parts_.items()])

    def state(self) -> dict[str, NDArray]:
        fitted = {f"{name}.{key}": array for name, part in self.parts_.items() for key, array in part.state().items()}
        return fitted | {f"{name}.levels": np.stack(levels) for name, levels in self.levels_.items()}

    def _restore(self, state: Mapping[str, NDArray]) -> None:
        self.parts_ = self._unfitted()
        self.levels_ = {name: (state[f"{name}.levels"][0], state[f"{name}.levels"][1]) for name in self.parts_}
        for name, part in self.parts_.items():
            own = {key.removeprefix(f"{name}."): array for key, array in state.items() if key.startswith(f"{name}.")}
            part.restore(self.head_, own)

    def _unfitted(self) -> dict[str, Estimator]:
        return {name: ESTIMATORS[name]() for name in self._names()}

    def _names(self) -> list[str]:
        return [name.strip() for name in self.parts.split(",")]


def surprise_levels(calibration: Floats) -> tuple[Floats, Floats]:
    """The different calibration scores, ascending, and -log p at each."""
    levels, first = np.unique(np.sort(calibration), return_index=True)
    n = len(calibration)
    return levels, np.log(n + 1.0) - np.log(n + 1.0 - first)


def surprise(scores: Floats, levels: Floats, logs: Floats) -> Floats:
    """-log p of each score by the `levels` and their -log p: interpolated between them, unbounded beyond."""
    unit = level_range(levels)
    above, below = np.maximum(scores - levels[-1], 0.0), np.maximum(levels[0] - scores, 0.0)
    return np.asarray(np.interp(scores, levels, logs) + (above - FALL_BELOW * below) / unit)


def level_range(levels: Floats) -> float:
    """Largest less smallest level; where they are one, its size, or 1."""
    return float(levels[-1] - levels[0]) or max(abs(float(levels[0])), 1.0)
