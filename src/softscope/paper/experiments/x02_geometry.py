"""X2: the geometry pictures of the paper (K = 2 and 3, H = 2, epsilon = 0.05) and of the evidence for its claims.

Nothing is trained. The rows are the few numbers that the paper's pictures and proofs state; `softscope claims` checks
every claim behind them.
"""

from dataclasses import dataclass
from time import perf_counter

import numpy as np

from ...engine import Engine
from ...geometry import sandwich
from ...runs import Store
from ..claims.optimum import descend
from ..claims.order import discordance, slope_in_plane
from ..claims.volume import compare, optimal_weights
from . import texts
from .base import Result, Settings
from .verdict import Mean, Row, rows_of


@dataclass(frozen=True, kw_only=True)
class GeometrySettings(Settings):
    """`pairs` of points for discordance, `structures` at random for volumes."""

    pairs: int = 200_000
    structures: int = 1000


SCALES = {
    "smoke": GeometrySettings(pairs=10_000, structures=100),
    "laptop": GeometrySettings(),
    "paper": GeometrySettings(),
}


def run(settings: GeometrySettings, store: Store, engine: Engine) -> Result:
    """Draw every picture, as PNG and as SVG (named with -vector)."""
    from ...reporting.style import to_svg
    from ..plots.geometry import PICTURES, draw

    start = perf_counter()
    drawn = {name: draw(name) for name in PICTURES}
    vectors = {f"{name}-vector": to_svg(figure) for name, figure in drawn.items()}
    return Result(
        rows=_rows(settings),
        figures={**drawn, **vectors},
        **texts("X2"),
        seconds=perf_counter() - start,
    )


def _rows(settings: GeometrySettings) -> list[Row]:
    rng = np.random.default_rng(settings.seed)
    rows = rows_of("X2", {"cosine": _cosine_after_descent(rng)})
    for classes, features in ((2, 2), (3, 2), (3, 3), (3, 16)):
        # T15: the paper says that a lower max cos always means a higher U_max for K = 2 and 3. One pair is a
        # counterexample: no chance is involved in that.
        share = Mean.exact(100 * discordance(classes, features, 5.0, settings.pairs, rng))
        rows += rows_of("X2", {"discordance": share}, classes=classes, features=features)
    exact = {"slope": _smallest_slope(), "confidence": _confidence(), "volume": _volume(settings, rng)}
    return rows + rows_of("X2", {name: Mean.exact(value) for name, value in exact.items()})


def _cosine_after_descent(rng: np.random.Generator) -> Mean:
    weights = descend(3, 4, starts=5, rng=rng).weight
    units = weights / np.linalg.norm(weights, axis=2, keepdims=True)
    return Mean.of([float((unit @ unit.T)[np.triu_indices(3, 1)].mean()) for unit in units], "random starts")


def _smallest_slope() -> float:
    theta = np.linspace(0.01, np.pi / 3 - 1e-3, 500)
    return min(float(slope_in_plane(theta, c).min()) for c in (0.5, 1.0, 2.0, 5.0, 10.0))


def _confidence() -> float:
    logits = np.asarray(sandwich(3, 2).logits(np.array([[0.9, -0.44]])))[0]
    return float(np.exp(logits.max() - np.logaddexp.reduce(logits)))


def _volume(settings: GeometrySettings, rng: np.random.Generator) -> float:
    """T17 for the sizes of fig_optimal: the largest share of any random structure over the optimal one's."""
    regions = compare(3, 2, 3.0, settings.structures, rng, optimal_weights)
    return float((regions.random.max(axis=0) / regions.optimal).max())
