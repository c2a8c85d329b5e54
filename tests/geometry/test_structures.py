"""Structures: what they are made of, and the distance of a head to the nearest optimal one."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from softscope import Head
from softscope.errors import SoftscopeError
from softscope.geometry import (
    lopsided,
    optimal_structure,
    random_rotation,
    random_structure,
    sandwich,
    spherical_code,
    stack,
    structure_report,
)
from softscope.geometry.structures import procrustes_distance, simplex


@given(st.integers(2, 40), st.integers(0, 30), st.integers(0, 5), st.floats(0.1, 50))
def test_the_optimal_structure_has_equal_norms_equal_cosines_and_no_bias(classes, spare, seed, norm):
    head = optimal_structure(classes, classes - 1 + spare, norm=norm, seed=seed)
    assert not head.bias.any()
    np.testing.assert_allclose(head.weight_norms, norm, rtol=1e-12)
    off_diagonal = head.class_cosines[~np.eye(classes, dtype=bool)]
    np.testing.assert_allclose(off_diagonal, -1.0 / (classes - 1), atol=1e-12)
    np.testing.assert_allclose(head.weight.sum(axis=0), 0.0, atol=1e-10 * norm)


def test_more_classes_than_features_plus_one_are_refused_with_a_way_out():
    assert optimal_structure(3, 2).n_classes == 3
    with pytest.raises(SoftscopeError, match="spherical_code"):
        optimal_structure(4, 2)


def test_sandwich_of_three_is_the_papers_example():
    expected = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]])
    np.testing.assert_allclose(sandwich(3, 2).weight, expected, atol=1e-15)


@pytest.mark.parametrize("norm", [1.0, 7.0])
def test_the_boundaries_of_a_stack_are_parallel_and_evenly_spaced_whatever_the_norm(norm):
    head = stack(5, 3, norm=norm)
    line = np.zeros((2001, 3))
    line[:, 0] = np.linspace(-1.5, 1.5, 2001)
    line[:, 1:] = 4.0
    winner = head.logits(line).argmax(axis=1)
    changes = line[1:, 0][np.diff(winner) != 0]
    np.testing.assert_allclose(changes, [-0.75, -0.25, 0.25, 0.75], atol=2e-3)
    assert np.linalg.matrix_rank(head.weight) == 1


def test_lopsided_crowds_all_but_the_last_class():
    head = lopsided(4, 5)
    assert head.class_cosines[:3, :3].min() > 0.7
    assert head.class_cosines[3, :3].max() < -0.9


@pytest.mark.parametrize("build", [sandwich, lopsided])
def test_plane_structures_need_a_plane(build):
    with pytest.raises(SoftscopeError, match="plane"):
        build(3, 1)


@pytest.mark.parametrize("arguments", [(1, 3), (3, 0)])
def test_too_few_classes_or_features_are_refused(arguments):
    with pytest.raises(SoftscopeError, match="at least 2 classes"):
        random_structure(*arguments)


def test_a_structure_needs_a_positive_norm():
    with pytest.raises(SoftscopeError, match="positive norm"):
        optimal_structure(3, 2, norm=0.0)


def test_random_rotations_are_rotations_and_repeat_with_their_seed():
    rotation = random_rotation(6, 4)
    np.testing.assert_allclose(rotation @ rotation.T, np.eye(6), atol=1e-12)
    assert np.linalg.det(rotation) == pytest.approx(1.0)
    np.testing.assert_array_equal(rotation, random_rotation(6, 4))


@given(st.integers(2, 12), st.integers(0, 8), st.integers(0, 1000), st.floats(0.01, 100))
def test_rotated_scaled_and_relabelled_optimal_structures_are_at_distance_zero(classes, spare, seed, norm):
    head = optimal_structure(classes, classes - 1 + spare, norm=norm, seed=seed)
    relabelled = Head(head.weight[np.random.default_rng(seed).permutation(classes)])
    assert structure_report(relabelled).distance == pytest.approx(0.0, abs=1e-6)


def test_the_procrustes_distance_is_the_minimum_that_scipy_finds():
    from scipy.linalg import orthogonal_procrustes

    weight = np.random.default_rng(5).standard_normal((4, 6))
    target = np.zeros((4, 6))
    target[:, :3] = simplex(4)
    rotation, _ = orthogonal_procrustes(target, weight)
    turned = target @ rotation
    scale = (turned * weight).sum() / (turned**2).sum()
    expected = np.linalg.norm(weight - scale * turned) / np.linalg.norm(weight)
    assert procrustes_distance(weight) == pytest.approx(expected, rel=1e-12)


def test_the_report_says_what_differs_from_the_optimum():
    optimal = optimal_structure(3, 4, norm=2.0, seed=1)
    report = structure_report(Head(optimal.weight, np.array([0.2, -0.4, 0.0])))
    assert report.distance == pytest.approx(0.0, abs=1e-7)
    assert report.bias_to_norm == pytest.approx(0.1)
    assert report.norms.mean == pytest.approx(2.0)
    assert report.cosines.mean == pytest.approx(report.optimal_cosine) == pytest.approx(-0.5)
    assert structure_report(sandwich(3, 4)).distance > 0.3


def test_a_shift_common_to_all_weights_counts_only_in_the_plain_distance():
    optimal = optimal_structure(4, 6, seed=2)
    report = structure_report(Head(optimal.weight + 0.5))
    assert report.distance > 0.3
    assert report.centred_distance == pytest.approx(0.0, abs=1e-7)


def test_without_room_for_a_simplex_there_is_no_distance():
    report = structure_report(random_structure(9, 3))
    assert report.distance is None
    assert report.centred_distance is None


def test_an_all_zero_head_is_as_far_as_can_be():
    assert structure_report(Head(np.zeros((3, 4)))).distance == 1.0


@pytest.mark.parametrize(
    ("classes", "features", "cosine"),
    [(7, 2, np.cos(2 * np.pi / 7)), (6, 3, 0.0), (12, 3, 1 / np.sqrt(5)), (24, 4, 0.5), (16, 5, 0.2)],
)
def test_spherical_codes_reach_the_known_optima_and_say_they_are_numerical(classes, features, cosine):
    code = spherical_code(classes, features)
    assert code.numerical
    assert code.largest_cosine == pytest.approx(cosine, abs=1e-5)


def test_a_code_with_room_is_the_exact_simplex():
    code = spherical_code(5, 4)
    assert not code.numerical
    assert code.largest_cosine == -0.25
