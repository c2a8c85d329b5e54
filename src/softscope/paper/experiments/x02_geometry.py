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
from .base import Mean, Reported, Result, Row, Settings, Statement


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
    vectors = {f"{name}-vector": to_svg(figure) for name, (figure, _) in drawn.items()}
    return Result(
        rows=_rows(settings),
        figures={name: figure for name, (figure, _) in drawn.items()} | vectors,
        captions={name: caption for name, (_, caption) in drawn.items()},
        notes=["`softscope claims` checks every claim behind these pictures; docs/theory.md shows them side by side."],
        seconds=perf_counter() - start,
    )


def _rows(settings: GeometrySettings) -> list[Row]:
    rng = np.random.default_rng(settings.seed)
    return [
        Row("cos(w_i, w_j) after descent, K = 3 (T12)", Mean(_cosine_after_descent(rng)), Reported(-0.5), digits=3),
        *_discordance_rows(settings, rng),
        _slope_row(),
        _confidence_row(),
        _volume_row(settings, rng),
    ]


def _cosine_after_descent(rng: np.random.Generator) -> float:
    weight = descend(3, 4, starts=1, rng=rng).weight[0]
    unit = weight / np.linalg.norm(weight, axis=1, keepdims=True)
    return float((unit @ unit.T)[np.triu_indices(3, 1)].mean())


def _discordance_rows(settings: GeometrySettings, rng: np.random.Generator) -> list[Row]:
    """T15: the paper says that a lower max cos always means a higher U_max for K = 2 and 3."""
    rows = []
    for classes, features in ((2, 2), (3, 2), (3, 3), (3, 16)):
        share = 100 * discordance(classes, features, 5.0, settings.pairs, rng)
        label = f"pairs ordered against max cos, K = {classes}, H = {features}, norm 5 (T15)"
        rows.append(Row(label, Mean(share), Statement("none", share == 0.0), "%"))
    return rows


def _slope_row() -> Row:
    theta = np.linspace(0.01, np.pi / 3 - 1e-3, 500)
    least = min(float(slope_in_plane(theta, c).min()) for c in (0.5, 1.0, 2.0, 5.0, 10.0))
    return Row("smallest ds_max/dcos in fig_derviative_k3", Mean(least), Statement("negative", least < 0), digits=5)


def _confidence_row() -> Row:
    logits = np.asarray(sandwich(3, 2).logits(np.array([[0.9, -0.44]])))[0]
    confidence = float(np.exp(logits.max() - np.logaddexp.reduce(logits)))
    return Row(
        "s_max at (0.9, -0.44), sandwich structure (T18)", Mean(confidence), Reported(0.700), digits=3, tolerance=1e-3
    )


def _volume_row(settings: GeometrySettings, rng: np.random.Generator) -> Row:
    """T17 for the sizes of fig_optimal: the largest share of any random structure over the optimal one's."""
    found = compare(3, 2, 3.0, settings.structures, rng, optimal_weights)
    ratio = float((found.random.max(axis=0) / found.optimal).max())
    label = "largest linear region of random structures over the optimal one's, K = 3, H = 2 (T17)"
    return Row(label, Mean(ratio), Statement("below 1", ratio <= 1.0), digits=3)
