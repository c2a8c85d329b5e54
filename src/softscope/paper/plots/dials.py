"""Causes of failure against the position of a dial, one panel per dial (X12)."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ...arrays import Floats
from ...reporting.style import CLASS_COLOURS, PAGE, new_figure, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

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
    means = [float(np.mean(own)) for own in values]
    halves = [_half(np.asarray(own, np.float64)) for own in values]
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


def _half(values: Floats) -> float:
    """Half the 95 % interval of the mean (Student's t); 0 for a single run."""
    from scipy.special import stdtrit

    if len(values) < 2:
        return 0.0
    return float(stdtrit(len(values) - 1, 0.975) * values.std(ddof=1) / np.sqrt(len(values)))
