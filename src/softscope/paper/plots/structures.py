"""fig_counterfact_structs and fig_weird_structures_pca: last layers in five structures, and what they lead to."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ...estimators.softmax import entropy
from ...geometry import Plane
from ...head import Head
from ...reporting.style import (
    CLASS_COLOURS,
    CLASS_MARKERS,
    CONFIDENCE_MAP,
    FAINT,
    INK,
    PAGE,
    TRAIN,
    new_figure,
    style,
)
from .plane import Cloud, confidence_bar, map_final_layer

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_GRID = 160
_DRAWN_NORM = 7.0  # of the largest weight where a structure is drawn, so that every band has a visible width
Value = tuple[float, float | None]


@dataclass(frozen=True)
class Outcome:
    """One structure: `shape`, a head to draw; `words` below it; AUROCs as (percent, standard error) by name."""

    title: str
    shape: Head
    words: str
    auroc: dict[str, Value]


def structure_figure(outcomes: Sequence[Outcome]) -> "Figure":
    """The structures side by side, confidence and weights in the plane of the weights; below, the AUROCs of each."""
    with style():
        figure = new_figure(PAGE, 4.3)
        grid = figure.add_gridspec(2, len(outcomes), height_ratios=(1.0, 1.25))
        for column, outcome in enumerate(outcomes):
            axes = figure.add_subplot(grid[0, column])
            _draw_shape(axes, outcome.shape)
            axes.set_title(f"{column + 1}) {outcome.title}")
            axes.set_xlabel(outcome.words, fontsize=7)
        below = figure.add_subplot(grid[1, :])
        _draw_aurocs(below, outcomes)
        figure.legend(*below.get_legend_handles_labels(), loc="outside lower center", ncols=4)
    return figure


def structure_planes(
    networks: Mapping[str, tuple[Head, NDArray, NDArray, NDArray]], threshold: bool = False
) -> "Figure":
    """The final layer of each network on its first two principal components: (head, z of test, labels, z of OOD)."""
    with style():
        rows = -(-(len(networks) + 1) // 3)
        figure = new_figure(PAGE, 0.2 + 2.35 * rows)
        every = figure.subplots(rows, 3).ravel()
        picture: Any = None
        for number, (axes, (title, (head, test, labels, ood))) in enumerate(zip(every, networks.items())):
            clouds = [Cloud(test, labels), Cloud(ood)]
            picture = map_final_layer(axes, head, Plane.principal(test, ood), clouds, None)
            picture.set_clim(0.0, np.log(head.n_classes))
            axes.set(title=f"{number + 1}) {title}", xlabel="", ylabel="")
        known = {f"train, class {k}": f"test, class {head.class_name(k)}" for k in range(head.n_classes)}
        handles, texts = every[0].get_legend_handles_labels()
        legend = every[len(networks)]
        legend.legend(handles, [known.get(text, text) for text in texts], loc="center left", fontsize=8)
        for axes in every[len(networks) :]:
            axes.axis("off")
        confidence_bar(figure, picture, list(every), head.n_classes)
    return figure


def scale_figure(
    lines: Mapping[str, Sequence[Mapping[str, float]]], chosen: float, learned: Mapping[str, float]
) -> "Figure":
    """Accuracy, cross-entropy and AUROC of each structure against the norm of its frozen weights.

    `lines` has the rows of each structure (`norm`, `accuracy`, `cross_entropy`, `entropy`), `learned` the same of the
    trainable layer, drawn as a line across; `chosen` is the norm of the main experiment.
    """
    panels = {"accuracy": "accuracy, %", "cross_entropy": "cross-entropy", "entropy": "AUROC of U_entropy, %"}
    with style():
        figure = new_figure(PAGE, 2.7)
        for axes, (what, label) in zip(figure.subplots(1, 3), panels.items()):
            axes.axhline(learned[what], color=FAINT, linewidth=1.0, linestyle="dashed", label="trainable")
            axes.axvline(chosen, color="#DDDDDD", linewidth=5, zorder=0)
            for (name, rows), colour, marker in zip(lines.items(), CLASS_COLOURS, CLASS_MARKERS):
                norms, values = [row["norm"] for row in rows], [row[what] for row in rows]
                axes.plot(norms, values, color=colour, marker=marker, markersize=4, label=name)
            axes.set(xscale="log", xlabel="norm of the frozen weights", title=label)
            axes.set_xticks(norms, [f"{norm:g}" for norm in norms])
            axes.minorticks_off()
        handles, names = axes.get_legend_handles_labels()
        figure.legend(handles, names, loc="outside lower center", ncols=len(names))
    return figure


def loss_figure(
    networks: Mapping[str, Sequence[Mapping[str, float]]],
    aligned: Sequence[Mapping[str, float]],
    paper: Mapping[str, Any],
) -> "Figure":
    """AUROC against cross-entropy of every network, by structure; `aligned` ones hollow, the paper's as stars.

    Rows have `cross_entropy` and `entropy`; `paper` has (cross-entropy, AUROC, its standard error) of each structure.
    """
    with style():
        figure = new_figure(PAGE, 3.4)
        axes = figure.subplots()
        for (name, rows), colour, marker in zip(networks.items(), CLASS_COLOURS, CLASS_MARKERS):
            places = [row["cross_entropy"] for row in rows], [row["entropy"] for row in rows]
            axes.plot(*places, linestyle="none", color=colour, marker=marker, markersize=5, label=name)
            loss, area, error = paper[name]
            axes.errorbar(loss, area, error, fmt="*", color=colour, markersize=13, mec=INK, mew=0.8, ecolor=INK)
        hollow = [row["cross_entropy"] for row in aligned], [row["entropy"] for row in aligned]
        axes.plot(*hollow, "P", mfc="white", mec=INK, markersize=6, label="sandwich, aligned")
        axes.plot([], [], "*", mfc="white", mec=INK, markersize=11, label="the paper")
        axes.grid()
        axes.set(xscale="log", xlabel="cross-entropy on test data", ylabel="AUROC of U_entropy, %")
        figure.legend(loc="outside lower center", ncols=4)
    return figure


def flattened(head: Head) -> Head:
    """`head` on the plane of its centred weights: for three classes the same softmax, with two features."""
    centred = head.weight.astype(np.float64) - head.weight.mean(axis=0, dtype=np.float64)
    left, size, _ = np.linalg.svd(centred, full_matrices=False)
    coordinates = (left * size)[:, :2]
    if coordinates.shape[1] < 2:
        coordinates = np.column_stack([coordinates, np.zeros(len(coordinates))])
    return Head(coordinates, head.bias, head.classes, name=head.name)


def _draw_shape(axes: "Axes", shape: Head) -> None:
    largest = float(shape.weight_norms.max())
    steps = np.linspace(-1.2, 1.2, _GRID)
    grid = np.stack(np.meshgrid(steps, steps), axis=-1).reshape(-1, 2)
    drawn = Head(shape.weight * (_DRAWN_NORM / largest), shape.bias * (_DRAWN_NORM / largest))
    values = entropy(drawn.logits(grid)).reshape(_GRID, _GRID)
    window = (-1.2, 1.2, -1.2, 1.2)
    axes.imshow(values, extent=window, origin="lower", cmap=f"{CONFIDENCE_MAP}_r", vmin=0, vmax=np.log(3), alpha=0.9)
    for k, weight in enumerate(shape.weight / largest):
        colour = CLASS_COLOURS[k % len(CLASS_COLOURS)]
        if np.linalg.norm(weight) > 1e-6:
            look = {"arrowstyle": "-|>", "color": colour, "linewidth": 2.0, "shrinkA": 0, "shrinkB": 0}
            axes.annotate("", weight, (0, 0), arrowprops=look)
        axes.plot(*weight, CLASS_MARKERS[k % len(CLASS_MARKERS)], color=colour, markersize=5, mec="white", mew=0.5)
    axes.set(xticks=[], yticks=[], xlim=(-1.2, 1.2), ylim=(-1.2, 1.2))


def _draw_aurocs(axes: "Axes", outcomes: Sequence[Outcome]) -> None:
    looks = {"the paper": ("*", INK), "U_entropy": ("o", TRAIN), "U_density": ("D", "#009E73"), "kNN": ("s", "#CC79A7")}
    for offset, (name, (marker, colour)) in zip((-0.27, -0.09, 0.09, 0.27), looks.items()):
        places = np.arange(len(outcomes)) + offset
        values = [outcome.auroc[name][0] for outcome in outcomes]
        errors = [outcome.auroc[name][1] or 0.0 for outcome in outcomes]
        axes.errorbar(places, values, errors, fmt=marker, color=colour, capsize=2, linewidth=1.0, label=name, zorder=3)
    axes.set_xticks(range(len(outcomes)), [outcome.title for outcome in outcomes])
    axes.set(ylabel="AUROC, %", xlim=(-0.5, len(outcomes) - 0.5))
    axes.set_ylim(max(0.0, axes.get_ylim()[0]), 101)
    axes.grid(axis="y")
