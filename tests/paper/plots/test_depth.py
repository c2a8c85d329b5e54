"""fig_depth_experiment: every series in its own panel, at its own depth."""

import pytest

from softscope.paper.plots.depth import against_depth

NAMES = ("accuracy", "entropy", "norm", "familiarity", "density")


def runs(start: float) -> dict[str, dict[int, list[float]]]:
    """Two runs at two depths, all numbers different: series n begins at start + 10 n."""
    return {
        name: {2: [start + 10 * n, start + 10 * n + 2], 8: [start + 10 * n + 5] * 2} for n, name in enumerate(NAMES)
    }


def test_each_panel_shows_its_own_series_with_means_and_errors() -> None:
    figure = against_depth({"mnist against fashion": runs(1.0), "fashion against mnist": runs(51.0)})
    panels = figure.axes
    assert [axes.get_title(loc="left") for axes in panels[:3]] == [
        "Accuracy, %",
        "AUROC of U_entropy, %",
        "AUROC of the features, %",
    ]
    assert [panels[0].get_ylabel(), panels[3].get_ylabel()] == ["mnist\nagainst fashion", "fashion\nagainst mnist"]
    assert panels[3].get_xlabel() == "convolutional layers"
    assert panels[3].get_xticks().tolist() == [2, 8]
    shown = []
    for axes in panels:
        for container in axes.containers:
            line, _, bars = container.lines
            lengths = [segment[1][1] - segment[0][1] for segment in bars[0].get_segments()]
            assert lengths == pytest.approx([2.0, 0.0]), "one standard error to each side of the mean of two runs"
            shown.append((container.get_label(), line.get_xdata().tolist(), line.get_ydata().tolist()))
    names = ["accuracy", "U_entropy", "norm(z)", "max cos", "U_density"]
    starts = [1.0, 11.0, 21.0, 31.0, 41.0, 51.0, 61.0, 71.0, 81.0, 91.0]
    assert shown == [(name, [2, 8], [start + 1, start + 5]) for name, start in zip(2 * names, starts)]


def test_single_runs_stand_beside_their_mean() -> None:
    figure = against_depth({"a against b": runs(1.0)})
    dots = [line for line in figure.axes[0].lines if line.get_marker() == "."]
    assert [(line.get_xdata().tolist(), line.get_ydata().tolist()) for line in dots] == [
        ([2.25, 2.25], [1.0, 3.0]),
        ([8.25, 8.25], [6.0, 6.0]),
    ]
