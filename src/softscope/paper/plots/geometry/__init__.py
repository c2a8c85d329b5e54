"""The geometry pictures of the paper (X2) and of the claims' evidence, by name: `draw("fig_vecfield")`.

Each picture is a function without arguments that returns a `Figure`; captions stand with X2 in `experiments.toml`.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from ....errors import SoftscopeError
from ....reporting.style import style
from . import diagrams, regions

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PICTURES: "dict[str, Callable[[], Figure]]" = {
    "fig_valid_ood_region": regions.valid_regions,
    "fig_optimal": regions.optimal_and_general,
    "fig_vecfield": regions.vector_fields,
    "fig_geom_linearapprox": diagrams.linear_approximation,
    "fig_vector_geom": diagrams.vector_geometry,
    "fig_derviative_k3": diagrams.derivative,
    "fig_costheta_diag_w2": diagrams.budget,
    "evidence_T12": diagrams.optimum,
    "evidence_T15": diagrams.order_small,
    "evidence_T16": diagrams.order_large,
    "evidence_T17": diagrams.volumes,
    "evidence_T21": diagrams.extrapolation,
}


def draw(name: str) -> "Figure":
    """The picture called `name`, in the project's style."""
    if name not in PICTURES:
        raise SoftscopeError(f"no picture is called {name!r}", f"Known: {', '.join(PICTURES)}")
    with style():
        return PICTURES[name]()
