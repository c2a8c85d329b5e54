"""The paper's figures: arrays in, a matplotlib Figure out."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Place = Literal["outside lower center", "outside lower right", "outside upper right"]


def legend_of(figure: "Figure", panels: "Iterable[Axes]", where: Place, **look: Any) -> None:
    """One legend outside of the panels with each of their names once, all in one line."""
    handles = {words: handle for axes in panels for handle, words in zip(*axes.get_legend_handles_labels())}
    figure.legend(handles.values(), handles.keys(), loc=where, ncols=len(handles), **look)
