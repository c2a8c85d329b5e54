"""Curves: every run, its mean and its interval stand where they belong."""

import numpy as np
import pytest
from scipy.stats import t

from softscope.paper.plots.benchmark import against_depth, dials

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


def test_curves_are_means_over_runs_with_their_intervals_and_the_own_cause_is_thick() -> None:
    causes = {"saturation": [[0.0, 2.0], [4.0, 8.0]], "overlap": [[1.0, 1.0], [3.0, 5.0]]}
    figure = dials({"saturation": ([1, 10], causes), "overlap": ([0, 0.5], causes)})
    first, second = figure.axes
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["saturation", "overlap"]
    assert [label.get_text() for label in first.get_xticklabels()] == ["1", "10"]
    assert [label.get_text() for label in second.get_xticklabels()] == ["0", "0.5"]
    lines = [container.lines[0] for container in first.containers]
    np.testing.assert_allclose(np.asarray(lines[0].get_ydata(), float), [1.0, 6.0])
    np.testing.assert_allclose(np.asarray(lines[1].get_ydata(), float), [1.0, 4.0])
    assert lines[0].get_linewidth() > 2 * lines[1].get_linewidth()
    assert [container.lines[0].get_linewidth() for container in second.containers] == [1.0, 2.4]
    low, high = first.containers[0].lines[2][0].get_segments()[1][:, 1]
    half = t.ppf(0.975, 1) * np.std([4.0, 8.0], ddof=1) / np.sqrt(2)
    assert (low, high) == pytest.approx((6 - half, 6 + half))
    assert first.get_xlabel() == "logits times"
