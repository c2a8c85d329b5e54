"""Final layers: weights beside those of untrained heads (X3), heat maps of activations, overlap of classes (X5)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ...arrays import Floats
from ...features import FeatureSet
from ...head import Head
from ...reporting.style import CLASS_COLOURS, CONFIDENCE_MAP, FAINT, INK, OOD, PAGE, TRAIN
from . import drawing, legend_of

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
        of = {"norm": lambda head: head.weight_norms, "bias": relative_biases, "cosine": pair_cosines}[what]
        trained, untrained = (np.concatenate([of(head) for head in heads]) for heads in (self.trained, self.untrained))
        return trained, untrained


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
    with drawing(max(PAGE * columns / 3, 3.0), 0.4 + 4.6 * bands) as figure:
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
        legend_of(figure, [grid[0, 0]], "outside lower center")
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


_MEASURES = {"s_max": ("s_max", "{:.3f}"), "norm": ("norm(z)", "{:.1f}"), "cos": ("max cos", "{:.2f}")}
_ROW = 0.215  # inches
_GAP = 1  # empty rows between what is learned and what is not


def heat_map(
    head: Head,
    train: FeatureSet,
    z: NDArray,
    images: Sequence[NDArray],
    labels: NDArray,
    ood: Sequence[str],
    columns: Mapping[str, NDArray],
    title: str,
) -> "Figure":
    """fig_activation_mnsit_fashion: a row an input, the learned (`labels`) above the OOD ones (`ood`, their classes).

    `z`, `images` and `columns` (s_max, norm, cos) have a row each in that order; `train` decides the order of neurons.
    """
    order, group = neuron_groups(train, head.n_classes)
    heard = group >= 0
    silent = int(np.sum(~heard))
    known = len(labels)
    rows = np.arange(len(z)) + _GAP * (np.arange(len(z)) >= known)
    names = [*(head.class_name(int(k)) for k in labels), *ood]
    with drawing(PAGE, 0.95 + _ROW * (len(z) + _GAP)) as figure:
        figure.suptitle(title, fontsize=9, fontweight="bold")
        widths = (0.32, 6.2, 1.0, 1.0, 1.0)
        axes = figure.subplots(1, len(widths), width_ratios=widths, sharey=True)
        picture = _activations(axes[1], z[:, order[heard]], rows, group[heard], head)
        axes[1].text(-0.3, known, "OOD inputs", color=OOD, va="center", fontsize=7, fontweight="bold")
        _thumbnails(axes[0], images, rows, names, known)
        for panel, (name, (words, form)) in zip(axes[2:], _MEASURES.items()):
            _bars(panel, np.asarray(columns[name], np.float64), rows, known, words, form)
        for panel in axes:
            panel.set_ylim(rows[-1] + 0.5, -0.5)
        bar = figure.colorbar(picture, ax=axes[1], orientation="horizontal", fraction=0.03, pad=0.02, aspect=50)
        hidden = f" ({silent} of {len(group)} neurons, which no training input excites, are left out)" if silent else ""
        bar.set_label(f"activation{hidden}")
        bar.outline.set_visible(False)
    return figure


def neuron_groups(train: FeatureSet, classes: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Neurons in the order of display and the class of each: the one whose training inputs excite it most on average.

    Within a class the most excited first; neurons that no training input excites come last, as class -1.
    """
    values, labels = train.array(), train.labels
    assert labels is not None
    means = np.stack([values[labels == k].mean(axis=0) for k in range(classes)]).astype(np.float64)
    best, strength = means.argmax(axis=0), means.max(axis=0)
    best = np.where(np.abs(values).max(axis=0) > 0, best, classes)
    order = np.lexsort((-strength, best))
    return order, np.where(best[order] == classes, -1, best[order])


def ranking(
    triples: Sequence[tuple[Sequence[str], float]], effects: Sequence[Mapping[str, Any]], suspect: str
) -> "Figure":
    """Left: overlap of every triple, largest first, those with `suspect` filled. Right: the effect of each class.

    `triples` are class names and overlap; `effects` have class, with, with_error, without, without_error.
    """
    with drawing(PAGE, 3.3) as figure:
        left, right = figure.subplots(1, 2, width_ratios=(1.35, 1.0))
        overlap = np.array([value for _, value in triples])
        inside = np.array([suspect in names for names, _ in triples])
        place = np.arange(1, len(triples) + 1)
        left.plot(place[inside], overlap[inside], "o", color=OOD, markersize=4.5, label=f"with {suspect}", zorder=3)
        left.plot(
            place[~inside], overlap[~inside], "o", color=FAINT, markersize=4, markerfacecolor="none", label="without"
        )
        worst = "\n".join(f"{rank}  {', '.join(names)}" for rank, (names, _) in enumerate(triples[:5], 1))
        left.text(0.98, 0.70, f"the worst:\n{worst}", transform=left.transAxes, ha="right", va="top", fontsize=6.5)
        left.set(
            title=f"{len(triples)} triples of classes", xlabel="rank", ylabel="overlap, % (100 − AUROC of U_density)"
        )
        left.set_ylim(bottom=0)
        left.legend(loc="upper right")
        _effects(right, effects, suspect)
    return figure


def _activations(axes: "Axes", z: NDArray, rows: NDArray, group: NDArray[np.int64], head: Head) -> Any:
    whole = np.full((int(rows[-1]) + 1, z.shape[1]), np.nan)
    whole[rows] = z
    picture = axes.imshow(
        whole,
        cmap=CONFIDENCE_MAP,
        aspect="auto",
        interpolation="nearest",
        vmin=min(0.0, float(z.min())),
        vmax=float(z.max()),
    )
    axes.spines[:].set_visible(False)
    axes.set_xticks([])
    axes.tick_params(length=0, labelleft=False)
    for number in dict.fromkeys(group.tolist()):
        here = np.flatnonzero(group == number)
        colour, name = CLASS_COLOURS[number], head.class_name(number)
        axes.plot([here[0] - 0.3, here[-1] + 0.3], [-0.75] * 2, color=colour, linewidth=3, clip_on=False)
        axes.text(here.mean(), -1.0, name, color=INK, ha="center", va="bottom", fontsize=7)
        if here[0] > 0:
            axes.axvline(here[0] - 0.5, color="white", linewidth=1.2)
    return picture


def _thumbnails(axes: "Axes", images: Sequence[NDArray], rows: NDArray, names: Sequence[str], known: int) -> None:
    for number, (image, row, name) in enumerate(zip(images, rows, names)):
        colour = TRAIN if number < known else OOD
        axes.imshow(
            image[..., 0], cmap="gray_r", extent=(0, 1, row + 0.46, row - 0.46), aspect="auto", vmin=0, vmax=255
        )
        axes.text(-0.15, row, name, ha="right", va="center", fontsize=6.5, color=colour, clip_on=False)
    axes.set_xlim(0, 1)
    axes.set_axis_off()


def _bars(axes: "Axes", values: Floats, rows: NDArray, known: int, words: str, form: str) -> None:
    colours = [TRAIN if number < known else OOD for number in range(len(values))]
    top = max(float(values.max()), 1e-9)
    axes.barh(rows, np.maximum(values, 0) / top, color=colours, height=0.72, alpha=0.35)
    for value, row in zip(values, rows):
        axes.text(0.04, row, form.format(value), va="center", fontsize=6.5, color=INK)
    axes.set_xlim(0, 1)
    axes.set_axis_off()
    axes.text(0.04, -1.0, words, ha="left", va="bottom", fontsize=7, clip_on=False)


def _effects(axes: "Axes", effects: Sequence[Mapping[str, Any]], suspect: str) -> None:
    places = np.arange(len(effects))
    for name, colour, marker, words in (
        ("with", TRAIN, "o", "triples with the class"),
        ("without", FAINT, "s", "without it"),
    ):
        values, errors = ([row[key] for row in effects] for key in (name, f"{name}_error"))
        axes.errorbar(values, places, xerr=errors, fmt=marker, color=colour, markersize=4.5, capsize=2, label=words)
    axes.set_yticks(places, [row["class"] for row in effects])
    for label in axes.get_yticklabels():
        if label.get_text() == suspect:
            label.set(fontweight="bold", color=OOD)
    axes.invert_yaxis()
    axes.grid(axis="x")
    axes.set(title="Which class is to blame", xlabel="mean overlap, %", xlim=(0, None))
    axes.legend(loc="upper center", bbox_to_anchor=(0.4, -0.16), ncols=2, handletextpad=0.2, columnspacing=1.0)
