"""Softmax confidence over a plane: a 2-D input space, or the first two principal components of the final layer."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ...arrays import Floats
from ...estimators.softmax import entropy
from ...geometry import Plane
from ...head import Head
from ...reporting.style import CONFIDENCE_MAP, INK, OOD, PAGE, class_look, new_figure, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_GRID = 220


@dataclass(frozen=True)
class Cloud:
    """Points to draw: their 2-D position, and labels where they have classes (None: out-of-distribution)."""

    points: NDArray
    labels: NDArray | None = None


def input_and_plane(
    logits: Callable[[Floats], NDArray],
    head: Head,
    inputs: tuple[NDArray, NDArray, NDArray],
    features: tuple[NDArray, NDArray],
    threshold: float,
    remark: str = "",
) -> "Figure":
    """fig_2d a: U_entropy over the 2-D input space and over the final layer's principal plane.

    `logits` maps inputs to logits; `inputs` are training points, their labels and OOD points; `features` are the z of
    training and OOD points; `threshold` is the uncertainty that 5 % of training points exceed, drawn as a line;
    `remark` stands above the picture.
    """
    train, labels, ood = inputs
    plane = Plane.principal(*features)
    with style():
        figure = new_figure(PAGE, 3.7)
        figure.suptitle(remark, fontsize=8)
        left, right = figure.subplots(1, 2)
        map_uncertainty(left, lambda xy: entropy(logits(xy)), [Cloud(train, labels), Cloud(ood)], threshold)
        left.set(title="Input space", xlabel="x₁", ylabel="x₂")
        picture = map_final_layer(right, head, plane, [Cloud(features[0], labels), Cloud(features[1])], threshold)
        right.set(title="Final layer")
        confidence_bar(figure, picture, [left, right], head.n_classes)
        handles, names = left.get_legend_handles_labels()
        figure.legend(handles, names, loc="outside lower center", ncols=len(names), handletextpad=0.3)
    return figure


def map_final_layer(axes: "Axes", head: Head, plane: Plane, clouds: list[Cloud], threshold: float | None) -> Any:
    """U_entropy of the head over `plane`, with the final-layer features of `clouds` projected onto it."""
    flat = [Cloud(plane.project(cloud.points), cloud.labels) for cloud in clouds]
    picture = map_uncertainty(axes, lambda xy: entropy(head.logits(plane.lift(xy))), flat, threshold)
    axes.set(xlabel="first principal component", ylabel="second principal component")
    return picture


def map_uncertainty(
    axes: "Axes", uncertainty: Callable[[Floats], NDArray], clouds: list[Cloud], threshold: float | None
) -> Any:
    """An uncertainty over the window that holds all `clouds`, the points on top, and the line U = `threshold`."""
    window = _window(np.concatenate([cloud.points for cloud in clouds]))
    xs, ys = (np.linspace(low, high, _GRID) for low, high in window)
    grid = np.stack(np.meshgrid(xs, ys), axis=-1)
    values = uncertainty(grid.reshape(-1, 2)).reshape(_GRID, _GRID)
    extent = (*window[0], *window[1])
    # Reversed, so that bright is confident.
    picture = axes.imshow(
        values,
        extent=extent,
        origin="lower",
        cmap=f"{CONFIDENCE_MAP}_r",
        vmin=0.0,
        aspect="equal",
        interpolation="bilinear",
    )
    if threshold is not None and values.min() < threshold < values.max():
        axes.contour(xs, ys, values, levels=[threshold], colors=INK, linewidths=1.0, linestyles="dashed")
        axes.plot([], [], color=INK, linestyle="dashed", linewidth=1.0, label="5 % of training is less confident")
    for cloud in clouds:
        _scatter(axes, cloud)
    axes.set(xlim=window[0], ylim=window[1])
    return picture


def confidence_bar(figure: "Figure", picture: Any, axes: "list[Axes]", classes: int) -> None:
    """One colour bar for `axes`: U_entropy from 0 to log K, said in words at its ends."""
    picture.set_clim(0.0, np.log(classes))
    bar = figure.colorbar(picture, ax=axes, fraction=0.05, pad=0.01)
    bar.set_ticks([0.0, float(np.log(classes))], labels=["0\nconfident", f"log {classes}\nuncertain"])
    bar.set_label("U_entropy", labelpad=-18)
    bar.outline.set_linewidth(0.6)


def _scatter(axes: "Axes", cloud: Cloud) -> None:
    if cloud.labels is None:
        x, y = cloud.points.T
        axes.scatter(x, y, color=OOD, marker="x", s=14, linewidths=1.0, label="OOD")
        return
    edge: dict[str, Any] = {"s": 11, "edgecolors": "white", "linewidths": 0.4}
    for index in np.unique(cloud.labels):
        x, y = cloud.points[cloud.labels == index].T
        axes.scatter(x, y, **edge | class_look(int(index)), label=f"train, class {index}")


def _window(points: NDArray) -> list[tuple[float, float]]:
    """Ranges of both coordinates: equally long, so that angles show as they are, with a margin of 6 %."""
    low, high = points.min(axis=0), points.max(axis=0)
    half = 0.56 * max(float((high - low).max()), 1e-9)
    return [(float(centre) - half, float(centre) + half) for centre in (low + high) / 2]
