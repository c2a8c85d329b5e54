"""Structure figures on heads and features where they are known, and against formulas written out."""

import numpy as np
import pytest

from softscope.diagnosis.sets import observe
from softscope.diagnosis.structure import find_structure, nearest_means
from softscope.estimators import estimator
from softscope.features import FeatureSet
from softscope.geometry import optimal_structure
from softscope.head import Head


def _structure(head: Head, train: FeatureSet):
    density = estimator("density").fit(head, train)
    seen = observe(head, train, labelled=True, estimators={"entropy": estimator("entropy")}, moments=True)
    moments = seen.moments
    return find_structure(head, seen, moments, nearest_means(train, moments), density, 0)


def _figures(structure) -> dict:
    return {figure.name: figure for figure in structure.figures}


def test_a_collapsed_network_is_at_the_optimum_in_every_figure() -> None:
    head = Head(optimal_structure(4, 9, norm=2.0, seed=3).weight)
    labels = np.arange(400) % 4
    z = head.weight[labels] + 1e-4 * np.random.default_rng(0).standard_normal((400, 9))
    structure = _structure(head, FeatureSet(z, labels))
    for figure in structure.figures:
        assert figure.value == pytest.approx(figure.optimal, abs=1e-3), figure.name
    assert structure.optimal_cosine == pytest.approx(-1 / 3)
    assert sum(structure.cosines.counts["head"]) == 6
    assert structure.weight_norms == pytest.approx((2.0,) * 4)
    assert set(structure.room["ball"]) == {"max", "linear", "entropy", "density"}


def test_an_untrained_head_lies_within_the_random_ones() -> None:
    rng = np.random.default_rng(5)
    bound = 12**-0.5
    head = Head(rng.uniform(-bound, bound, (5, 12)), rng.uniform(-bound, bound, 5))
    labels = np.arange(300) % 5
    figures = _figures(_structure(head, FeatureSet(rng.standard_normal((300, 12)), labels)))
    inside = [figure.random.contains(figure.value) for figure in figures.values() if figure.random is not None]
    assert len(inside) == 7
    assert sum(inside) >= 5


def test_figures_of_class_means_agree_with_formulas_written_out(rng) -> None:
    head = Head(rng.standard_normal((3, 5)))
    labels = np.arange(90) % 3
    z = 3 * rng.standard_normal((3, 5))[labels] + rng.standard_normal((90, 5))
    figures = _figures(_structure(head, FeatureSet(z, labels)))
    means = np.array([z[labels == k].mean(axis=0) for k in range(3)])
    steps = means - z.mean(axis=0)
    within = np.mean([np.outer(row - means[k], row - means[k]) for row, k in zip(z, labels)], axis=0)
    between = np.mean([np.outer(step, step) for step in steps], axis=0)
    assert figures["collapse"].value == pytest.approx(np.trace(within @ np.linalg.pinv(between)) / 3)
    norms = np.linalg.norm(steps, axis=1)
    assert figures["mean norm spread"].value == pytest.approx(norms.std() / norms.mean())
    cosines = [steps[i] @ steps[j] / norms[i] / norms[j] for i, j in ((0, 1), (0, 2), (1, 2))]
    assert figures["mean cosine"].value == pytest.approx(np.mean(cosines))
    weights = head.weight - head.weight.mean(axis=0)
    aligned = [weights[k] @ steps[k] / np.linalg.norm(weights[k]) / norms[k] for k in range(3)]
    assert figures["alignment"].value == pytest.approx(np.mean(aligned))
    distances = ((z[:, None] - means) ** 2).sum(axis=2)
    agreement = (distances.argmin(axis=1) == head.logits(z).argmax(axis=1)).mean()
    assert figures["nearest mean"].value == pytest.approx(agreement)


def test_a_class_without_rows_is_left_out_of_the_nearest_mean(rng) -> None:
    head = Head(rng.standard_normal((3, 4)))
    labels = np.where(np.arange(40) % 2, 2, 0)
    train = FeatureSet(rng.standard_normal((40, 4)) + labels[:, None], labels)
    moments = observe(head, train, labelled=True, moments=True).moments
    assert set(nearest_means(train, moments)) == {0, 2}


def test_more_classes_than_a_simplex_can_hold_leave_the_distances_out(rng) -> None:
    head = Head(rng.standard_normal((5, 2)))
    labels = np.arange(100) % 5
    figures = _figures(_structure(head, FeatureSet(rng.standard_normal((100, 2)) + labels[:, None], labels)))
    assert "distance" not in figures
    assert "cosine" in figures
