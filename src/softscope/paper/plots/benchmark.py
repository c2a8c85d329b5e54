"""Pictures of a whole benchmark (X9): grids of AUROC, causes by data set, the course of training, histograms."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ...arrays import Floats
from ...head import Head
from ...reporting.style import CONFIDENCE_MAP, FAINT, INK, OOD, PAGE, TRAIN, new_figure, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage

    from ...diagnosis.model import Histogram


_COLUMNS = 3
_LOWEST = 50.0  # what guessing reaches; anything below has its colour


def auroc_grids(names: Sequence[str], grids: Mapping[str, Floats]) -> "Figure":
    """A grid by title: rows are the data sets `names` that were learned, columns those that are OOD, in percent.

    Cells that are nan (a data set against itself) stay empty.
    """
    lines = -(-len(grids) // _COLUMNS)
    with style():
        figure = new_figure(PAGE, 0.6 + 2.7 * lines)
        figure.set_layout_engine("compressed")  # square cells leave room that nothing else would take
        cells = figure.subplots(lines, _COLUMNS, squeeze=False)
        places = cells.ravel()
        for axes, (title, values) in zip(places, grids.items()):
            picture = _grid(axes, names, values)
            axes.set_title(title)
        for number, axes in enumerate(places[: len(grids)]):
            if number % _COLUMNS:
                axes.set_yticklabels([])
            if number + _COLUMNS < len(grids):
                axes.set_xticklabels([])
        for axes in places[len(grids) :]:
            axes.axis("off")
        for axes in cells[:, 0]:
            axes.set_ylabel("learned")
        places[len(grids) - 1].set_xlabel("OOD")
        figure.colorbar(
            picture, ax=cells, label="AUROC, % (OOD positive)", extend="min", shrink=0.6, aspect=30, pad=0.02
        )
    return figure


def _grid(axes: "Axes", names: Sequence[str], values: Floats) -> "AxesImage":
    picture = axes.imshow(np.ma.masked_invalid(values), cmap=CONFIDENCE_MAP, vmin=_LOWEST, vmax=100.0)
    for (row, column), value in np.ndenumerate(values):
        if np.isfinite(value):
            ink = "white" if value < (_LOWEST + 100.0) / 2 else INK
            axes.text(column, row, f"{value:.1f}", ha="center", va="center", color=ink, fontsize=6.5)
    axes.set_xticks(range(len(names)), names, rotation=40, ha="right", rotation_mode="anchor")
    axes.set_yticks(range(len(names)), names)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    return picture


@dataclass(frozen=True)
class CauseLine:
    """One data set: each panel's value over runs, and the paper's, where it gives one."""

    ours: Mapping[str, Sequence[float]]
    paper: Mapping[str, float]


def causes_beside(panels: Mapping[str, str], lines: Mapping[str, CauseLine]) -> "Figure":
    """One panel a cause (key -> title), one line a data set: dots are single runs, bars their mean, rings the paper."""
    with style():
        figure = new_figure(PAGE, 0.9 + 0.32 * len(lines))
        row = figure.subplots(1, len(panels), sharey=True, sharex=True, squeeze=False)[0]
        for axes, (cause, title) in zip(row, panels.items()):
            for height, line in enumerate(lines.values()):
                _line(axes, height, line.ours[cause], line.paper.get(cause))
            axes.axvline(0.0, color=FAINT, linewidth=0.6)
            axes.set_title(title)
            axes.set_xlabel("points of AUROC")
            axes.grid(axis="x")
            axes.set_axisbelow(True)
        row[0].set_yticks(range(len(lines)), list(lines))
        row[0].invert_yaxis()
        handles = {words: handle for axes in row for handle, words in zip(*axes.get_legend_handles_labels())}
        figure.legend(handles.values(), handles.keys(), loc="outside lower right", ncols=len(handles))
    return figure


def _line(axes: "Axes", height: int, ours: Sequence[float], paper: float | None) -> None:
    mean = float(np.mean(ours))
    axes.barh(height, mean, height=0.55, color=TRAIN, alpha=0.55, label="ours")
    if len(ours) > 1:
        axes.plot(ours, [height] * len(ours), ".", color=INK, markersize=4, label="ours, single runs")
    if paper is not None:
        axes.plot(
            paper,
            height,
            "D",
            color=OOD,
            markersize=5.5,
            markerfacecolor="none",
            markeredgewidth=1.3,
            label="the paper",
        )


_COURSE = {
    "accuracy": "accuracy, %", "entropy": "U_entropy: AUROC, %", "density": "U_density: AUROC, %",
    "extrapolation": "cause 2, points", "overlap": "cause 3, points", "cosine_train": "max cos, training images",
}  # fmt: skip


def training_course(courses: Mapping[str, Sequence[Mapping[str, float]]]) -> "Figure":
    """One panel for each quantity of `_COURSE`, one line for each data set, against the share of the epochs done."""
    with style():
        figure = new_figure(PAGE, 3.6)
        panels = figure.subplots(2, 3, sharex=True)
        for axes, (quantity, title) in zip(panels.ravel(), _COURSE.items()):
            for number, (name, moments) in enumerate(courses.items()):
                share = [one["epoch"] / moments[-1]["epoch"] for one in moments]
                values = [one[quantity] for one in moments]
                colour, dashes = _SETS[number % len(_SETS)], _LINES[number % len(_LINES)]
                axes.plot(share, values, ".", color=colour, linestyle=dashes, markersize=4, linewidth=1.1, label=name)
            axes.set_title(title)
            axes.grid(axis="y")
        panels[1, 1].set_xlabel("share of the training done")
        handles, labels = panels[0, 0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=len(labels))
    return figure


_BINS = 40
# On the blue of training: no other blue.
_SETS = ("#009E73", "#CC79A7", "#E69F00", "#D55E00", "#000000")
_LINES = ("solid", (0, (4, 1)), (0, (1, 1)), (0, (5, 1, 1, 1)), (0, (3, 1, 1, 1, 1, 1)))
_NAMES = ("norm(z)", "cosines but the largest", "largest cosine (familiarity)")


def familiarity_histograms(networks: Mapping[str, tuple[Head, NDArray, NDArray]]) -> "Figure":
    """One row a network, (head, z of test inputs, z of OOD inputs); columns as in the paper's figure."""
    with style():
        figure = new_figure(PAGE, 0.6 + 1.35 * len(networks))
        grid = figure.subplots(len(networks), 3, squeeze=False)
        for row, (title, (head, test, ood)) in zip(grid, networks.items()):
            parts = [_parts(head, z) for z in (test, ood)]
            for axes, low, high in zip(row, *parts):
                _pair(axes, low, high)
            row[0].set_title(title)
        for axes, name in zip(grid[-1], _NAMES):
            axes.set_xlabel(name)
        handles, labels = grid[0, 0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper right", ncols=2)
    return figure


def familiarity_by_set(networks: "Mapping[str, tuple[Histogram, Histogram, Histogram]]") -> "Figure":
    """One row a network; columns as above, each a histogram with counts of "train" and of every OOD set.

    Every set has a colour and a line of its own, the same in all rows.
    """
    sets = dict.fromkeys(name for row in networks.values() for name in row[0].counts if name not in ("train", "test"))
    looks = {name: (_SETS[n % len(_SETS)], _LINES[n % len(_LINES)]) for n, name in enumerate(sets)}
    with style():
        figure = new_figure(PAGE, 0.9 + 1.35 * len(networks))
        grid = figure.subplots(len(networks), 3, squeeze=False)
        for row, (title, histograms) in zip(grid, networks.items()):
            for axes, histogram in zip(row, histograms):
                _counted(axes, histogram, looks)
            row[0].set_title(title)
        for axes, name in zip(grid[-1], _NAMES):
            axes.set_xlabel(name)
        handles = {words: handle for axes in grid[:, 0] for handle, words in zip(*axes.get_legend_handles_labels())}
        ordered = [name for name in ("train (learned)", *looks) if name in handles]
        figure.legend([handles[name] for name in ordered], ordered, loc="outside lower center", ncols=len(ordered))
    return figure


def _counted(axes: "Axes", histogram: "Histogram", looks: Mapping[str, tuple[str, object]]) -> None:
    edges = np.asarray(histogram.edges)
    shown = {name: np.asarray(counts, float) for name, counts in histogram.counts.items() if name != "test"}
    for name, counts in shown.items():
        density = counts / (counts.sum() * np.diff(edges))
        if name == "train":
            axes.stairs(density, edges, fill=True, color=TRAIN, alpha=0.45, label="train (learned)")
        else:
            colour, dashes = looks[name]
            axes.stairs(density, edges, color=colour, linestyle=dashes, linewidth=1.1, label=name)
    used = np.flatnonzero(sum(shown.values()))
    axes.set_xlim(edges[used[0]], edges[used[-1] + 1])
    axes.set_ylim(bottom=0)
    axes.set_yticks([])


def _parts(head: Head, z: NDArray) -> tuple[Floats, Floats, Floats]:
    cosines = np.sort(head.cosines(z), axis=1)
    return head.norms(z), cosines[:, :-1].ravel(), cosines[:, -1]


def _pair(axes: "Axes", test: Floats, ood: Floats) -> None:
    both = np.concatenate([test, ood])
    edges = np.linspace(float(both.min()), float(both.max()), _BINS + 1).tolist()
    axes.hist(test, edges, density=True, histtype="stepfilled", color=TRAIN, alpha=0.55, label="test")
    axes.hist(ood, edges, density=True, histtype="step", color=OOD, label="OOD", linewidth=1.3)
    for values, colour in ((test, INK), (ood, OOD)):
        axes.axvline(float(np.median(values)), color=colour, linewidth=0.8, linestyle="dotted")
    axes.set_yticks([])
