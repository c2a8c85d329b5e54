"""Uncertainties that read the geometry of z against the rows of W: E5 mental model, E6 norm, E7 familiarity."""

import numpy as np
from numpy.typing import NDArray

from ..arrays import Floats
from .base import Estimator, Info, register


def mental_log_odds(norms: Floats, familiarities: Floats, classes: int) -> Floats:
    """E5, rank form: log((1 + U) / -U) = log(K-1) - norm(z) (1/(K-1) + max_i cos(w_i, z)), which can't saturate."""
    return np.asarray(np.log(classes - 1) - norms * (1.0 / (classes - 1) + familiarities))


def plain_mental(norms: NDArray, familiarities: NDArray, classes: int) -> NDArray:
    """E5 as printed, in float32: U_mental = -1 / (1 + (K-1) exp(-norm(z) (1/(K-1) + max_i cos(w_i, z))))."""
    others = np.float32(classes - 1)
    exponent = -norms.astype(np.float32) * (1 / others + familiarities.astype(np.float32))
    with np.errstate(over="ignore"):  # far on the wrong side exp overflows to inf and U is 0, as it should be
        return -1 / (1 + others * np.exp(exponent))


@register
class Mental(Estimator):
    """E5, U_mental: the softmax confidence an optimal structure would give, from norm(z) and max_i cos(w_i, z)."""

    info = Info("E5", "mental", "U_mental", "-1 / (1 + (K-1) exp(-norm(z) (1/(K-1) + max_i cos(w_i, z))))", ("head",))

    def _uncertainty(self, rows: NDArray) -> NDArray:
        return mental_log_odds(self.head_.norms(rows), self._familiarity(rows), self.head_.n_classes)

    def _plain(self, rows: NDArray) -> NDArray:
        return plain_mental(self.head_.norms(rows), self._familiarity(rows), self.head_.n_classes)

    def _familiarity(self, rows: NDArray) -> Floats:
        familiarity: Floats = self.head_.cosines(rows).max(axis=1)
        return familiarity


@register
class Norm(Estimator):
    """E6: minus the norm of z."""

    info = Info("E6", "norm", "U_norm", "-norm(z)", ("head",))

    def _uncertainty(self, rows: NDArray) -> NDArray:
        return -self.head_.norms(rows)


@register
class Familiarity(Estimator):
    """E7: minus the cosine of z to the class weight nearest in direction."""

    info = Info("E7", "familiarity", "U_familiarity", "-max_i cos(w_i, z)", ("head",))

    def _uncertainty(self, rows: NDArray) -> NDArray:
        return np.asarray(-self.head_.cosines(rows).max(axis=1))
