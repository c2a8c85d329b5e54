"""Example inputs beside their plane, the spread over triples, and histograms of familiarity."""

import numpy as np
import pytest

from softscope.head import Head
from softscope.paper.plots.examples import examples_and_plane, triple_spread
from softscope.paper.plots.familiarity import familiarity_histograms
from softscope.reporting.style import to_png


@pytest.mark.parametrize("images", [5, 40])
def test_inputs_and_plane_are_shown_together_however_few_images(images: int, rng: np.random.Generator) -> None:
    head = Head(rng.normal(size=(3, 4)), classes=["4", "6", "7"])
    pictures = rng.integers(0, 256, (images, 8, 8, 1))
    features = rng.normal(size=(30, 4)), np.arange(30) % 3, rng.normal(size=(20, 4))
    figure = examples_and_plane(head, (pictures, pictures), features, 0.5, ("digits", "others"), "a remark")
    left, right, *_ = figure.axes
    assert [text.get_text() for text in left.texts] == ["digits", "others"]
    assert left.images[0].get_array().shape == left.images[1].get_array().shape
    names = [text.get_text() for text in figure.legends[0].get_texts()]
    assert names[-4:] == ["test, class 4", "test, class 6", "test, class 7", "OOD"]
    assert sum(len(cloud.get_offsets()) for cloud in right.collections if len(cloud.get_offsets()) > 1) == 50
    assert to_png(figure).startswith(b"\x89PNG")


def test_triples_are_sorted_and_the_chosen_one_is_bold() -> None:
    figure = triple_spread(["0, 1, 2", "3, 4, 5", "6, 7, 8"], [95.0, 99.0, 90.0], [80.0, 85.0, 90.0], chosen=0)
    series = {line.get_label(): line.get_xdata().tolist() for line in figure.axes[0].lines}
    assert series == {"U_entropy": [90.0, 95.0, 99.0], "U_density": [90.0, 80.0, 85.0]}
    labels = figure.axes[0].get_yticklabels()
    assert [label.get_text() for label in labels] == ["6, 7, 8", "0, 1, 2", "3, 4, 5"]
    assert [label.get_fontweight() == "bold" for label in labels] == [False, True, False]


def test_each_network_has_norms_and_both_kinds_of_cosines(rng: np.random.Generator) -> None:
    head = Head(rng.normal(size=(3, 4)))
    test, ood = 3 * rng.normal(size=(200, 4)), rng.normal(size=(100, 4))
    figure = familiarity_histograms({"a": (head, test, ood), "b": (head, test, ood)})
    assert len(figure.axes) == 6
    norms = figure.axes[0]
    medians = [line.get_xdata()[0] for line in norms.lines]
    np.testing.assert_allclose(medians, [np.median(np.linalg.norm(z, axis=1)) for z in (test, ood)])
    assert figure.axes[3].get_xlabel() == "norm(z)"
