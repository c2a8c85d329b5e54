"""Spherical codes: K directions in R^H whose smallest angle is as large as can be found."""

from dataclasses import dataclass

import numpy as np

from ..arrays import Floats
from ..head import Head
from .structures import optimal_structure

_SHARPNESS = (4.0, 16.0, 64.0, 256.0, 1024.0, 4096.0, 16384.0)


@dataclass(frozen=True)
class SphericalCode:
    """`head` with unit weights and no bias, the `largest_cosine` between two; `numerical`: found, not proven best."""

    head: Head
    largest_cosine: float
    numerical: bool
    starts: int


def spherical_code(classes: int, features: int, *, starts: int = 8, seed: int = 0) -> SphericalCode:
    """The arrangement of K unit weights in R^H with the largest smallest angle (the Tammes problem).

    K <= H + 1: the optimal structure, exact. Otherwise found numerically: minimise log sum exp(sharpness * cos) over
    pairs by L-BFGS with growing sharpness, the best of `starts` random starts. A best known code, not a proven one.
    """
    if classes <= features + 1:
        return SphericalCode(optimal_structure(classes, features), -1.0 / (classes - 1), numerical=False, starts=0)
    rng = np.random.default_rng(seed)
    found = [_spread_out(rng.standard_normal((classes, features))) for _ in range(starts)]
    rows = min(found, key=_largest_cosine)
    return SphericalCode(Head(rows, name="spherical code"), _largest_cosine(rows), numerical=True, starts=starts)


def _spread_out(rows: Floats) -> Floats:
    from scipy.optimize import minimize

    shape, pairs = rows.shape, np.triu_indices(len(rows), 1)

    def repulsion(flat: Floats, sharpness: float) -> tuple[float, Floats]:
        free = flat.reshape(shape)
        norms = np.linalg.norm(free, axis=1, keepdims=True)
        unit = free / norms
        cosines = (unit @ unit.T)[pairs]
        top = cosines.max()
        weights = np.exp(sharpness * (cosines - top))
        total = weights.sum()
        pull = np.zeros((shape[0], shape[0]))
        pull[pairs] = weights / total
        slope = (pull + pull.T) @ unit
        slope = (slope - (slope * unit).sum(axis=1, keepdims=True) * unit) / norms
        return float(top + np.log(total) / sharpness), slope.ravel()

    for sharpness in _SHARPNESS:
        rows = minimize(repulsion, rows.ravel(), args=(sharpness,), jac=True, method="L-BFGS-B").x.reshape(shape)
        rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return rows


def _largest_cosine(rows: Floats) -> float:
    cosines = rows @ rows.T
    return float(cosines[np.triu_indices(len(rows), 1)].max())
