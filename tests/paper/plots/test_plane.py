"""The plane of principal components, against scikit-learn's; and that the pictures hold what they should."""

from pathlib import Path

import numpy as np
import pytest
from matplotlib.contour import ContourSet
from numpy.typing import NDArray
from scipy.special import softmax
from scipy.stats import entropy

from softscope.features import FeatureSet
from softscope.head import Head
from softscope.paper.plots.benchmark import familiarity_histograms
from softscope.paper.plots.plane import (
    Plane,
    Sure,
    backdrop,
    examples_and_plane,
    few_colours,
    final_layers,
    input_and_plane,
    surest,
    triple_spread,
)
from softscope.reporting.style import CLASS_COLOURS, CLASS_MARKERS, new_figure, to_png


def test_the_plane_is_scikit_learns_pca_of_both_sets_together(rng: np.random.Generator) -> None:
    from sklearn.decomposition import PCA

    train, ood = rng.normal(size=(50, 6)) * np.arange(1, 7), rng.normal(size=(30, 6)) + 3
    plane = Plane.principal(train, ood)
    both = np.concatenate([train, ood])
    expected = PCA(2).fit_transform(both)
    projected = plane.project(both)
    np.testing.assert_allclose(np.abs(projected), np.abs(expected), atol=1e-9)
    assert (plane.axes[np.arange(2), np.abs(plane.axes).argmax(axis=1)] > 0).all()


def test_lifting_a_projected_point_of_the_plane_gives_it_back(rng: np.random.Generator) -> None:
    plane = Plane.principal(rng.normal(size=(20, 5)))
    coordinates = rng.normal(size=(7, 2))
    np.testing.assert_allclose(plane.project(plane.lift(coordinates)), coordinates, atol=1e-12)


def test_a_plane_is_of_whatever_people_pass(rng: np.random.Generator, tmp_path: Path) -> None:
    z = rng.normal(size=(20, 5))
    FeatureSet(z).save(tmp_path / "z.safetensors")
    expected = Plane.principal(z, z).project(z)
    for own in (FeatureSet(z), z.tolist(), (z, np.zeros(20, int)), tmp_path / "z.safetensors"):
        np.testing.assert_allclose(Plane.principal(own, z).project(own), expected)


def test_the_picture_shows_both_spaces_all_points_and_equal_scales(rng: np.random.Generator) -> None:
    head = Head(rng.normal(size=(3, 2)))
    train, labels, ood = rng.normal(size=(30, 2)), np.arange(30) % 3, 4 * rng.normal(size=(20, 2))
    figure = input_and_plane(head.logits, head, (train, labels, ood), (train, ood), 0.5, "a remark")
    left, right, *_ = figure.axes
    assert [axes.get_title(loc="left") for axes in (left, right)] == ["Input space", "Final layer"]
    assert (left.get_xlabel(), right.get_ylabel()) == ("x₁", "second principal component")
    plane = Plane.principal(train, ood)
    for axes, places in ((left, lambda xy: xy), (right, plane.lift)):
        assert sum(len(cloud.get_offsets()) for cloud in axes.collections if len(cloud.get_offsets()) > 1) == 50
        assert np.ptp(axes.get_xlim()) == pytest.approx(np.ptp(axes.get_ylim()))
        assert [own.levels.tolist() for own in axes.collections if isinstance(own, ContourSet)] == [[0.5]]
        corner = np.array([[axes.get_xlim()[1], axes.get_ylim()[0]]])
        truth = entropy(softmax(head.logits(places(corner))[0]))
        assert np.asarray(axes.images[0].get_array())[0, -1] == pytest.approx(truth, abs=1e-5), "at the lower right"
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
    figure = familiarity_histograms({"a": (head, test, ood), "b": (head, ood, test)})
    assert len(figure.axes) == 6
    unit = head.weight / np.linalg.norm(head.weight, axis=1, keepdims=True)
    for row, sides in zip((figure.axes[:3], figure.axes[3:]), ((test, ood), (ood, test))):
        lengths = [np.linalg.norm(z, axis=1) for z in sides]
        cosines = [np.sort(z @ unit.T / norms[:, None], axis=1) for z, norms in zip(sides, lengths)]
        others, largest = [own[:, :-1] for own in cosines], [own[:, -1] for own in cosines]
        for axes, values in zip(row, (lengths, others, largest)):
            medians = [line.get_xdata()[0] for line in axes.lines]
            np.testing.assert_allclose(medians, [np.median(own) for own in values])
    assert [axes.get_title(loc="left") for axes in figure.axes[::3]] == ["a", "b"]
    names = ["norm(z)", "cosines but the largest", "largest cosine (familiarity)"]
    assert [axes.get_xlabel() for axes in figure.axes[3:]] == names


def test_layers_stand_by_kind_and_data_set_with_both_kinds_of_points(rng: np.random.Generator) -> None:
    head = Head(rng.normal(size=(3, 4)))

    def layer(test: int, ood: int) -> tuple[Head, NDArray, NDArray]:
        return head, rng.normal(size=(test, 4)), rng.normal(size=(ood, 4))

    tuned, scratch = {"beans": layer(30, 20), "pets": layer(31, 21)}, {"beans": layer(32, 22), "pets": layer(33, 23)}
    figure = final_layers({"fine-tuned": tuned, "scratch": scratch})
    assert [axes.get_title(loc="left") for axes in figure.axes[:2]] == ["beans", "pets"]
    assert [figure.axes[0].get_ylabel(), figure.axes[2].get_ylabel()] == ["fine-tuned", "scratch"]
    points = [{line.get_label(): len(line.get_xdata()) for line in axes.lines} for axes in figure.axes]
    assert points == [{"OOD": 20 + number, "test": 30 + number} for number in range(4)]
    _, test, ood = scratch["pets"]
    plane = Plane.principal(test, ood)
    for line, z in zip(figure.axes[3].lines, (ood, test)):
        drawn = np.column_stack([line.get_xdata(), line.get_ydata()])
        np.testing.assert_allclose(drawn[np.lexsort(drawn.T)], (own := plane.project(z))[np.lexsort(own.T)])


def test_the_ground_has_the_uncertainty_of_its_places_dark_where_it_is_high() -> None:
    figure = new_figure(2.0, 2.0)
    picture = backdrop(figure.subplots(), lambda xy: xy[:, 0] + 10 * xy[:, 1], ((0, 1), (2, 4)), 3)
    np.testing.assert_allclose(picture.get_array(), [[20, 20.5, 21], [30, 30.5, 31], [40, 40.5, 41]])
    assert (picture.origin, picture.get_extent()) == ("lower", [0, 1, 2, 4]), "the first row lies at the bottom"
    colours = picture.get_cmap()
    assert sum(colours(0.0)[:3]) > sum(colours(1.0)[:3]), "bright: confident"


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
