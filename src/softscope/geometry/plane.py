"""`Plane`: a two-dimensional plane through the final layer, to look at it (X1)."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..arrays import Floats


@dataclass(frozen=True)
class Plane:
    """The plane origin + a u + b v, with u and v orthonormal (v = 0 where features have a single column)."""

    origin: Floats
    axes: Floats  # [2, H]

    @classmethod
    def principal(cls, *features: NDArray) -> "Plane":
        """First two principal components of all `features` together; the largest entry of each is positive."""
        z = np.concatenate([block.astype(np.float64) for block in features])
        origin = z.mean(axis=0)
        axes = np.zeros((2, z.shape[1]))
        largest = _principal(z - origin)
        signs = np.sign(largest[np.arange(len(largest)), np.abs(largest).argmax(axis=1)])
        axes[: len(largest)] = largest * np.where(signs == 0, 1.0, signs)[:, None]
        return cls(origin, axes)

    def project(self, z: NDArray) -> Floats:
        """Coordinates (a, b) of each row's nearest point in the plane."""
        coordinates: Floats = (z.astype(np.float64) - self.origin) @ self.axes.T
        return coordinates

    def lift(self, coordinates: Floats) -> Floats:
        """The points of the feature space at these coordinates."""
        return self.origin + coordinates @ self.axes


def _principal(centred: Floats) -> Floats:
    """The (at most) two directions of largest variance, largest first."""
    if len(centred) < centred.shape[1]:
        return np.asarray(np.linalg.svd(centred, full_matrices=False)[2][:2])
    scale = np.abs(centred).max() or 1.0  # squares neither overflow nor vanish
    return np.asarray(np.linalg.eigh((centred / scale).T @ (centred / scale))[1][:, :-3:-1].T)
