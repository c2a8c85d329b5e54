"""Softmax confidence over a plane: a 2-D input space, or the first two principal components of the final layer."""

import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ...arrays import Floats
from ...estimators.softmax import entropy
from ...geometry import Plane, square_window
from ...head import Head
from ...reporting.style import CONFIDENCE_MAP, FAINT, INK, OOD, PAGE, TRAIN, class_look, to_png
from . import drawing, legend_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


_GRID = 220


@dataclass(frozen=True)
class Cloud:
    """Points to draw: position or features, and labels where they have classes (None: out-of-distribution), which
    the legend calls by `names`."""

    points: NDArray
    labels: NDArray | None = None
    names: Sequence[str] = ()

    @classmethod
    def test(cls, z: NDArray, labels: NDArray, head: Head) -> "Cloud":
        """Test points, under the names of their classes."""
        return cls(z, labels, [f"test, class {head.class_name(k)}" for k in range(head.n_classes)])


def input_and_plane(
    logits: Callable[[Floats], NDArray],
    head: Head,
    inputs: tuple[NDArray, NDArray, NDArray],
    features: tuple[NDArray, NDArray],
    threshold: float,
    remark: str = "",
) -> "Figure":
    """fig_2d a: U_entropy over the 2-D input space and over the final layer's principal plane.

    `logits` maps inputs to logits; `inputs` are training points, their labels and OOD points; `features` are the z of
    training and OOD points; `threshold` is the uncertainty that 5 % of training points exceed, drawn as a line;
    `remark` stands above the picture.
    """
    train, labels, ood = inputs
    plane = Plane.principal(*features)
    with drawing(PAGE, 3.7) as figure:
        figure.suptitle(remark, fontsize=8)
        left, right = figure.subplots(1, 2)
        map_uncertainty(left, lambda xy: entropy(logits(xy)), [Cloud(train, labels), Cloud(ood)], threshold)
        left.set(title="Input space", xlabel="x₁", ylabel="x₂")
        picture = map_final_layer(right, head, plane, [Cloud(features[0], labels), Cloud(features[1])], threshold)
        right.set(title="Final layer")
        confidence_bar(figure, picture, [left, right], head.n_classes)
        legend_of(figure, [left], "outside lower center", handletextpad=0.3)
    return figure


def map_final_layer(axes: "Axes", head: Head, plane: Plane, clouds: list[Cloud], threshold: float | None) -> Any:
    """U_entropy of the head over `plane`, with the final-layer features of `clouds` projected onto it."""
    flat = [replace(cloud, points=plane.project(cloud.points)) for cloud in clouds]
    picture = map_uncertainty(axes, lambda xy: entropy(head.logits(plane.lift(xy))), flat, threshold)
    axes.set(xlabel="first principal component", ylabel="second principal component")
    return picture


def map_uncertainty(
    axes: "Axes", uncertainty: Callable[[Floats], NDArray], clouds: list[Cloud], threshold: float | None
) -> Any:
    """An uncertainty over the window that holds all `clouds`, the points on top, and the line U = `threshold`."""
    window = square_window(np.concatenate([cloud.points for cloud in clouds]))
    picture = backdrop(axes, uncertainty, window, _GRID, aspect="equal", interpolation="bilinear")
    values = np.asarray(picture.get_array())
    if threshold is not None and values.min() < threshold < values.max():
        xs, ys = (np.linspace(low, high, _GRID) for low, high in window)
        axes.contour(xs, ys, values, levels=[threshold], colors=INK, linewidths=1.0, linestyles="dashed")
        axes.plot([], [], color=INK, linestyle="dashed", linewidth=1.0, label="5 % of training is less confident")
    for cloud in clouds:
        _scatter(axes, cloud)
    axes.set(xlim=window[0], ylim=window[1])
    return picture


def backdrop(axes: "Axes", uncertainty: Callable[[Floats], NDArray], window: Any, steps: int, **look: Any) -> Any:
    """An uncertainty over `window`, ((left, right), (bottom, top)), at `steps` x `steps` points; bright: confident."""
    grid = np.stack(np.meshgrid(*(np.linspace(low, high, steps) for low, high in window)), axis=-1)
    values = uncertainty(grid.reshape(-1, 2)).reshape(steps, steps)
    extent = (*window[0], *window[1])
    return axes.imshow(values, extent=extent, origin="lower", cmap=f"{CONFIDENCE_MAP}_r", vmin=0.0, **look)


def confidence_bar(figure: "Figure", picture: Any, axes: "list[Axes]", classes: int) -> None:
    """One colour bar for `axes`: U_entropy from 0 to log K, said in words at its ends."""
    picture.set_clim(0.0, np.log(classes))
    bar = figure.colorbar(picture, ax=axes, fraction=0.05, pad=0.01)
    bar.set_ticks([0.0, float(np.log(classes))], labels=["0\nconfident", f"log {classes}\nuncertain"])
    bar.set_label("U_entropy", labelpad=-18)
    bar.outline.set_linewidth(0.6)


def _scatter(axes: "Axes", cloud: Cloud) -> None:
    if cloud.labels is None:
        x, y = cloud.points.T
        axes.scatter(x, y, color=OOD, marker="x", s=14, linewidths=1.0, label="OOD")
        return
    edge: dict[str, Any] = {"s": 11, "edgecolors": "white", "linewidths": 0.4}
    for index in np.unique(cloud.labels):
        x, y = cloud.points[cloud.labels == index].T
        name = cloud.names[index] if cloud.names else f"train, class {index}"
        axes.scatter(x, y, **edge | class_look(int(index)), label=name)


_ROWS, _COLUMNS = 3, 4


def examples_and_plane(
    head: Head,
    images: tuple[NDArray, NDArray],
    features: tuple[NDArray, NDArray, NDArray],
    threshold: float,
    names: tuple[str, str],
    remark: str = "",
) -> "Figure":
    """Images of the test and the OOD set, and U_entropy over the first two components of their features.

    `features` are z of test points, their labels, and z of OOD points; `threshold` is the uncertainty that 5 % of
    training points exceed; `names` are those of the two sets; `remark` stands above the picture.
    """
    test, labels, ood = features
    with drawing(PAGE, 3.9) as figure:
        figure.suptitle(remark, fontsize=8)
        left, right = figure.subplots(1, 2, width_ratios=(0.6, 1.0))
        _thumbnails(left, images, names)
        clouds = [Cloud.test(test, labels, head), Cloud(ood)]
        picture = map_final_layer(right, head, Plane.principal(test, ood), clouds, threshold)
        right.set(title="Final layer")
        confidence_bar(figure, picture, [right], head.n_classes)
        legend_of(figure, [right], "outside lower center", handletextpad=0.3)
    return figure


def _thumbnails(axes: "Axes", images: tuple[NDArray, NDArray], names: tuple[str, str]) -> None:
    """Both sets below each other, `_ROWS` x `_COLUMNS` each, framed in their colours."""
    blocks = [_tiled(own[..., 0]) for own in images]
    height, width = blocks[0].shape
    gap = height // 4
    for number, (block, name, colour) in enumerate(zip(blocks, names, (TRAIN, OOD))):
        top = number * (height + gap)
        axes.imshow(block, cmap="gray_r", extent=(0, width, top + height, top), vmin=0, vmax=255)
        axes.plot([0, width, width, 0, 0], [top, top, top + height, top + height, top], color=colour, linewidth=1.6)
        axes.text(0, top - gap / 5, name, color=colour, weight="bold", va="bottom", fontsize=8)
    axes.set(xlim=(-2, width + 2), ylim=(2 * height + gap + 2, -gap))
    axes.axis("off")


def _tiled(images: NDArray) -> NDArray:
    few = images[: _ROWS * _COLUMNS]
    blank = np.zeros((_ROWS * _COLUMNS - len(few), *few.shape[1:]), few.dtype)
    edge = max(1, few.shape[1] // 12)
    tiles = np.pad(np.concatenate([few, blank]), ((0, 0), (edge, edge), (edge, edge)))
    height, width = tiles.shape[1:]
    arranged = tiles.reshape(_ROWS, _COLUMNS, height, width).swapaxes(1, 2)
    whole: NDArray = arranged.reshape(_ROWS * height, _COLUMNS * width)
    return whole


def triple_spread(names: list[str], entropy: list[float], density: list[float], chosen: int) -> "Figure":
    """AUROC of U_entropy and U_density for each choice of training classes, sorted; number `chosen` stands out."""
    order = np.argsort(entropy)
    with drawing(PAGE, 0.9 + 0.22 * len(names)) as figure:
        axes = figure.subplots()
        places = np.arange(len(names))
        axes.plot(np.asarray(entropy)[order], places, "o", color=TRAIN, label="U_entropy")
        axes.plot(np.asarray(density)[order], places, "D", color=FAINT, markersize=4, label="U_density")
        axes.set_yticks(places, [names[number] for number in order])
        axes.get_yticklabels()[int(np.flatnonzero(order == chosen)[0])].set_fontweight("bold")
        axes.grid(axis="x")
        axes.set(xlabel="AUROC against the OOD data, %", ylabel="training classes", xlim=(None, 100.5))
        axes.set_ylim(-0.6, len(names) - 0.4)
        figure.legend(loc="outside upper center", ncols=2)
    return figure


_SMALL_GRID, _POINTS = 90, 250


@dataclass(frozen=True)
class Sure:
    """An OOD image, the class it was taken for, and how surely (max_i s_i)."""

    image: NDArray
    taken_for: str
    confidence: float


def final_layers(rows: Mapping[str, Mapping[str, tuple[Head, NDArray, NDArray]]]) -> "Figure":
    """One row a kind of network, one column a data set: U_entropy behind test points (dots) and OOD points (crosses).

    A network is (head, z of test inputs, z of OOD inputs); its plane, the first two principal components of both.
    """
    columns = len(next(iter(rows.values())))
    with drawing(PAGE, 0.7 + 1.45 * len(rows)) as figure:
        grid = figure.subplots(len(rows), columns, squeeze=False)
        for places, (kind, layers) in zip(grid, rows.items()):
            for axes, layer in zip(places, layers.values()):
                _plane(axes, *layer)
            places[0].set_ylabel(kind)
        for axes, title in zip(grid[0], next(iter(rows.values()))):
            axes.set_title(title)
        legend_of(figure, [grid[0, 0]], "outside lower center", markerscale=2)
    return figure


def few_colours(figure: "Figure") -> bytes:
    """The figure as PNG with a palette of 256 colours: photographs take a third of the space, and look the same."""
    from PIL import Image

    stream = io.BytesIO()
    with Image.open(io.BytesIO(to_png(figure))) as picture:
        picture.convert("RGB").quantize(256).save(stream, "png", optimize=True)
    return stream.getvalue()


def _plane(axes: "Axes", head: Head, *features: NDArray) -> None:
    rng = np.random.default_rng(0)
    test, ood = (z[np.sort(rng.permutation(len(z))[:_POINTS])] for z in features)
    plane = Plane.principal(test, ood)
    points = [plane.project(z) for z in (test, ood)]
    whole = np.concatenate(points)
    low, high = whole.min(axis=0), whole.max(axis=0)
    margin = 0.05 * (high - low)
    window = np.column_stack([low - margin, high + margin])
    look = {"vmax": float(np.log(head.n_classes)), "aspect": "auto", "interpolation": "bilinear"}
    backdrop(axes, lambda xy: entropy(head.logits(plane.lift(xy))), window, _SMALL_GRID, **look)
    axes.plot(*points[1].T, "x", color=OOD, markersize=2.2, markeredgewidth=0.6, label="OOD", linestyle="none")
    axes.plot(
        *points[0].T, "o", color=TRAIN, markersize=2.0, markeredgecolor="white", markeredgewidth=0.2, label="test",
        linestyle="none",
    )  # fmt: skip
    axes.set(xticks=[], yticks=[])


def surest(rows: Mapping[str, Sequence[Sure]]) -> "Figure":
    """One row a network: its surest OOD images, each with the class it was taken for and the confidence."""
    columns = max(len(row) for row in rows.values())
    with drawing(PAGE, 0.2 + 1.22 * len(rows)) as figure:
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
