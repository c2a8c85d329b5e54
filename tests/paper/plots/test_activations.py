"""fig_activation_mnsit_fashion and the ranking of triples: every row, bar and label in its place."""

import numpy as np
import pytest

from softscope.features import FeatureSet
from softscope.head import Head
from softscope.paper.plots.layers import heat_map, ranking


def test_a_heat_map_has_inputs_in_rows_neurons_by_class_and_its_numbers_beside_them() -> None:
    head = Head(np.eye(2, 3), classes=["cat", "dog"])
    # neuron 0 belongs to dog, neuron 1 to cat, neuron 2 is silent
    train = FeatureSet(np.array([[0, 4, 0], [3, 0, 0]], np.float32), np.array([0, 1]), name="train")
    z = np.array([[1, 5, 0], [6, 2, 0], [0.5, 0.25, 0]])
    columns = {"s_max": np.array([0.9, 0.8, 0.4]), "norm": np.array([5.1, 6.3, 0.6]), "cos": np.array([0.7, 0.6, 0.1])}
    images = [np.zeros((4, 4, 1), np.uint8)] * 3
    figure = heat_map(head, train, z, images, np.array([0, 1]), ["shoe"], columns, "a title")
    thumbnails, activations, *bars = figure.axes[:5]
    shown = np.ma.filled(activations.images[0].get_array().astype(float), np.nan)
    np.testing.assert_array_equal(shown, [[5, 1], [2, 6], [np.nan, np.nan], [0.25, 0.5]], "cat's neuron first, a gap")
    assert [text.get_text() for text in activations.texts] == ["cat", "dog", "OOD inputs"]
    assert [(text.get_text(), text.get_position()[1]) for text in thumbnails.texts] == [
        ("cat", 0),
        ("dog", 1),
        ("shoe", 3),
    ]
    texts = [[text.get_text() for text in axes.texts] for axes in bars]
    assert texts == [
        ["0.900", "0.800", "0.400", "s_max"],
        ["5.1", "6.3", "0.6", "norm(z)"],
        ["0.70", "0.60", "0.10", "max cos"],
    ]
    assert [bar.get_width() for bar in bars[1].patches] == pytest.approx([5.1 / 6.3, 1.0, 0.6 / 6.3])
    assert figure.get_suptitle() == "a title"
    assert "1 of 3 neurons" in figure.axes[-1].get_xlabel()


def test_the_ranking_fills_triples_with_the_suspect_and_shows_the_effect_of_each_class() -> None:
    triples = [(("x", "a"), 9.0), (("a", "b"), 5.0), (("x", "b"), 2.0)]
    effects = [
        {"class": "x", "with": 5.5, "with_error": 0.5, "without": 5.0, "without_error": 0.1},
        {"class": "a", "with": 7.0, "with_error": 0.2, "without": 2.0, "without_error": 0.3},
    ]
    left, right = ranking(triples, effects, "x").axes
    places = {line.get_label(): (line.get_xdata().tolist(), line.get_ydata().tolist()) for line in left.lines}
    assert places == {"with x": ([1, 3], [9.0, 2.0]), "without": ([2], [5.0])}
    assert "1  x, a\n2  a, b\n3  x, b" in left.texts[0].get_text()
    assert (left.get_xlabel(), left.get_ylabel()) == ("rank", "overlap, % (100 − AUROC of U_density)")
    shown = {c.get_label(): c.lines[0].get_xdata().tolist() for c in right.containers}
    assert shown == {"triples with the class": [5.5, 7.0], "without it": [5.0, 2.0]}
    labels = right.get_yticklabels()
    assert [(label.get_text(), label.get_fontweight()) for label in labels] == [("x", "bold"), ("a", "normal")]
