"""Pictures of a whole benchmark (X9), and means over runs against what was turned by hand: depth (X7), a dial (X12)."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ...arrays import Floats
from ...head import Head
from ...metrics import mean_interval
from ...reporting.style import CLASS_COLOURS, CONFIDENCE_MAP, FAINT, INK, OOD, PAGE, TRAIN
from . import drawing, legend_of

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
    with drawing(PAGE, 0.6 + 2.7 * lines) as figure:
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
    with drawing(PAGE, 0.9 + 0.32 * len(lines)) as figure:
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
        legend_of(figure, row, "outside lower right")
    return figure


def _line(axes: "Axes", height: int, ours: Sequence[float], paper: float | None) -> None:
    mean = float(np.mean(ours))
    axes.barh(height, mean, height=0.55, color=TRAIN, alpha=0.55, label="ours")
    if len(ours) > 1:
        axes.plot(ours, [height] * len(ours), ".", color=INK, markersize=4, label="ours, single runs")
    if paper is not None:
        look: dict[str, Any] = {"markersize": 5.5, "markerfacecolor": "none", "markeredgewidth": 1.3}
        axes.plot(paper, height, "D", color=OOD, label="the paper", **look)


_COURSE = {
    "accuracy": "accuracy, %", "entropy": "U_entropy: AUROC, %", "density": "U_density: AUROC, %",
    "extrapolation": "cause 2, points", "overlap": "cause 3, points", "cosine_train": "max cos, training images",
}  # fmt: skip


def training_course(courses: Mapping[str, Sequence[Mapping[str, float]]]) -> "Figure":
    """One panel for each quantity of `_COURSE`, one line for each data set, against the share of the epochs done."""
    with drawing(PAGE, 3.6) as figure:
        panels = figure.subplots(2, 3, sharex=True)
        for axes, (quantity, title) in zip(panels.ravel(), _COURSE.items()):
            for number, (name, moments) in enumerate(courses.items()):
                share = [one["epoch"] / moments[-1]["epoch"] for one in moments]
                values = [one[quantity] for one in moments]
                axes.plot(share, values, ".", **_set_look(number), markersize=4, label=name)
            axes.set_title(title)
            axes.grid(axis="y")
        panels[1, 1].set_xlabel("share of the training done")
        legend_of(figure, [panels[0, 0]], "outside lower center")
    return figure


_BINS = 40
# On the blue of training: no other blue.
_SETS = ("#009E73", "#CC79A7", "#E69F00", "#D55E00", "#000000")
_LINES = ("solid", (0, (4, 1)), (0, (1, 1)), (0, (5, 1, 1, 1)), (0, (3, 1, 1, 1, 1, 1)))


def _set_look(number: int) -> dict[str, Any]:
    return {"color": _SETS[number % len(_SETS)], "linestyle": _LINES[number % len(_LINES)], "linewidth": 1.1}


_ROW = 1.35  # inches
_NAMES = ("norm(z)", "cosines but the largest", "largest cosine (familiarity)")


def familiarity_histograms(networks: Mapping[str, tuple[Head, NDArray, NDArray]]) -> "Figure":
    """One row a network, (head, z of test inputs, z of OOD inputs); columns as in the paper's figure."""
    with drawing(PAGE, 0.6 + _ROW * len(networks)) as figure:
        grid = _rows_of_three(figure, networks)
        for row, (head, test, ood) in zip(grid, networks.values()):
            parts = [_parts(head, z) for z in (test, ood)]
            for axes, low, high in zip(row, *parts):
                _pair(axes, low, high)
        legend_of(figure, [grid[0, 0]], "outside upper right")
    return figure


def familiarity_by_set(networks: "Mapping[str, tuple[Histogram, Histogram, Histogram]]") -> "Figure":
    """One row a network; columns as above, each a histogram with counts of "train" and of every OOD set.

    Every set has a colour and a line of its own, the same in all rows.
    """
    sets = dict.fromkeys(name for row in networks.values() for name in row[0].counts if name not in ("train", "test"))
    looks = {name: _set_look(number) for number, name in enumerate(sets)}
    with drawing(PAGE, 0.9 + _ROW * len(networks)) as figure:
        grid = _rows_of_three(figure, networks)
        for row, histograms in zip(grid, networks.values()):
            for axes, histogram in zip(row, histograms):
                _counted(axes, histogram, looks)
        legend_of(figure, grid[:, 0], "outside lower center")
    return figure


def _rows_of_three(figure: "Figure", titles: Collection[str]) -> NDArray:
    """A row of panels for each title, one for each of `_NAMES`."""
    grid: NDArray = figure.subplots(len(titles), len(_NAMES), squeeze=False)
    for axes, title in zip(grid[:, 0], titles):
        axes.set_title(title)
    for axes, name in zip(grid[-1], _NAMES):
        axes.set_xlabel(name)
    return grid


def _counted(axes: "Axes", histogram: "Histogram", looks: Mapping[str, dict[str, Any]]) -> None:
    edges = np.asarray(histogram.edges)
    shown = {name: np.asarray(counts, float) for name, counts in histogram.counts.items() if name != "test"}
    for name, counts in shown.items():
        density = counts / (counts.sum() * np.diff(edges))
        if name == "train":
            axes.stairs(density, edges, fill=True, color=TRAIN, alpha=0.45, label="train (learned)")
        else:
            axes.stairs(density, edges, **looks[name], label=name)
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


Runs = Mapping[int, Sequence[float]]  # number of layers -> one value a run

_PANELS = {
    "Accuracy, %": {"accuracy": "accuracy"},
    "AUROC of U_entropy, %": {"entropy": "U_entropy"},
    "AUROC of the features, %": {"norm": "norm(z)", "familiarity": "max cos", "density": "U_density"},
}
_ASIDE = 0.25  # single runs stand beside their mean
_LOOKS = {
    "accuracy": (INK, "o", "-"),
    "entropy": (CLASS_COLOURS[0], "s", "-"),
    "norm": (CLASS_COLOURS[4], "^", "--"),
    "familiarity": (CLASS_COLOURS[1], "D", "-."),
    "density": (CLASS_COLOURS[2], "v", "-"),
}


def against_depth(directions: Mapping[str, Mapping[str, Runs]]) -> "Figure":
    """One row of panels a direction ("mnist against fashion_mnist"): accuracy, AUROC of U_entropy, of the features.

    Each direction has values over runs by name (accuracy, entropy, norm, familiarity, density) and number of layers.
    """
    with drawing(PAGE, 0.5 + 1.95 * len(directions)) as figure:
        grid = figure.subplots(len(directions), len(_PANELS), sharex=True, squeeze=False)
        for axes, title in zip(grid[0], _PANELS):
            axes.set_title(title)
        for row, (direction, values) in zip(grid, directions.items()):
            for axes, names in zip(row, _PANELS.values()):
                for name, words in names.items():
                    _depth_line(axes, values[name], name, words)
                axes.grid(axis="y")
                axes.set_axisbelow(True)
            row[0].set_ylabel(direction.replace(" against ", "\nagainst "), fontweight="bold")
        for axes in grid[-1]:
            axes.set_xlabel("convolutional layers")
            axes.set_xticks(sorted(next(iter(directions.values()))["accuracy"]))
        legend_of(figure, [grid[0, -1]], "outside lower right", handlelength=2.6)
    return figure


def _depth_line(axes: "Axes", runs: Runs, name: str, words: str) -> None:
    colour, marker, dashes = _LOOKS[name]
    layers = sorted(runs)
    values = [np.asarray(runs[count], np.float64) for count in layers]
    errors = [own.std(ddof=1) / np.sqrt(len(own)) if len(own) > 1 else 0.0 for own in values]
    for count, own in zip(layers, values):
        axes.plot([count + _ASIDE] * len(own), own, ".", color=colour, alpha=0.5, markersize=3.5, markeredgewidth=0)
    means = [own.mean() for own in values]
    axes.errorbar(
        layers, means, errors, color=colour, marker=marker, linestyle=dashes, markersize=4.5, capsize=3, label=words
    )


Curves = tuple[Sequence[float], Mapping[str, Sequence[Sequence[float]]]]

_LABELS = {
    "saturation": "logits times",
    "extrapolation": "OOD inputs times",
    "ambiguity": "blended digits",
    "overlap": "digits among OOD rows",
}
_MARKERS = ("o", "s", "^", "D")


def dials(panels: Mapping[str, Curves]) -> "Figure":
    """`panels`: dial -> (its positions, cause -> for each position one value per run, in points of AUROC)."""
    with drawing(PAGE, 2.6) as figure:
        for axes, (dial, (positions, causes)) in zip(figure.subplots(1, len(panels), sharey=True), panels.items()):
            for k, (cause, values) in enumerate(causes.items()):
                _curve(axes, values, cause, k, thick=cause == dial)
            axes.set_xticks(range(len(positions)), [f"{position:g}" for position in positions])
            axes.set(title=dial, xlabel=_LABELS.get(dial, ""))
            axes.grid(axis="y")
            axes.set_axisbelow(True)
        figure.axes[0].set_ylabel("points of AUROC")
        legend_of(figure, figure.axes[:1], "outside lower right")
    return figure


def _curve(axes: "Axes", values: Sequence[Sequence[float]], cause: str, k: int, *, thick: bool) -> None:
    over = [mean_interval(own) for own in values]
    means = [own.value for own in over]
    halves = [own.high - own.value if len(runs) > 1 else 0.0 for own, runs in zip(over, values)]
    look: dict[str, Any] = {"linewidth": 2.4, "markersize": 5} if thick else {"linewidth": 1.0, "markersize": 3}
    axes.errorbar(range(len(values)), means, halves, color=CLASS_COLOURS[k], marker=_MARKERS[k], label=cause, **look)
