"""How much AUROC each cause costs, data set by data set, ours beside the paper's (X9)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ...reporting.style import FAINT, INK, OOD, PAGE, TRAIN, new_figure, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


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
