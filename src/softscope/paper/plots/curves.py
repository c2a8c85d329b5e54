"""Means over runs against something turned by hand: the depth of a network (X7), the position of a dial (X12)."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ...metrics import mean_interval
from ...reporting.style import CLASS_COLOURS, INK, PAGE, new_figure, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


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
    with style():
        figure = new_figure(PAGE, 0.5 + 1.95 * len(directions))
        grid = figure.subplots(len(directions), len(_PANELS), sharex=True, squeeze=False)
        for axes, title in zip(grid[0], _PANELS):
            axes.set_title(title)
        for row, (direction, values) in zip(grid, directions.items()):
            for axes, names in zip(row, _PANELS.values()):
                for name, words in names.items():
                    _line(axes, values[name], name, words)
                axes.grid(axis="y")
                axes.set_axisbelow(True)
            row[0].set_ylabel(_two_lines(direction), fontweight="bold")
        for axes in grid[-1]:
            axes.set_xlabel("convolutional layers")
            axes.set_xticks(sorted(next(iter(directions.values()))["accuracy"]))
        handles, names = grid[0, -1].get_legend_handles_labels()
        figure.legend(handles, names, loc="outside lower right", ncols=len(names), handlelength=2.6)
    return figure


def _line(axes: "Axes", runs: Runs, name: str, words: str) -> None:
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


def _two_lines(direction: str) -> str:
    learned, _, ood = direction.partition(" against ")
    return f"{learned}\nagainst {ood}"


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
    with style():
        figure = new_figure(PAGE, 2.6)
        for axes, (dial, (positions, causes)) in zip(figure.subplots(1, len(panels), sharey=True), panels.items()):
            for k, (cause, values) in enumerate(causes.items()):
                _curve(axes, values, cause, k, thick=cause == dial)
            axes.set_xticks(range(len(positions)), [f"{position:g}" for position in positions])
            axes.set(title=dial, xlabel=_LABELS.get(dial, ""))
            axes.grid(axis="y")
            axes.set_axisbelow(True)
        figure.axes[0].set_ylabel("points of AUROC")
        handles, names = figure.axes[0].get_legend_handles_labels()
        figure.legend(handles, names, loc="outside lower right", ncols=len(names))
    return figure


def _curve(axes: "Axes", values: Sequence[Sequence[float]], cause: str, k: int, *, thick: bool) -> None:
    over = [mean_interval(own) for own in values]
    means = [own.value for own in over]
    halves = [own.high - own.value if len(runs) > 1 else 0.0 for own, runs in zip(over, values)]
    axes.errorbar(
        range(len(values)),
        means,
        yerr=halves,
        color=CLASS_COLOURS[k],
        marker=_MARKERS[k],
        linewidth=2.4 if thick else 1.0,
        markersize=5 if thick else 3,
        label=cause,
    )
