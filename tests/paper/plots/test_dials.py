"""The picture of the dials: each curve where it belongs, the own cause thick, intervals as Student has them."""

import numpy as np
import pytest
from scipy.stats import t

from softscope.paper.plots.dials import dials


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
