"""Histograms of last layers: what is counted, and that any list of heads can be drawn."""

import numpy as np
import pytest

from softscope.geometry import optimal_structure
from softscope.head import Head
from softscope.paper.plots.layers import HeadGroup, pair_cosines, relative_biases, weight_histograms
from softscope.reporting.style import to_png


def test_biases_are_relative_to_the_mean_norm() -> None:
    head = Head(np.array([[3.0, 4.0], [0.0, 15.0]]), np.array([1.0, -2.0]))
    np.testing.assert_allclose(relative_biases(head), [0.1, -0.2])
    np.testing.assert_array_equal(relative_biases(Head(head.weight)), [0, 0])


def test_each_pair_of_classes_counts_once() -> None:
    np.testing.assert_allclose(pair_cosines(optimal_structure(4, 6)), np.full(6, -1 / 3))


@pytest.mark.parametrize("columns", [1, 5])
def test_any_number_of_heads_is_drawn_three_histograms_each(columns: int, rng: np.random.Generator) -> None:
    shapes = [(2, 4), (5, 16), (10, 64), (100, 64), (1000, 32)][:columns]
    groups = [HeadGroup(f"K={k}, H={h}", [Head(rng.normal(size=(k, h)))], [Head(np.ones((k, h)))]) for k, h in shapes]
    figure = weight_histograms(groups)
    assert len(figure.axes) == 3 * columns
    assert {"trained", "untrained, same shape"} == {text.get_text() for text in figure.legends[0].get_texts()}
    shares = [patch.get_xy()[:, 1].max() for patch in figure.axes[0].patches]
    assert max(shares) <= 1 + 1e-9
    assert to_png(figure).startswith(b"\x89PNG")
