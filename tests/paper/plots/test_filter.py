"""Pictures of a scan: every find in its place, faint where nothing reaches the output, percentages that never lie."""

import math

import numpy as np
import pytest

from softscope.paper.filter import BINS, QUANTITIES, edges, percent
from softscope.paper.plots.filter import finds_figure, gallery_figure, noise_and_digits
from softscope.reporting.style import to_png


def test_each_find_stands_in_the_column_of_its_class_with_its_confidence(rng: np.random.Generator) -> None:
    images = rng.integers(0, 2, (3, 2, 9, 9), dtype=np.uint8)
    odds = np.array([[5.0, 4.0], [1.0, -np.inf], [3.0, 2.0]])
    figure = finds_figure(images, odds, ["a", "b", "c"], "remark", visible=8)
    axes = np.array(figure.axes).reshape(2, 3)
    assert [ax.get_title() for ax in axes[0]] == ["a", "b", "c"]
    for k in range(3):
        shown = np.asarray(axes[0, k].images[0].get_array())
        np.testing.assert_array_equal(shown[:8, :8], 1.0 - images[k, 0, :8, :8])
        assert shown[8].min() >= 0.75
        assert shown[:, 8].min() >= 0.75
    assert not axes[1, 1].images
    assert axes[0, 0].get_xlabel() == percent(5.0)
    assert to_png(figure).startswith(b"\x89PNG")


def test_a_gallery_has_a_row_for_each_title(rng: np.random.Generator) -> None:
    rows = {"mean": rng.random((4, 9, 9)), "find": rng.integers(0, 2, (4, 9, 9)).astype(float)}
    figure = gallery_figure(rows, ["0", "1", "2", "3"])
    axes = np.array(figure.axes).reshape(2, 4)
    assert [ax.get_ylabel() for ax in axes[:, 0]] == ["mean", "find"]
    assert [ax.get_title() for ax in axes[0]] == ["0", "1", "2", "3"]
    for line, images in zip(axes, rows.values()):
        for ax, image in zip(line, images):
            shown = np.asarray(ax.images[0].get_array())
            np.testing.assert_allclose(shown[:8, :8], 1.0 - image[:8, :8])
            np.testing.assert_allclose(shown[8], 1.0 - 0.25 * image[8])


def test_shares_in_the_picture_add_up_to_one(rng: np.random.Generator) -> None:
    values = {"log_odds": (0, 9), "entropy": (0, 2), "norm": (3, 40), "cosine": (-0.5, 0.9)}
    digits = {q: rng.uniform(*values[q], 50) for q in QUANTITIES}
    noise = {}
    for quantity in QUANTITIES:
        counts = np.histogram(rng.uniform(*values[quantity], 1000), edges(quantity, 10))[0]
        assert counts.size == BINS[quantity]
        noise[quantity] = edges(quantity, 10), counts / counts.sum()
    figure = noise_and_digits(noise, digits, 8.0, "remark")
    titles = ["Confidence: log(p / (1 - p))", "U_entropy (nats)", "norm(z)", "max cos"]
    assert [axes.get_title(loc="left") for axes in figure.axes] == titles
    for axes, quantity in zip(figure.axes, noise):
        stairs = {patch.get_label(): patch.get_data() for patch in axes.patches}
        assert list(stairs) == ["uniform noise", "test digits"]
        own, shares = stairs["test digits"], stairs["uniform noise"]
        np.testing.assert_allclose(np.nan_to_num(own.values), np.histogram(digits[quantity], own.edges)[0] / 50)
        fine, share = noise[quantity]
        inside = [share[(fine[:-1] >= a) & (fine[:-1] < b)].sum() for a, b in zip(shares.edges, shares.edges[1:])]
        np.testing.assert_allclose(np.nan_to_num(shares.values), inside, atol=1e-12)
    assert [line.get_xdata()[0] for line in figure.axes[0].lines] == [8.0], "the most confident noise"
    assert [len(axes.lines) for axes in figure.axes[1:]] == [0, 0, 0]
    for axes in figure.axes:
        for stairs in axes.patches:
            assert np.nansum(stairs.get_data().values) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("log_odds", "text"), [(0.0, "50.0 %"), (math.log(999), "99.900 %"), (12.0, "99.999385 %"), (-math.inf, "none")]
)
def test_confidence_is_shown_with_the_digits_that_tell_it_from_certainty(log_odds: float, text: str) -> None:
    assert percent(log_odds) == text


@pytest.mark.parametrize("log_odds", [5.0, 15.0, 25.0, 30.0, 50.0, 1e4])
def test_no_confidence_is_shown_as_certain(log_odds: float) -> None:
    assert not percent(log_odds).startswith("100")
