"""The plane of principal components, against scikit-learn's; and that the pictures hold what they should."""

import numpy as np
import pytest

from softscope.head import Head
from softscope.paper.plots.plane import Plane, input_and_plane
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
