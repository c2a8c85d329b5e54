"""fig_noise and its company: the most confident inputs of a scan, and where real digits lie among uniform noise."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ...arrays import Floats
from ...reporting.style import FAINT, INK, OOD, PAGE, TRAIN
from ..filter import percent
from . import drawing, legend_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_TITLES = {
    "log_odds": "Confidence: log(p / (1 - p))",
    "entropy": "U_entropy (nats)",
    "norm": "norm(z)",
    "cosine": "max cos",
}


def finds_figure(images: NDArray, odds: Floats, names: Sequence[str], remark: str, visible: int | None) -> "Figure":
    """The most confident inputs [K, k, height, width] of each class, a column a class, best first.

    Beyond `visible` rows and columns (None: all are) pixels never reach the network's output: drawn faint.
    """
    classes, top = odds.shape
    with drawing(PAGE, 0.55 + 0.83 * top * 10 / max(10, classes)) as figure:
        figure.suptitle(remark, fontsize=8)
        grid = figure.subplots(top, classes, squeeze=False)
        for k in range(classes):
            for i in range(top):
                drawn = odds[k, i] > -np.inf
                _show(grid[i, k], images[k, i] if drawn else None, visible)
                grid[i, k].set_xlabel(percent(float(odds[k, i])) if drawn else "", fontsize=5, labelpad=1.5)
            grid[0, k].set_title(names[k], loc="center")
    return figure


def gallery_figure(rows: Mapping[str, NDArray], names: Sequence[str], visible: int | None = 8) -> "Figure":
    """One row of pictures [K, height, width] for each title: what is to be compared stands one below the other."""
    with drawing(PAGE, 0.3 + 0.66 * len(rows)) as figure:
        grid = figure.subplots(len(rows), len(names), squeeze=False)
        for line, (title, images) in zip(grid, rows.items()):
            for axes, image in zip(line, images):
                _show(axes, image, visible)
            line[0].set_ylabel(title, rotation=0, ha="right", va="center", fontsize=7, labelpad=6)
        for axes, name in zip(grid[0], names):
            axes.set_title(name, loc="center")
    return figure


def noise_and_digits(
    noise: Mapping[str, tuple[Floats, Floats]], digits: Mapping[str, Floats], best: float, remark: str
) -> "Figure":
    """Shares of uniform noise (edges, share in each bin) and of real digits, by each quantity; `best` find marked."""
    with drawing(PAGE, 4.2) as figure:
        figure.suptitle(remark, fontsize=8)
        for axes, (quantity, (edges, shares)) in zip(figure.subplots(2, 2).ravel(), noise.items()):
            edges, shares = _coarse(edges, shares, digits[quantity])
            own = np.histogram(np.clip(digits[quantity], edges[0], edges[-1]), edges)[0] / len(digits[quantity])
            axes.stairs(np.where(shares > 0, shares, np.nan), edges, color=OOD, label="uniform noise", linewidth=1.4)
            axes.stairs(np.where(own > 0, own, np.nan), edges, color=TRAIN, label="test digits", linestyle="--")
            if quantity == "log_odds":
                axes.axvline(best, color=INK, linewidth=0.8, linestyle=":", label="most confident noise")
            axes.set(yscale="log", title=_TITLES[quantity], ylabel="share a bin")
        legend_of(figure, figure.axes[:1], "outside lower center")
    return figure


def _coarse(edges: Floats, shares: Floats, values: Floats, bins: int = 64) -> tuple[Floats, Floats]:
    """At most about `bins` bins over what is there, each a whole number of the fine ones."""
    used = np.flatnonzero(shares)
    places = np.searchsorted(edges, [values.min(), values.max()])
    low = max(0, min(used[0], places[0] - 1))
    high = min(len(shares), max(used[-1] + 1, places[1]))
    step = max(1, -(-(high - low) // bins))
    starts = np.arange(low, high, step)
    return edges[np.append(starts, min(high, len(shares)))], np.add.reduceat(shares[:high], starts)


def _show(axes: "Axes", image: NDArray | None, visible: int | None) -> None:
    axes.set(xticks=[], yticks=[])
    axes.spines[:].set(visible=True, color=FAINT, linewidth=0.5)
    if image is None:
        axes.set_facecolor("#EEEEEE")
        axes.set_box_aspect(1)
        return
    shade = 1.0 - image.astype(np.float64)
    if visible is not None and image.shape[0] > visible:
        hidden = np.ones(image.shape, dtype=bool)
        hidden[:visible, :visible] = False
        shade[hidden] = 1.0 - 0.25 * image[hidden]
    axes.imshow(shade, cmap="gray", vmin=0, vmax=1, interpolation="nearest")
