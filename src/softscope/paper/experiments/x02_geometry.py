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
from .verdict import Mean, Row, Statement, printed


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
    return [
        Row("cos(w_i, w_j) after descent, K = 3 (T12)", _cosine_after_descent(rng), printed("X2.cosine"), digits=3),
        *_discordance_rows(settings, rng),
        _slope_row(),
        _confidence_row(),
        _volume_row(settings, rng),
    ]


def _cosine_after_descent(rng: np.random.Generator) -> Mean:
    weights = descend(3, 4, starts=5, rng=rng).weight
    units = weights / np.linalg.norm(weights, axis=2, keepdims=True)
    return Mean.of([float((unit @ unit.T)[np.triu_indices(3, 1)].mean()) for unit in units], "random starts")


def _discordance_rows(settings: GeometrySettings, rng: np.random.Generator) -> list[Row]:
    """T15: the paper says that a lower max cos always means a higher U_max for K = 2 and 3."""
    rows = []
    for classes, features in ((2, 2), (3, 2), (3, 3), (3, 16)):
        share = 100 * discordance(classes, features, 5.0, settings.pairs, rng)
        label = f"pairs ordered against max cos, K = {classes}, H = {features}, norm 5 (T15)"
        # One pair is a counterexample: no chance is involved in that.
        rows.append(Row(label, Mean.exact(share), Statement("none", most=0), "%"))
    return rows


def _slope_row() -> Row:
    theta = np.linspace(0.01, np.pi / 3 - 1e-3, 500)
    least = min(float(slope_in_plane(theta, c).min()) for c in (0.5, 1.0, 2.0, 5.0, 10.0))
    return Row("smallest ds_max/dcos in fig_derviative_k3", Mean.exact(least), Statement("negative", most=0), digits=5)


def _confidence_row() -> Row:
    logits = np.asarray(sandwich(3, 2).logits(np.array([[0.9, -0.44]])))[0]
    confidence = float(np.exp(logits.max() - np.logaddexp.reduce(logits)))
    label = "s_max at (0.9, -0.44), sandwich structure (T18)"
    return Row(label, Mean.exact(confidence), printed("X2.confidence"), digits=2)


def _volume_row(settings: GeometrySettings, rng: np.random.Generator) -> Row:
    """T17 for the sizes of fig_optimal: the largest share of any random structure over the optimal one's."""
    regions = compare(3, 2, 3.0, settings.structures, rng, optimal_weights)
    ratio = float((regions.random.max(axis=0) / regions.optimal).max())
    label = "largest linear region of random structures over the optimal one's, K = 3, H = 2 (T17)"
    return Row(label, Mean.exact(ratio), Statement("below 1", most=1), digits=3)
