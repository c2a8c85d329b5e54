"""fig_valid_ood_region, fig_optimal and fig_vecfield: regions and vector fields on the plane."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ....arrays import Floats
from ....geometry import (
    KnownMixture,
    Region,
    SlabRegion,
    confidence_threshold,
    density_field,
    density_region,
    entropy_field,
    exact_region,
    linear_region,
    max_field,
    optimal_structure,
    slab_offset,
)
from ....head import Head
from ....reporting.style import CLASS_COLOURS, CONFIDENCE_MAP, INK, PAGE, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


EPSILON = 0.05
TWO_CLASSES = (
    Head(np.array([[0.9, 0.35], [-0.9, -0.35]])),
    KnownMixture([0.5, 0.5], [[2.1, 0.9], [-2.0, -0.8]], [[[0.45, -0.25], [-0.25, 0.6]], [[0.35, 0.2], [0.2, 0.75]]]),
)
_W3 = np.array([[1.0, 0.1], [-0.45, 0.9], [-0.55, -0.8]])
THREE_CLASSES = (
    Head(1.3 * _W3),
    KnownMixture(
        np.full(3, 1 / 3), 2.4 * _W3, [[[0.3, 0.1], [0.1, 0.4]], [[0.5, 0.15], [0.15, 0.25]], 0.35 * np.eye(2)]
    ),
)


def valid_regions() -> "Figure":
    """fig_valid_ood_region: the region of each estimator, for two and for three classes."""
    figure = new_figure(PAGE, 2.0)
    panels = figure.subplots(1, 4)
    head2, two = TWO_CLASSES
    head3, three = THREE_CLASSES
    logit_t = confidence_threshold(head3, three, EPSILON)
    regions: list[tuple[str, Head, KnownMixture, Region]] = [
        ("a  $K=2$: $U_{max}$, $U_{entropy}$", head2, two, SlabRegion(head2, slab_offset(head2, two, EPSILON))),
        ("b  $K=2$: $U_{density}$", head2, two, density_region(two, EPSILON)),
        ("c  $K=3$: $U_{max}$, linear", head3, three, linear_region(head3, logit_t)),
        ("d  $K=3$: $U_{density}$", head3, three, density_region(three, EPSILON)),
    ]
    for axes, (title, head, mixture, region) in zip(panels, regions):
        square(axes, 4.4, title)
        fill_region(axes, region, 4.4)
        if title.startswith(("a", "c")):
            boundaries(axes, head, 4.4)
        if title.startswith("c"):
            outline(axes, exact_region(head, logit_t), 4.4, colors=[INK], linewidths=0.8, linestyles="dashed")
        faint_points(axes, *mixture.sample(300, np.random.default_rng(1)))
        ellipses(axes, mixture, names=title.startswith(("a", "c")))
    return figure


def optimal_and_general() -> "Figure":
    """fig_optimal: the optimal structure beside a general one of the same norms."""
    strength, reach = 3.0, 2.2
    angles = np.radians([80.0, 10.0, 215.0])
    general = Head(strength * np.column_stack([np.cos(angles), np.sin(angles)]))
    turned = np.array([[0.0, 1.0], [-1.0, 0.0]])
    optimal = Head(np.asarray(optimal_structure(3, 2, norm=strength).weight) @ turned)
    figure = new_figure(0.62 * PAGE, 2.3)
    for axes, head, title in zip(figure.subplots(1, 2), (optimal, general), ("optimal structure", "general structure")):
        means = np.asarray(head.weight) / strength
        logits = np.asarray(head.logits(means))
        own = np.diagonal(logits) - np.array([np.logaddexp.reduce(np.delete(row, i)) for i, row in enumerate(logits)])
        region = linear_region(head, float(own.min()))
        square(axes, reach, title)
        fill_region(axes, region, reach)
        boundaries(axes, head, reach)
        outline(axes, exact_region(head, float(own.min())), reach, colors=[INK], linewidths=0.8, linestyles="dashed")
        weights(axes, head, 1.0 / strength)
        _, _, points = grid(2.0, 400)
        disc = points[np.linalg.norm(points, axis=1) < 2.0]
        axes.set_xlabel(f"{region.contains(disc).mean():.0%} of the disc of radius $2c_2$")
    return figure


def vector_fields() -> "Figure":
    """fig_vecfield: where each uncertainty rises, for three classes in the plane."""
    head, mixture = THREE_CLASSES
    reach = 4.4
    figure = new_figure(PAGE, 2.55)
    coarse = np.linspace(-0.93 * reach, 0.93 * reach, 15)
    x, y = np.meshgrid(coarse, coarse)
    places = np.column_stack([x.ravel(), y.ravel()])
    fine_x, fine_y, fine = grid(reach, 240)
    density = (mixture.weights, mixture.means, mixture.covariances)
    for axes, title, field in zip(
        figure.subplots(1, 3),
        ("$U_{max}$", "$U_{entropy}$", "$U_{density}$"),
        (max_field(head, places), entropy_field(head, places), density_field(*density, places)),
    ):
        square(axes, reach, title)
        ranks = _ranks(title, head, mixture, fine).reshape(fine_x.shape)
        axes.pcolormesh(fine_x, fine_y, 1 - ranks, cmap=CONFIDENCE_MAP, shading="auto", rasterized=True, alpha=0.75)
        unit = field / np.maximum(np.linalg.norm(field, axis=1, keepdims=True), 1e-300)
        axes.quiver(
            x, y, *unit.T.reshape(2, *x.shape), color="black", scale=19, width=0.006, headwidth=3.6, pivot="mid"
        )
        ellipses(axes, mixture)
    return figure


def _ranks(title: str, head: Head, mixture: KnownMixture, points: Floats) -> Floats:
    """Rank of each point's uncertainty among the points, 0 to 1."""
    from ....estimators.softmax import log_entropy, log_odds

    logits = head.logits(points)
    scores = {"$U_{max}$": log_odds, "$U_{entropy}$": log_entropy}
    values = scores[title](logits) if title in scores else -mixture.log_density(points)
    return np.argsort(np.argsort(values)) / (len(values) - 1.0)


REGION = "#E69F00"  # Okabe and Ito's orange: no class of three uses it
_STEPS = 480


def square(axes: "Axes", reach: float, title: str = "") -> None:
    """A bare square of the plane, -reach to reach both ways."""
    axes.set(xlim=(-reach, reach), ylim=(-reach, reach), xticks=[], yticks=[], title=title)
    axes.set_aspect("equal")
    axes.spines[:].set_visible(True)


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
        note(axes, f"$w_{i + 1}$", beyond, color=CLASS_COLOURS[i])


def ellipses(axes: "Axes", mixture: KnownMixture, *, names: bool = False) -> None:
    """The ellipse that holds 95 % of each component, its mean, and its class."""
    from matplotlib.patches import Ellipse
    from scipy.stats import chi2

    scale = float(np.sqrt(chi2.ppf(0.95, 2)))
    for i, (mean, covariance) in enumerate(zip(mixture.means, mixture.covariances)):
        values, vectors = np.linalg.eigh(covariance)
        width, height = 2 * scale * np.sqrt(values)
        angle = float(np.degrees(np.arctan2(vectors[1, 0], vectors[0, 0])))
        colour = CLASS_COLOURS[i]
        axes.add_patch(Ellipse(tuple(mean), width, height, angle=angle, fill=False, ec=colour, lw=1.4))
        axes.plot(*mean, "o", color=colour, ms=3)
        if names:
            note(axes, f"class {i + 1}", (mean[0], mean[1] + 0.55), color=colour)


def note(axes: "Axes", text: str, xy: Any, *, color: str = INK) -> None:
    """Words on the picture, on a white ground so that lines under them do not hurt."""
    ground = {"boxstyle": "round,pad=0.15", "fc": "white", "ec": "none", "alpha": 0.75}
    axes.text(xy[0], xy[1], text, color=color, fontsize=7, bbox=ground, ha="center", va="center")


def faint_points(axes: "Axes", z: NDArray, labels: NDArray) -> None:
    """Training points, small and faint, in their class's colour."""
    for i in np.unique(labels):
        axes.plot(*z[labels == i].T, ".", color=CLASS_COLOURS[int(i)], ms=1.4, alpha=0.5, rasterized=True)
