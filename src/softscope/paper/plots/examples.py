"""fig_2d b: example inputs beside the plane of the final layer that the network maps them to."""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ...geometry import Plane
from ...head import Head
from ...reporting.style import FAINT, OOD, PAGE, TRAIN, new_figure, style
from .plane import Cloud, confidence_bar, map_final_layer

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

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
    with style():
        figure = new_figure(PAGE, 3.9)
        figure.suptitle(remark, fontsize=8)
        left, right = figure.subplots(1, 2, width_ratios=(0.6, 1.0))
        _thumbnails(left, images, names)
        clouds = [Cloud(test, labels), Cloud(ood)]
        picture = map_final_layer(right, head, Plane.principal(test, ood), clouds, threshold)
        right.set(title="Final layer")
        confidence_bar(figure, picture, [right], head.n_classes)
        known = {f"train, class {k}": f"test, class {head.class_name(k)}" for k in range(head.n_classes)}
        handles, texts = right.get_legend_handles_labels()
        shown = [known.get(text, text) for text in texts]
        figure.legend(handles, shown, loc="outside lower center", ncols=len(shown), handletextpad=0.3)
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
    with style():
        figure = new_figure(PAGE, 0.9 + 0.22 * len(names))
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
