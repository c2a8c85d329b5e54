"""fig_cifar_etc: norm(z) and the cosines between z and the weights, for familiar inputs and for OOD inputs."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ...arrays import Floats
from ...head import Head
from ...reporting.style import INK, OOD, PAGE, TRAIN, new_figure, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from ...diagnosis.model import Histogram

_BINS = 40
# On the blue of training: no other blue.
_SETS = ("#009E73", "#CC79A7", "#E69F00", "#D55E00", "#000000")
_LINES = ("solid", (0, (4, 1)), (0, (1, 1)), (0, (5, 1, 1, 1)), (0, (3, 1, 1, 1, 1, 1)))
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


def familiarity_by_set(networks: "Mapping[str, tuple[Histogram, Histogram, Histogram]]") -> "Figure":
    """One row a network; columns as above, each a histogram with counts of "train" and of every OOD set.

    Every set has a colour and a line of its own, the same in all rows.
    """
    sets = dict.fromkeys(name for row in networks.values() for name in row[0].counts if name not in ("train", "test"))
    looks = {name: (_SETS[n % len(_SETS)], _LINES[n % len(_LINES)]) for n, name in enumerate(sets)}
    with style():
        figure = new_figure(PAGE, 0.9 + 1.35 * len(networks))
        grid = figure.subplots(len(networks), 3, squeeze=False)
        for row, (title, histograms) in zip(grid, networks.items()):
            for axes, histogram in zip(row, histograms):
                _counted(axes, histogram, looks)
            row[0].set_title(title)
        for axes, name in zip(grid[-1], _NAMES):
            axes.set_xlabel(name)
        handles = {words: handle for axes in grid[:, 0] for handle, words in zip(*axes.get_legend_handles_labels())}
        ordered = [name for name in ("train (learned)", *looks) if name in handles]
        figure.legend([handles[name] for name in ordered], ordered, loc="outside lower center", ncols=len(ordered))
    return figure


def _counted(axes: "Axes", histogram: "Histogram", looks: Mapping[str, tuple[str, object]]) -> None:
    edges = np.asarray(histogram.edges)
    shown = {name: np.asarray(counts, float) for name, counts in histogram.counts.items() if name != "test"}
    for name, counts in shown.items():
        density = counts / (counts.sum() * np.diff(edges))
        if name == "train":
            axes.stairs(density, edges, fill=True, color=TRAIN, alpha=0.45, label="train (learned)")
        else:
            colour, dashes = looks[name]
            axes.stairs(density, edges, color=colour, linestyle=dashes, linewidth=1.1, label=name)
    used = np.flatnonzero(sum(shown.values()))
    axes.set_xlim(edges[used[0]], edges[used[-1] + 1])
    axes.set_ylim(bottom=0)
    axes.set_yticks([])


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
