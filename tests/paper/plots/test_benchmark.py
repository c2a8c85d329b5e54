"""fig_cifar_etc from counted histograms: training filled, each OOD set its own line, the three quantities in order."""

import numpy as np

from softscope.diagnosis.model import Histogram
from softscope.paper.plots.benchmark import familiarity_by_set


def histogram(train: tuple[int, ...], test: tuple[int, ...], svhn: tuple[int, ...]) -> Histogram:
    return Histogram((0.0, 0.5, 1.0), {"train": train, "test": test, "svhn": svhn})


def test_counts_become_densities_under_the_name_of_their_set_and_quantity() -> None:
    norms, others, largest = (
        histogram((1, 3), (9, 9), (2, 2)),
        histogram((4, 0), (9, 9), (1, 3)),
        histogram((0, 4), (9, 9), (3, 1)),
    )
    figure = familiarity_by_set({"cifar10 (7 epochs)": (norms, others, largest)})
    names = ["norm(z)", "cosines but the largest", "largest cosine (familiarity)"]
    assert [axes.get_xlabel() for axes in figure.axes] == names
    assert (
        figure.axes[0].get_title() == "cifar10 (7 epochs)"
        or figure.axes[0].get_title(loc="left") == "cifar10 (7 epochs)"
    )
    expected = [([0.5, 1.5], [1.0, 1.0]), ([2.0, 0.0], [0.5, 1.5]), ([0.0, 2.0], [1.5, 0.5])]
    for axes, (train, svhn) in zip(figure.axes, expected):
        shown = {patch.get_label(): patch for patch in axes.patches}
        assert set(shown) == {"train (learned)", "svhn"}, "test inputs are not drawn"
        np.testing.assert_allclose(shown["train (learned)"].get_data().values, train)
        np.testing.assert_allclose(shown["svhn"].get_data().values, svhn)
        assert shown["train (learned)"].get_fill()
        assert not shown["svhn"].get_fill()
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["train (learned)", "svhn"]
