"""Pictures of X10: the final layers of several networks seen from above, and the OOD images each is most sure of."""

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ...estimators.softmax import entropy
from ...geometry import Plane
from ...head import Head
from ...reporting.style import CONFIDENCE_MAP, OOD, PAGE, TRAIN, new_figure, style, to_png

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_GRID, _POINTS = 90, 250


@dataclass(frozen=True)
class Layer:
    """A final layer: its head, z of test inputs, z of OOD inputs."""

    head: Head
    test: NDArray
    ood: NDArray


@dataclass(frozen=True)
class Sure:
    """An OOD image, the class it was taken for, and how surely (max_i s_i)."""

    image: NDArray
    taken_for: str
    confidence: float


def final_layers(rows: Mapping[str, Mapping[str, Layer]]) -> "Figure":
    """One row a kind of network, one column a data set: U_entropy behind test points (dots) and OOD points (crosses).

    Each plane is that of the first two principal components of both.
    """
    columns = len(next(iter(rows.values())))
    with style():
        figure = new_figure(PAGE, 0.7 + 1.45 * len(rows))
        grid = figure.subplots(len(rows), columns, squeeze=False)
        for places, (kind, layers) in zip(grid, rows.items()):
            for axes, layer in zip(places, layers.values()):
                _plane(axes, layer)
            places[0].set_ylabel(kind)
        for axes, title in zip(grid[0], next(iter(rows.values()))):
            axes.set_title(title)
        handles, names = grid[0, 0].get_legend_handles_labels()
        figure.legend(handles, names, loc="outside lower center", ncols=2, markerscale=2)
    return figure


def few_colours(figure: "Figure") -> bytes:
    """The figure as PNG with a palette of 256 colours: photographs take a third of the space, and look the same."""
    from PIL import Image

    stream = io.BytesIO()
    with Image.open(io.BytesIO(to_png(figure))) as picture:
        picture.convert("RGB").quantize(256).save(stream, "png", optimize=True)
    return stream.getvalue()


def _plane(axes: "Axes", layer: Layer) -> None:
    rng = np.random.default_rng(0)
    test, ood = (z[np.sort(rng.permutation(len(z))[:_POINTS])] for z in (layer.test, layer.ood))
    plane = Plane.principal(test, ood)
    points = [plane.project(z) for z in (test, ood)]
    whole = np.concatenate(points)
    low, high = whole.min(axis=0), whole.max(axis=0)
    margin = 0.05 * (high - low)
    (left, bottom), (right, top) = low - margin, high + margin
    mesh = np.stack(np.meshgrid(np.linspace(left, right, _GRID), np.linspace(bottom, top, _GRID)), axis=-1)
    values = entropy(layer.head.logits(plane.lift(mesh.reshape(-1, 2)))).reshape(_GRID, _GRID)
    axes.imshow(
        values, extent=(left, right, bottom, top), origin="lower", cmap=f"{CONFIDENCE_MAP}_r", vmin=0.0,
        vmax=float(np.log(layer.head.n_classes)), aspect="auto", interpolation="bilinear",
    )  # fmt: skip
    axes.plot(*points[1].T, "x", color=OOD, markersize=2.2, markeredgewidth=0.6, label="OOD", linestyle="none")
    axes.plot(
        *points[0].T, "o", color=TRAIN, markersize=2.0, markeredgecolor="white", markeredgewidth=0.2, label="test",
        linestyle="none",
    )  # fmt: skip
    axes.set(xticks=[], yticks=[])


def surest(rows: Mapping[str, Sequence[Sure]]) -> "Figure":
    """One row a network: its surest OOD images, each with the class it was taken for and the confidence."""
    columns = max(len(row) for row in rows.values())
    with style():
        figure = new_figure(PAGE, 0.2 + 1.22 * len(rows))
        grid = figure.subplots(len(rows), columns, squeeze=False)
        for places, (title, row) in zip(grid, rows.items()):
            for axes in places:
                axes.set(xticks=[], yticks=[])
                axes.spines[:].set_visible(False)
            for axes, one in zip(places, row):
                image = one.image[..., 0] if one.image.shape[-1] == 1 else one.image
                axes.imshow(image, cmap="gray", vmin=0, vmax=255)
                axes.set_xlabel(f"{_short(one.taken_for)}\n{_percent(one.confidence)}", fontsize=6, labelpad=2)
            places[0].set_ylabel(title, fontweight="bold")
    return figure


def _percent(confidence: float) -> str:
    """Never 100 %, which no softmax reaches."""
    return f"{min(100 * confidence, 99.9):.1f} %" if confidence < 0.999 else "> 99.9 %"


def _short(name: str, letters: int = 15) -> str:
    words = name.replace("_", " ")
    return words if len(words) <= letters else f"{words[: letters - 1]}…"
