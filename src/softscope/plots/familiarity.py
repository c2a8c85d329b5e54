"""fig_cifar_etc: norm(z) and the cosines between z and the weights, for familiar inputs and for OOD inputs."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ..arrays import Floats
from ..head import Head
from .style import INK, OOD, PAGE, TRAIN, new_figure, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_BINS = 40
_NAMES = ("norm(z)", "cosines but the largest", "largest cosine (familiarity)")


def familiarity_histograms(networks: Mapping[str, tuple[Head, NDArray, NDArray]]) -> "Figure":
    """One row a network, (head, z of test inputs, z of OOD inputs); columns as in the paper's figure."""
    with style():
        figure = new_figure(PAGE, 0.6 + 1.35 * len(networks))
        grid = figure.subplots(len(networks), 3, squeeze=False)
        for row, (title, (head, test, ood)) in zip(grid, networks.items()):
            parts = [_parts(head, z) for z in (test, ood)]
            for axes, low, high in zip(row, *parts):
                _pair(axes, low, high)
            row[0].set_title(title)
        for axes, name in zip(grid[-1], _NAMES):
            axes.set_xlabel(name)
        handles, labels = grid[0, 0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper right", ncols=2)
    return figure


def _parts(head: Head, z: NDArray) -> tuple[Floats, Floats, Floats]:
    cosines = np.sort(head.cosines(z), axis=1)
    return head.norms(z), cosines[:, :-1].ravel(), cosines[:, -1]


def _pair(axes: "Axes", test: Floats, ood: Floats) -> None:
    both = np.concatenate([test, ood])
    edges = np.linspace(float(both.min()), float(both.max()), _BINS + 1).tolist()
    axes.hist(test, edges, density=True, histtype="stepfilled", color=TRAIN, alpha=0.55, label="test")
    axes.hist(ood, edges, density=True, histtype="step", color=OOD, label="OOD", linewidth=1.3)
    for values, colour in ((test, INK), (ood, OOD)):
        axes.axvline(float(np.median(values)), color=colour, linewidth=0.8, linestyle="dotted")
    axes.set_yticks([])
