"""The paper's figures: arrays in, a matplotlib Figure out."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal

from ...reporting.style import new_figure, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Place = Literal["outside lower center", "outside lower right", "outside upper right"]


@contextmanager
def drawing(width: float, height: float) -> "Iterator[Figure]":
    """A new figure of `width` x `height` inches, and the project's style for as long as it is drawn."""
    with style():
        yield new_figure(width, height)


def legend_of(figure: "Figure", panels: "Iterable[Axes]", where: Place, **look: Any) -> None:
    """One legend outside of the panels with each of their names once, all in one line."""
    handles = {words: handle for axes in panels for handle, words in zip(*axes.get_legend_handles_labels())}
    figure.legend(handles.values(), handles.keys(), loc=where, ncols=len(handles), **look)
