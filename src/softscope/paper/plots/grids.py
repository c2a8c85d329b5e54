"""fig_grid_auroc: AUROC of every data set against every other, one grid an uncertainty."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ...arrays import Floats
from ...reporting.style import CONFIDENCE_MAP, INK, PAGE, new_figure, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage

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
