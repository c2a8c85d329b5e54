"""The final layer in two dimensions: principal components of training and OOD features, with confidence behind (X1)."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from ..arrays import Floats
from ..estimators.softmax import log_odds
from ..features import FeatureSet
from ..geometry import Plane, square_window
from ..head import Head
from .model import FinalLayerMap
from .sets import confidence

POINTS = 300
GRID = 64
FIT_ROWS = 1000
_DIGITS = 4


def map_layer(head: Head, sets: Mapping[str, FeatureSet], seed: int) -> FinalLayerMap:
    """The plane of training and all OOD rows together, at most FIT_ROWS of each; test is shown on it too."""
    rng = np.random.default_rng([seed, 3])
    samples = {name: features.rows(_drawn(features, FIT_ROWS, rng)) for name, features in sets.items()}
    fitted = [rows for name, rows in samples.items() if name != "test"]
    plane = Plane.principal(*fitted)
    shown = {name: rows[rng.permutation(len(rows))[:POINTS]] for name, rows in samples.items()}
    points = {name: plane.project(rows) for name, rows in shown.items()}
    window = square_window(np.concatenate(list(points.values())))
    x, y = (np.linspace(low, high, GRID) for low, high in window)
    grid = np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)
    behind = confidence(log_odds(head.logits(plane.lift(grid)))).reshape(GRID, GRID)
    logits = {name: head.logits(rows) for name, rows in shown.items()}
    return FinalLayerMap(
        x=_short(x),
        y=_short(y),
        confidence=tuple(tuple(row) for row in np.round(behind, _DIGITS).tolist()),
        explained=_explained(plane, fitted),
        points={name: tuple(_short(point) for point in places) for name, places in points.items()},
        classes={name: tuple(own.argmax(axis=1).tolist()) for name, own in logits.items()},
        sure={name: _short(confidence(log_odds(own))) for name, own in logits.items()},
    )


def _drawn(features: FeatureSet, most: int, rng: np.random.Generator) -> NDArray[np.int64]:
    rows = len(features)
    return np.arange(rows) if rows <= most else np.sort(rng.choice(rows, most, replace=False))


def _explained(plane: Plane, fitted: list[NDArray]) -> tuple[float, ...]:
    z = np.concatenate(fitted).astype(np.float64)
    total = float(z.var(axis=0).sum())
    return tuple((plane.project(z).var(axis=0) / total).tolist()) if total > 0 else (0.0, 0.0)


def _short(values: Floats) -> tuple[float, ...]:
    """To the five digits that a picture shows."""
    return tuple(float(f"{value:.5g}") for value in values)
