"""The paper's figures: arrays in, a matplotlib Figure out."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def legend_of(figure: "Figure", panels: "Iterable[Axes]", where: str, **look: Any) -> None:
    """One legend outside of the panels with each of their names once, all in one line."""
    handles = {words: handle for axes in panels for handle, words in zip(*axes.get_legend_handles_labels())}
    figure.legend(handles.values(), handles.keys(), loc=f"outside {where}", ncols=len(handles), **look)
