"""Pieces that the geometry pictures share: regions, decision boundaries, arrows and ellipses on the plane."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ....arrays import Floats
from ....geometry import KnownMixture, Region
from ....head import Head
from ....reporting.style import CLASS_COLOURS, INK

if TYPE_CHECKING:
    from matplotlib.axes import Axes

REGION = "#E69F00"  # Okabe and Ito's orange: no class of three uses it
_STEPS = 480


def square(axes: "Axes", reach: float, title: str = "") -> None:
    """A bare square of the plane, -reach to reach both ways."""
    axes.set(xlim=(-reach, reach), ylim=(-reach, reach), xticks=[], yticks=[], title=title)
    axes.set_aspect("equal")
    for spine in axes.spines.values():
        spine.set_visible(True)


def grid(reach: float, steps: int = _STEPS) -> tuple[Floats, Floats, Floats]:
    """x, y and the points of an even grid of the plane, [steps * steps, 2]."""
    line = np.linspace(-reach, reach, steps)
    x, y = np.meshgrid(line, line)
    return x, y, np.column_stack([x.ravel(), y.ravel()])


def fill(axes: "Axes", contains: Callable[[Floats], NDArray[np.bool_]], reach: float) -> None:
    """Orange where `contains` says so."""
    x, y, points = grid(reach)
    inside = contains(points).reshape(x.shape).astype(float)
    axes.contourf(x, y, inside, levels=[0.5, 1.5], colors=[REGION], alpha=0.35)


def fill_region(axes: "Axes", region: Region, reach: float) -> None:
    """The region in orange, with its edge."""
    fill(axes, region.contains, reach)
    outline(axes, region, reach, colors=[REGION], linewidths=0.9)


def outline(axes: "Axes", region: Region, reach: float, **look: Any) -> None:
    """The edge of the region, from its uncertainty, so that it is smooth."""
    x, y, points = grid(reach)
    height = (region.uncertainty(points) - region.threshold).reshape(x.shape)
    axes.contour(x, y, height, levels=[0.0], **look)


def boundaries(axes: "Axes", head: Head, reach: float) -> None:
    """Decision boundaries: thin lines where the leading class changes."""
    x, y, points = grid(reach)
    logits = np.asarray(head.logits(points))
    for i in range(head.n_classes):
        lead = (logits[:, i] - np.delete(logits, i, axis=1).max(axis=1)).reshape(x.shape)
        axes.contour(x, y, lead, levels=[0.0], colors=[INK], linewidths=0.6)


def arrow(axes: "Axes", start: Any, end: Any, *, color: str = INK, width: float = 1.3, both: bool = False) -> None:
    """An arrow from start to end."""
    look = {"arrowstyle": "<|-|>" if both else "-|>", "color": color, "lw": width, "shrinkA": 0, "shrinkB": 0}
    axes.annotate("", xy=tuple(end), xytext=tuple(start), arrowprops=look)


def weights(axes: "Axes", head: Head, length: float = 1.0) -> None:
    """The weight vectors as arrows in their class's colour, with names at their tips."""
    room = 0.07 * (axes.get_xlim()[1] - axes.get_xlim()[0])
    for i, w in enumerate(np.asarray(head.weight, np.float64)):
        arrow(axes, (0, 0), length * w, color=CLASS_COLOURS[i])
        beyond = length * w + room * w / float(np.linalg.norm(w))
        note(axes, f"$w_{i + 1}$", (float(beyond[0]), float(beyond[1])), color=CLASS_COLOURS[i])


def ellipses(axes: "Axes", mixture: KnownMixture, share: float = 0.95, *, names: bool = False) -> None:
    """The ellipse that holds `share` of each component, its mean, and its class."""
    from matplotlib.patches import Ellipse
    from scipy.stats import chi2

    scale = float(np.sqrt(chi2.ppf(share, 2)))
    for i, (mean, covariance) in enumerate(zip(mixture.means, mixture.covariances)):
        values, vectors = np.linalg.eigh(covariance)
        width, height = 2 * scale * np.sqrt(values)
        angle = float(np.degrees(np.arctan2(vectors[1, 0], vectors[0, 0])))
        colour = CLASS_COLOURS[i]
        axes.add_patch(Ellipse(tuple(mean), width, height, angle=angle, fill=False, ec=colour, lw=1.4))
        axes.plot(*mean, "o", color=colour, ms=3)
        if names:
            note(axes, f"class {i + 1}", (float(mean[0]), float(mean[1]) + 0.55), color=colour)


def note(axes: "Axes", text: str, xy: tuple[float, float], *, color: str = INK, **look: Any) -> None:
    """Words on the picture, on a white ground so that lines under them do not hurt."""
    ground = {"boxstyle": "round,pad=0.15", "fc": "white", "ec": "none", "alpha": 0.75}
    axes.text(*xy, text, color=color, fontsize=7, bbox=ground, **({"ha": "center", "va": "center"} | look))


def faint_points(axes: "Axes", z: NDArray, labels: NDArray) -> None:
    """Training points, small and faint, in their class's colour."""
    for i in np.unique(labels):
        axes.plot(*z[labels == i].T, ".", color=CLASS_COLOURS[int(i)], ms=1.4, alpha=0.5, rasterized=True)
