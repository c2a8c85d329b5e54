"""The one style of every picture here: Okabe and Ito's colours, which colour-blind readers can tell apart, and type
that is legible at the width of a column.

    with style():
        figure = new_figure(PAGE, 2.6)
        axes = figure.subplots(1, 2)
"""

import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLUMN, PAGE = 3.4, 7.0  # inches: one column of a two-column page, and the whole page
DPI = 200

# Classes take these in order, with a marker each, so that no reading depends on colour alone.
CLASS_COLOURS = ("#0072B2", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#F0E442", "#000000", "#999999")
CLASS_MARKERS = ("o", "s", "^", "v", "D", "P", "X", "*")
TRAIN, OOD = "#0072B2", "#D55E00"
INK, FAINT = "#222222", "#8A8A8A"
CONFIDENCE_MAP = "cividis"  # perceptually even, made for colour-blind eyes; dark = uncertain, bright = confident

_STYLE: dict[str, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 8,
    "axes.titlesize": 8.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.labelsize": 8,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "legend.fontsize": 7,
    "legend.frameon": False,
    **dict.fromkeys(("axes.edgecolor", "axes.labelcolor", "text.color", "xtick.color", "ytick.color"), INK),
    **dict.fromkeys(("axes.linewidth", "xtick.major.width", "ytick.major.width"), 0.6),
    "lines.linewidth": 1.4,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "grid.color": "#DDDDDD",
    "grid.linewidth": 0.5,
    "figure.facecolor": "white",
    "savefig.facecolor": "white",
}


@contextmanager
def style() -> Iterator[None]:
    """Draw inside this."""
    import matplotlib
    from cycler import cycler

    whole: Any = _STYLE | {"axes.prop_cycle": cycler(color=CLASS_COLOURS)}
    with matplotlib.rc_context(whole):
        yield


def new_figure(width: float, height: float) -> "Figure":
    """A figure of `width` x `height` inches that belongs to no window and arranges its axes by itself."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), dpi=DPI, layout="constrained")


def to_png(figure: "Figure") -> bytes:
    """The figure as PNG; the same figure gives the same bytes."""
    buffer = io.BytesIO()
    with style():
        figure.savefig(buffer, format="png", dpi=DPI, metadata={"Software": None})
    return buffer.getvalue()


def to_svg(figure: "Figure") -> bytes:
    """The figure as SVG; the same figure gives the same bytes."""
    import matplotlib

    buffer = io.BytesIO()
    with style(), matplotlib.rc_context({"svg.hashsalt": "softscope"}):
        figure.savefig(buffer, format="svg", dpi=DPI, metadata={"Date": None, "Creator": None})
    return buffer.getvalue()


def class_look(index: int) -> dict[str, Any]:
    """Colour and marker of class `index`, as keywords for `Axes.scatter` and `Axes.plot`."""
    return {"color": CLASS_COLOURS[index % len(CLASS_COLOURS)], "marker": CLASS_MARKERS[index % len(CLASS_MARKERS)]}
