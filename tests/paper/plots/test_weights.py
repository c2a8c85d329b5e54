"""Histograms of last layers: what is counted, and that any list of heads can be drawn."""

from typing import Any

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


def test_each_column_counts_the_values_of_its_own_heads_with_the_optimum_dashed() -> None:
    two = Head(np.array([[3.0, 4.0], [0.0, 10.0]]), np.array([1.5, -3.0]))
    three = Head(2 * np.eye(3), np.array([0.5, 0.0, 1.0]))
    plain = Head(np.array([[1.0, 0.0], [0.0, 1.0]]))
    figure = weight_histograms(
        [HeadGroup("two", [two], [plain]), HeadGroup("three", [three, three], [Head(np.eye(3))])]
    )
    shown = np.array(figure.axes).reshape(3, 2)
    assert [axes.get_title(loc="left") for axes in shown[0]] == ["two", "three"]
    assert [axes.get_xlabel() for axes in shown[:, 0]] == ["norm(w)", "b / mean norm(w)", "cos(w_i, w_j)"]
    assert [axes.get_ylabel() for axes in shown[:, 0]] == ["share of values"] * 3
    rugs = [next(line for line in axes.lines if line.get_marker() == "|") for axes in shown.T.ravel()]
    expected = [[5, 10], [0.2, -0.4], [0.8], [2] * 6, [0.25, 0, 0.5] * 2, [0] * 6]
    for rug, values in zip(rugs, expected):
        np.testing.assert_allclose(rug.get_xdata(), values, atol=1e-12)
    assert [axes.lines[-1].get_xdata()[0] for axes in shown[2]] == [-1.0, -0.5], "-1/(K-1)"
    untrained = [_highest(axes, "untrained, same shape") for axes in shown.T.ravel()]
    for (left, right), value in zip(untrained, [1, 0, 0, 1, 0, 0]):
        assert left <= value <= right


def _highest(axes: Any, label: str) -> tuple[float, float]:
    """Ends of the highest bin of the histogram with this label."""
    (outline,) = [patch.get_xy() for patch in axes.patches if patch.get_label() == label]
    top = outline[outline[:, 1] == outline[:, 1].max(), 0]
    return float(top.min()), float(top.max())
