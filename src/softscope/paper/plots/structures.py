"""fig_counterfact_structs and fig_weird_structures_pca: last layers in five structures, and what they lead to."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ...estimators.softmax import entropy
from ...geometry import Plane
from ...head import Head
from ...reporting.style import CLASS_COLOURS, CLASS_MARKERS, FAINT, INK, PAGE, TRAIN
from . import drawing
from .plane import Cloud, backdrop, confidence_bar, map_final_layer

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_GRID = 160
_DRAWN_NORM = 7.0  # of the largest weight where a structure is drawn, so that every band has a visible width
BOUNDED = 0.95  # the largest confidence of a class below which it is drawn as bounded
Value = tuple[float, float | None]


@dataclass(frozen=True)
class StructurePanel:
    """One structure: `shape`, a head to draw; `words` below it; AUROCs as (percent, standard error) by name."""

    title: str
    shape: Head
    words: str
    auroc: dict[str, Value]


def structure_figure(outcomes: Sequence[StructurePanel]) -> "Figure":
    """The structures side by side, confidence and weights in the plane of the weights; below, the AUROCs of each."""
    with drawing(PAGE, 4.3) as figure:
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


def structure_planes(networks: Mapping[str, tuple[Head, NDArray, NDArray, NDArray]]) -> "Figure":
    """The final layer of each network on its first two principal components: (head, z of test, labels, z of OOD)."""
    rows = -(-(len(networks) + 1) // 3)
    with drawing(PAGE, 0.2 + 2.35 * rows) as figure:
        every = figure.subplots(rows, 3).ravel()
        picture: Any = None
        for number, (axes, (title, (head, test, labels, ood))) in enumerate(zip(every, networks.items())):
            clouds = [Cloud.test(test, labels, head), Cloud(ood)]
            picture = map_final_layer(axes, head, Plane.principal(test, ood), clouds, None)
            picture.set_clim(0.0, np.log(head.n_classes))
            axes.set(title=f"{number + 1}) {title}", xlabel="", ylabel="")
        every[len(networks)].legend(*every[0].get_legend_handles_labels(), loc="center left", fontsize=8)
        for axes in every[len(networks) :]:
            axes.axis("off")
        confidence_bar(figure, picture, list(every), head.n_classes)
    return figure


def bound_figure(networks: Sequence[Mapping[str, Any]], paper: Mapping[str, tuple[float, float]]) -> "Figure":
    """T29: cross-entropy against its floor, AUROC of U_max against its cap, a marker a network.

    `networks` have `structure`, `caps`, `cross_entropy`, `loss_floor`, `auroc` (with `max`) and `auroc_cap`; those with
    a class of bounded confidence are filled. `paper` has the (cross-entropy, AUROC) of some structures: stars, at the
    mean floor and cap of the networks of that name. A structure's first word gives its colour.
    """
    names = list(dict.fromkeys(_kind(network["structure"], paper) for network in networks))
    with drawing(PAGE, 3.4) as figure:
        loss, area = figure.subplots(1, 2)
        for name, colour, marker in zip(names, CLASS_COLOURS, CLASS_MARKERS):
            own = [network for network in networks if _kind(network["structure"], paper) == name]
            for bounded in (True, False):
                some = [network for network in own if (min(network["caps"]) < BOUNDED) == bounded]
                look = {"color": colour, "mfc": colour if bounded else "white", "linestyle": "none", "marker": marker}
                loss.plot(_column(some, "loss_floor"), _column(some, "cross_entropy"), **look)
                area.plot(_column(some, "auroc_cap"), [network["auroc"]["max"] for network in some], **look)
            loss.plot([], [], linestyle="none", marker=marker, color=colour, label=name)
            same = [network for network in own if network["structure"] == name]
            if name in paper and same:
                star = {"color": colour, "mec": INK, "mew": 0.8, "markersize": 13, "linestyle": "none", "marker": "*"}
                loss.plot(np.mean(_column(same, "loss_floor")), paper[name][0], **star)
                area.plot(np.mean(_column(same, "auroc_cap")), paper[name][1], **star)
        loss.plot([], [], "*", mfc="white", mec=INK, markersize=11, label="the paper")
        loss.set(xlabel="predicted: its floor", ylabel="measured: cross-entropy")
        area.set(xlabel="predicted: its cap, %", ylabel="measured: AUROC of U_max, %")
        for axes in (loss, area):
            axes.axline((0, 0), slope=1, color=FAINT, linewidth=1.0, zorder=0)
            axes.grid()
        area.set(xlim=(45, 102), ylim=(45, 102))
        figure.legend(*loss.get_legend_handles_labels(), loc="outside lower center", ncols=4)
    return figure


def _column(networks: Sequence[Mapping[str, Any]], name: str) -> list[float]:
    return [network[name] for network in networks]


def _kind(structure: str, paper: Mapping[str, Any]) -> str:
    """The colour's group of a structure: that of its first word, 'readings' for those the paper has no name for."""
    name = structure.split(",")[0]
    return name if name in paper else "readings"


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
    drawn = Head(shape.weight * (_DRAWN_NORM / largest), shape.bias * (_DRAWN_NORM / largest))
    window = ((-1.2, 1.2), (-1.2, 1.2))
    backdrop(axes, lambda xy: entropy(drawn.logits(xy)), window, _GRID, vmax=np.log(3), alpha=0.9)
    for k, weight in enumerate(shape.weight / largest):
        colour = CLASS_COLOURS[k % len(CLASS_COLOURS)]
        if np.linalg.norm(weight) > 1e-6:
            look = {"arrowstyle": "-|>", "color": colour, "linewidth": 2.0, "shrinkA": 0, "shrinkB": 0}
            axes.annotate("", weight, (0, 0), arrowprops=look)
        axes.plot(*weight, CLASS_MARKERS[k % len(CLASS_MARKERS)], color=colour, markersize=5, mec="white", mew=0.5)
    axes.set(xticks=[], yticks=[], xlim=window[0], ylim=window[1])


def _draw_aurocs(axes: "Axes", outcomes: Sequence[StructurePanel]) -> None:
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
