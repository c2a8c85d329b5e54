"""The density search (X8): AUROC against each option, and against held-out likelihood."""

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ..tuning import COMPONENTS, COVARIANCES, FITS, LAYERS, RIDGES, TRANSFORMS, Search, Setting, Tried
from .style import CLASS_COLOURS, FAINT, INK, OOD, PAGE, new_figure, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_OPTIONS = ("fit", "neurons", "ridge", "layer", "covariance", "transform", "components")
_LABEL = {True: "mean AUROC, %", False: "held-out\nlog-likelihood"}
_FULL, _TICKS = 100.1, (0, 50, 80, 90, 95, 98, 99, 99.5, 99.9)
_LOW_TICKS = (0, 30, 50, 60, 70, 80, 85, 90)
_WORDS = {"classes": "class", "em": "EM", "none": "z", "log": "log z", "diagonal": "diag", "spherical": "iso"}
_LOOKS = {"full": (CLASS_COLOURS[0], "o"), "diagonal": (CLASS_COLOURS[4], "s"), "spherical": (CLASS_COLOURS[1], "^")}
_BEST_LABEL = "best by AUROC"
_BEST: dict[str, Any] = {"marker": "*", "s": 75, "color": OOD, "edgecolor": "white", "linewidth": 0.5, "zorder": 5}
_LIKELY = _BEST | {"marker": "P", "s": 42, "color": CLASS_COLOURS[1], "zorder": 4}
_PAPER: dict[str, Any] = {"marker": "D", "s": 30, "facecolor": "none", "edgecolor": INK, "linewidth": 1.0, "zorder": 6}


def against_options(searches: Mapping[str, Search], softmax: Mapping[str, float] | None = None) -> "Figure":
    """A row of strips a network: every setting's mean AUROC over OOD sets, by each of the seven options, and E8.

    The line follows the paper's setting where nothing but this option changes; `softmax` is the AUROC of U_entropy.
    Without OOD sets: held-out log-likelihood, of settings on all neurons after the non-linearity.
    """
    with style():
        figure = new_figure(PAGE + 1.2, 0.75 + 1.35 * len(searches))
        grid = figure.subplots(len(searches), len(_OPTIONS) + 1, sharey="row", squeeze=False)
        for row, (name, search) in zip(grid, searches.items()):
            for axes, option in zip(row, _OPTIONS):
                _strip(axes, search, option)
            _kernels(row[-1], search)
            row[0].set_ylabel(f"{name}\n{_LABEL[search.has_ood]}".strip())
            for axes in row:
                axes.grid(axis="y")
                axes.set_axisbelow(True)
                _scale(axes, search, softmax[name] if softmax else 0.0)
                if softmax:
                    axes.axhline(softmax[name], color=CLASS_COLOURS[2], linestyle=":", linewidth=1.0)
        for axes, option in zip(grid[0], [*_OPTIONS, "E8"]):
            axes.set_title("features" if option == "transform" else option)
        _legend(figure, softmax=bool(softmax), ood=all(search.has_ood for search in searches.values()))
    return figure


def against_likelihood(searches: Mapping[str, Search]) -> "Figure":
    """Mean AUROC against held-out log-likelihood of all neurons that feed the head, a panel a network."""
    with style():
        columns = min(3, len(searches))
        lines = -(-len(searches) // columns)
        figure = new_figure(max(5.0, PAGE * columns / 3), 0.7 + 2.1 * lines)
        grid = figure.subplots(lines, columns, squeeze=False)
        for axes, (name, search) in zip(grid.flat, searches.items()):
            _scatter(axes, search)
            axes.set_title(name)
        for axes in grid.flat[len(searches) :]:
            axes.set_axis_off()
        for axes in grid[:, 0]:
            axes.set_ylabel("mean AUROC, %")
        for number, axes in enumerate(grid.flat[: len(searches)]):
            if number + columns >= len(searches):
                axes.set_xlabel("nats a row below the most likely")
        handles = [
            grid.flat[0].scatter(
                [], [], color=colour, marker=marker, s=14, label=name.replace("spherical", "isotropic")
            )
            for name, (colour, marker) in _LOOKS.items()
        ]
        handles += [grid.flat[0].scatter([], [], facecolor="none", edgecolor=FAINT, s=14, label="log z: hollow")]
        handles += _handles(grid.flat[0])
        figure.legend(handles=handles, loc="outside lower center", ncols=3)
    return figure


def _scale(axes: "Axes", search: Search, more: float = 0.0) -> None:
    """AUROC by the logarithm of what is missing to 100, so that 99 and 99.9 are told apart; likelihood by powers."""
    if not search.has_ood:
        axes.set_yscale("symlog", linthresh=100.0)
        return
    axes.set_yscale("function", functions=(lambda y: -np.log10(_FULL - np.minimum(y, 100)), lambda t: _FULL - 10**-t))
    shown = [one.mean_auroc for one in (*search.tried, *search.kernels)]
    low, high = min(shown), max(*shown, more)
    low, high = low - 0.1 * (100 - low), min(high + 0.5 * (100 - high), 99.99)
    axes.set_ylim(low, high)
    ticks = [tick for tick in (_TICKS if high > 95 else _LOW_TICKS) if low <= tick <= high]
    axes.set_yticks(ticks, [f"{tick:g}" for tick in ticks])


def _strip(axes: "Axes", search: Search, option: str) -> None:
    choices = _choices(search, option)
    places = {choice: place for place, choice in enumerate(choices)}
    rng = np.random.default_rng(0)
    shown = _shown(search)
    x = np.array([places[getattr(one.setting, option)] for one in shown])
    y = np.array([_height(search, one) for one in shown])
    axes.plot(x + rng.uniform(-0.28, 0.28, len(x)), y, ".", color=FAINT, alpha=0.45, markersize=2.5, markeredgewidth=0)
    known = {one.setting: one for one in shown}
    paper = search.paper
    assert isinstance(paper.setting, Setting)
    path = [(place, known.get(replace(paper.setting, **{option: choice}))) for choice, place in places.items()]
    here = [(place, _height(search, one)) for place, one in path if one is not None]
    axes.plot(*zip(*here), color=INK, linewidth=1.0, marker="o", markersize=2.5)
    marked = [(paper, _PAPER), (search.by_likelihood, _LIKELY)]
    for chosen, look in [*marked, (search.by_auroc, _BEST)] if search.has_ood else marked:
        axes.scatter([places[getattr(chosen.setting, option)]], [_height(search, chosen)], **look)
    axes.set_xticks(range(len(choices)), [_word(option, choice) for choice in choices], rotation=55, ha="right")
    axes.tick_params(axis="x", labelsize=6, pad=1)
    axes.set_xlim(-0.5, len(choices) - 0.5)


def _shown(search: Search) -> list[Tried]:
    """What is drawn: everything, or without OOD sets the settings whose likelihoods compare."""
    return list(search.tried) if search.has_ood else search.comparable


def _height(search: Search, one: Tried) -> float:
    if search.has_ood:
        return one.mean_auroc
    assert one.held_out is not None
    return one.held_out


def _choices(search: Search, option: str) -> list[Any]:
    """Every choice of an option that was tried, in the paper's order."""
    order: dict[str, Any] = {"fit": FITS, "ridge": RIDGES, "layer": LAYERS, "covariance": COVARIANCES}
    order |= {"transform": TRANSFORMS, "components": COMPONENTS}
    tried = {getattr(one.setting, option) for one in _shown(search)}
    return [choice for choice in order.get(option, sorted(tried)) if choice in tried]


def _word(option: str, choice: Any) -> str:
    if option == "ridge":
        return f"{choice:.0e}".replace("e-0", "e-")
    return _WORDS.get(str(choice), str(choice))


def _kernels(axes: "Axes", search: Search) -> None:
    names = {("before", "none"): "before", ("after", "none"): "z", ("after", "log"): "log z"}
    drawn = [one for one in search.kernels if search.has_ood or (one.held_out is not None and _kind(one)[0] == "after")]
    present = [key for key in names if any(_kind(one) == key for one in drawn)]
    best = search.kernel
    for place, key in enumerate(present):
        own = [_height(search, one) for one in drawn if _kind(one) == key]
        axes.plot([place] * len(own), own, ".", color=FAINT, markersize=5, markeredgewidth=0)
    axes.scatter([present.index(_kind(best))], [_height(search, best)], **_BEST | {"s": 40, "color": FAINT})
    axes.set_xticks(range(len(present)), [names[key] for key in present], rotation=55, ha="right")
    axes.tick_params(axis="x", labelsize=6, pad=1)
    axes.set_xlim(-0.5, len(present) - 0.5)


def _kind(one: Tried) -> tuple[str, str]:
    return one.setting.layer, one.setting.transform


def _scatter(axes: "Axes", search: Search) -> None:
    best = search.by_likelihood
    own = search.comparable
    for one in own:
        assert isinstance(one.setting, Setting)
        colour, marker = _LOOKS[one.setting.covariance]
        face = "none" if one.setting.transform == "log" else colour
        axes.scatter(
            [_below(one, best)], [one.mean_auroc], facecolor=face, edgecolor=colour, marker=marker, s=14, linewidth=0.8
        )
    chosen = [(search.paper, _PAPER), (best, _LIKELY)]
    if any(one.setting == search.by_auroc.setting for one in own):
        chosen.append((search.by_auroc, _BEST))
    for one, look in chosen:
        axes.scatter([_below(one, best)], [one.mean_auroc], **look)
    # Likelihoods spread over many powers of ten where a ridge is too small; the best is at 0.
    axes.set_xscale("symlog", linthresh=10.0)
    axes.xaxis.set_inverted(True)
    _scale(axes, search)
    axes.grid(axis="y")
    axes.set_axisbelow(True)


def _below(one: Tried, best: Tried) -> float:
    assert one.held_out is not None
    assert best.held_out is not None
    return best.held_out - one.held_out


def _handles(axes: "Axes") -> list[Any]:
    looks = {"the paper's setting": _PAPER, _BEST_LABEL: _BEST, "most likely held-out rows": _LIKELY}
    return [axes.scatter([], [], label=label, **look) for label, look in looks.items()]


def _legend(figure: "Figure", *, softmax: bool, ood: bool) -> None:
    axes = figure.axes[0]
    handles = [handle for handle in _handles(axes) if ood or handle.get_label() != _BEST_LABEL]
    handles += axes.plot([], [], color=INK, linewidth=1.0, marker="o", markersize=2.5, label="nothing else changed")
    handles += axes.plot([], [], ".", color=FAINT, label="every setting tried")
    if softmax:
        handles += axes.plot([], [], ":", color=CLASS_COLOURS[2], label="U_entropy")
    figure.legend(handles=handles, loc="outside lower center", ncols=3)
