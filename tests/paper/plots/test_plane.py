"""The plane of principal components, against scikit-learn's; and that the pictures hold what they should."""

import numpy as np
import pytest

from softscope.head import Head
from softscope.paper.plots.benchmark import familiarity_histograms
from softscope.paper.plots.plane import (
    Layer,
    Plane,
    Sure,
    examples_and_plane,
    few_colours,
    final_layers,
    input_and_plane,
    surest,
    triple_spread,
)
from softscope.reporting.style import CLASS_COLOURS, CLASS_MARKERS, to_png


def test_the_plane_is_scikit_learns_pca_of_both_sets_together(rng: np.random.Generator) -> None:
    from sklearn.decomposition import PCA

    train, ood = rng.normal(size=(50, 6)) * np.arange(1, 7), rng.normal(size=(30, 6)) + 3
    plane = Plane.principal(train, ood)
    both = np.concatenate([train, ood])
    expected = PCA(2).fit_transform(both)
    found = plane.project(both)
    np.testing.assert_allclose(np.abs(found), np.abs(expected), atol=1e-9)
    assert (plane.axes[np.arange(2), np.abs(plane.axes).argmax(axis=1)] > 0).all()


def test_lifting_a_projected_point_of_the_plane_gives_it_back(rng: np.random.Generator) -> None:
    plane = Plane.principal(rng.normal(size=(20, 5)))
    coordinates = rng.normal(size=(7, 2))
    np.testing.assert_allclose(plane.project(plane.lift(coordinates)), coordinates, atol=1e-12)


def test_the_picture_shows_both_spaces_all_points_and_equal_scales(rng: np.random.Generator) -> None:
    head = Head(rng.normal(size=(3, 2)))
    train, labels, ood = rng.normal(size=(30, 2)), np.arange(30) % 3, 4 * rng.normal(size=(20, 2))
    figure = input_and_plane(head.logits, head, (train, labels, ood), (train, ood), 0.5, "a remark")
    left, right, *_ = figure.axes
    for axes in (left, right):
        assert sum(len(cloud.get_offsets()) for cloud in axes.collections if len(cloud.get_offsets()) > 1) == 50
        assert np.ptp(axes.get_xlim()) == pytest.approx(np.ptp(axes.get_ylim()))
    names = [text.get_text() for text in figure.legends[0].get_texts()]
    assert names == ["5 % of training is less confident", *(f"train, class {k}" for k in range(3)), "OOD"]
    assert to_png(figure).startswith(b"\x89PNG")


def test_classes_differ_by_colour_and_by_marker() -> None:
    assert len(set(CLASS_COLOURS)) == len(CLASS_COLOURS) == len(set(CLASS_MARKERS)) == len(CLASS_MARKERS)


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


def test_layers_stand_by_kind_and_data_set_with_both_kinds_of_points(rng: np.random.Generator) -> None:
    head = Head(rng.normal(size=(3, 4)))
    layer = Layer(head, rng.normal(size=(30, 4)), rng.normal(size=(20, 4)))
    figure = final_layers({"fine-tuned": {"beans": layer, "pets": layer}, "scratch": {"beans": layer, "pets": layer}})
    assert [axes.get_title(loc="left") for axes in figure.axes[:2]] == ["beans", "pets"]
    assert [figure.axes[0].get_ylabel(), figure.axes[2].get_ylabel()] == ["fine-tuned", "scratch"]
    points = {line.get_label(): len(line.get_xdata()) for line in figure.axes[0].lines}
    assert points == {"OOD": 20, "test": 30}


def test_the_surest_images_carry_the_class_they_were_taken_for_and_never_certainty() -> None:
    grey, colour = np.full((4, 4, 1), 7, np.uint8), np.full((4, 4, 3), 9, np.uint8)
    figure = surest({"Pets": [Sure(grey, "a_very_long_class_name", 0.99999), Sure(colour, "cat", 0.5)]})
    first, second = figure.axes
    assert first.get_xlabel() == "a very long cl…\n> 99.9 %"
    assert second.get_xlabel() == "cat\n50.0 %"
    assert first.get_ylabel() == "Pets"
    assert first.images[0].get_array().shape == (4, 4)
    assert second.images[0].get_array().shape == (4, 4, 3)
    assert few_colours(figure).startswith(b"\x89PNG")
