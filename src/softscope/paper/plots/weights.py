"""fig_weight_analysis: norms, biases and mutual cosines of last layers, beside those that training started from."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ...arrays import Floats
from ...head import Head
from ...reporting.style import FAINT, INK, PAGE, TRAIN, new_figure, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_BINS = 25  # odd, so that one bin is centred on 0
_COLUMNS = 4
_RUG = 60  # so many values are shown one by one as well


@dataclass(frozen=True)
class HeadGroup:
    """One column: heads of networks trained alike, and untrained heads of the same shape."""

    title: str
    trained: list[Head]
    untrained: list[Head]

    def values(self, what: str) -> tuple[Floats, Floats]:
        """All norms, biases (over the mean norm of their head) or cosines, of the trained and of the untrained."""
        of = {"norm": weight_norms, "bias": relative_biases, "cosine": pair_cosines}[what]
        trained, untrained = (np.concatenate([of(head) for head in heads]) for heads in (self.trained, self.untrained))
        return trained, untrained


def weight_norms(head: Head) -> Floats:
    """norm(w_i), K values."""
    return head.weight_norms


def relative_biases(head: Head) -> Floats:
    """b_i / mean norm(w), K values, 0 without a bias."""
    bias = head.bias.astype(np.float64)
    return bias / float(head.weight_norms.mean())


def pair_cosines(head: Head) -> Floats:
    """cos(w_i, w_j) for i < j, K (K - 1) / 2 values."""
    return head.class_cosines[np.triu_indices(head.n_classes, 1)]


def weight_histograms(groups: list[HeadGroup]) -> "Figure":
    """Histograms of norm(w), b and cos(w_i, w_j), one column a group, four side by side; dashed: -1/(K-1)."""
    names = {"norm": "norm(w)", "bias": "b / mean norm(w)", "cosine": "cos(w_i, w_j)"}
    columns = min(len(groups), _COLUMNS)
    bands = -(-len(groups) // columns)
    with style():
        figure = new_figure(max(PAGE * columns / 3, 3.0), 0.4 + 4.6 * bands)
        grid = figure.subplots(3 * bands, columns, squeeze=False)
        for number, group in enumerate(groups):
            band, column = divmod(number, columns)
            own = grid[3 * band : 3 * band + 3, column]
            for axes, (what, label) in zip(own, names.items()):
                _histogram(axes, *group.values(what), _range(what, group))
                axes.set_xlabel(label)
            _mark_optimum(own[2], group.trained[0].n_classes)
            own[0].set_title(group.title)
        for axes in grid[-3:, (len(groups) - 1) % columns + 1 :].flat:
            axes.remove()
        for row in grid:
            row[0].set_ylabel("share of values")
        handles, labels = grid[0, 0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=len(labels))
    return figure


def _range(what: str, group: HeadGroup) -> tuple[float, float]:
    if what == "cosine":
        return -1.05, 1.05
    largest = 1.08 * max(float(np.abs(values).max()) for values in group.values(what))
    if what == "norm":
        return 0.0, largest
    # At least half of the norm to each side, so that small biases look small.
    return -max(largest, 0.5), max(largest, 0.5)


def _histogram(axes: "Axes", trained: Floats, untrained: Floats, span: tuple[float, float]) -> None:
    edges = np.linspace(*span, _BINS + 1)
    filled: dict[str, Any] = {"histtype": "stepfilled", "color": TRAIN, "alpha": 0.75, "label": "trained"}
    line: dict[str, Any] = {"histtype": "step", "color": INK, "linewidth": 1.0, "label": "untrained, same shape"}
    for values, look in ((trained, filled), (untrained, line)):
        axes.hist(values, bins=edges.tolist(), weights=np.full(len(values), 1 / len(values)), **look)
    if len(trained) <= _RUG:
        where = axes.get_xaxis_transform()
        axes.plot(trained, np.full(len(trained), 0.03), "|", color=INK, markersize=5, transform=where)
    axes.set(xlim=span, yticks=[])


def _mark_optimum(axes: "Axes", classes: int) -> None:
    axes.axvline(-1 / (classes - 1), color=FAINT, linestyle="dashed", linewidth=1.2)
    text = "-1/(K-1)" if classes > 2 else "-1/(K-1) = -1"
    axes.annotate(
        text, (-1 / (classes - 1), 1.0), xycoords=("data", "axes fraction"), xytext=(3, 0), textcoords="offset points",
        va="bottom", fontsize=7, color=INK,
    )  # fmt: skip
