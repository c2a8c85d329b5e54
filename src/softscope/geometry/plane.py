"""`Plane`: a two-dimensional plane through the final layer, to look at it (X1), and the window that shows it."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..arrays import Floats
from ..features import FeatureSet

# Numbers up to which all singular vectors are found at once.
_SMALL = 1 << 21


@dataclass(frozen=True)
class Plane:
    """The plane origin + a u + b v, with u and v orthonormal (v = 0 where features have a single column)."""

    origin: Floats
    axes: Floats  # [2, H]

    @classmethod
    def principal(cls, *features: Any) -> "Plane":
        """First two principal components of all `features` together; the largest entry of each is positive.

        Each is whatever `FeatureSet.of` takes.
        """
        z = np.concatenate([FeatureSet.of(own).array() for own in features], dtype=np.float64)
        origin = z.mean(axis=0)
        axes = np.zeros((2, z.shape[1]))
        z -= origin
        largest = _principal(z)
        signs = np.sign(largest[np.arange(len(largest)), np.abs(largest).argmax(axis=1)])
        axes[: len(largest)] = largest * np.where(signs == 0, 1.0, signs)[:, None]
        return cls(origin, axes)

    def project(self, z: Any) -> Floats:
        """Coordinates (a, b) of each row's nearest point in the plane."""
        coordinates: Floats = (FeatureSet.of(z).array().astype(np.float64) - self.origin) @ self.axes.T
        return coordinates

    def lift(self, coordinates: Floats) -> Floats:
        """The points of the feature space at these coordinates."""
        return self.origin + coordinates @ self.axes


def square_window(points: Floats) -> list[tuple[float, float]]:
    """Ranges of both coordinates of points in a plane: equally long, so that angles show as they are, 6 % of margin."""
    low, high = points.min(axis=0), points.max(axis=0)
    half = 0.56 * max(float((high - low).max()), 1e-9)
    return [(float(centre) - half, float(centre) + half) for centre in (low + high) / 2]


def _principal(centred: Floats) -> Floats:
    """The (at most) two directions of largest variance, largest first; `centred` is overwritten."""
    from scipy.linalg import eigh

    rows, columns = centred.shape
    if rows < columns and centred.size <= _SMALL:
        return np.asarray(np.linalg.svd(centred, full_matrices=False)[2][:2])
    centred /= np.abs(centred).max() or 1.0  # squares neither overflow nor vanish
    if rows >= columns:
        return np.asarray(np.linalg.eigh(centred.T @ centred)[1][:, :-3:-1].T)
    # By the products of rows with each other, the fewer: all singular vectors would take ten times as long.
    left = eigh(centred @ centred.T, overwrite_a=True, subset_by_index=(max(rows - 2, 0), rows - 1))[1][:, ::-1]
    right = left.T @ centred
    sizes = np.linalg.norm(right, axis=1)
    return np.asarray(right[sizes > 0] / sizes[sizes > 0][:, None])
