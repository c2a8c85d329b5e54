"""E5 mental model, E6 norm, E7 familiarity: against the printed formulas in 50 digits and by their properties."""

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from softscope.estimators import Familiarity, MaxProbability, Mental, Norm
from softscope.estimators.geometric import mental_log_odds, plain_mental
from softscope.head import Head


def cosines(weight, z):
    """cos(w_i, z) by plain loops, a second computation."""
    return np.array([[w @ row / (np.linalg.norm(w) * np.linalg.norm(row)) for w in weight] for row in z])


def optimal_head(classes, scale=1.0):
    """Equal norms, no bias, cosines -1/(K-1)."""
    weight = np.eye(classes) - 1.0 / classes
    return Head(scale * weight / np.linalg.norm(weight[0]))


def test_norm_and_familiarity_are_what_the_paper_defines(rng):
    weight, z = rng.normal(size=(5, 8)), rng.normal(size=(40, 8))
    head = Head(weight, rng.normal(size=5))
    np.testing.assert_allclose(Norm().fit(head).uncertainty(z), [-np.sqrt((row * row).sum()) for row in z], rtol=1e-14)
    scores = Familiarity().fit(head).uncertainty(z)
    np.testing.assert_allclose(scores, -cosines(weight, z).max(axis=1), rtol=1e-13)


def test_mental_is_the_log_odds_of_the_printed_value(rng):
    weight, z = rng.normal(size=(5, 8)), 3 * rng.normal(size=(40, 8))
    scores = Mental().fit(Head(weight)).uncertainty(z)
    with mpmath.workdps(50):
        for row, cosine, score in zip(z, cosines(weight, z).max(axis=1), scores):
            size = mpmath.mpf(float(np.linalg.norm(row)))
            printed = -1 / (1 + 4 * mpmath.exp(-size * (mpmath.mpf(1) / 4 + mpmath.mpf(float(cosine)))))
            assert score == pytest.approx(float(mpmath.log((1 + printed) / -printed)), abs=1e-12)


def test_plain_mental_saturates_where_the_rank_form_does_not():
    norms, familiarities = np.linspace(50.0, 120.0, 200), np.full(200, 0.9)
    assert len(np.unique(plain_mental(norms, familiarities, 10))) == 1
    assert (np.diff(mental_log_odds(norms, familiarities, 10)) < 0).all()


def test_plain_mental_far_from_every_class_is_zero_without_a_warning():
    assert plain_mental(np.array([1000.0]), np.array([-1.0]), 3)[0] == 0.0


@given(st.floats(0.0, 50.0), st.floats(0.0, 50.0), st.floats(-1.0, 1.0), st.integers(2, 1000))
def test_plain_mental_is_a_probability_and_falls_with_the_norm_near_a_class(one, other, cosine, classes):
    values = plain_mental(np.array([one, other]), np.full(2, cosine), classes)
    assert ((values >= -1) & (values <= 0)).all()
    slope = 1 / (classes - 1) + cosine
    ranks = mental_log_odds(np.array([one, other]), np.full(2, cosine), classes)
    assert (ranks[1] - ranks[0]) * (other - one) * slope <= 1e-9


def test_for_an_optimal_structure_mental_is_the_confidence_on_the_class_directions():
    """With unit weights, l_1 - l_j = norm(z) (1 + 1/(K-1)) for z along a weight: the model is exact there."""
    head = optimal_head(6)
    z = head.weight[[0, 3, 5]] * np.array([[0.5], [2.0], [7.0]])
    np.testing.assert_allclose(Mental().fit(head).uncertainty(z), MaxProbability().fit(head).uncertainty(z), atol=1e-12)
    np.testing.assert_allclose(Mental().fit(head).plain(z), MaxProbability().fit(head).plain(z), rtol=1e-6)


def test_a_row_of_zeros_has_no_norm_and_no_familiarity(rng):
    head = Head(rng.normal(size=(3, 4)))
    zeros = np.zeros((1, 4))
    assert Norm().fit(head).uncertainty(zeros)[0] == 0.0
    assert Familiarity().fit(head).uncertainty(zeros)[0] == 0.0
    assert Mental().fit(head).uncertainty(zeros)[0] == pytest.approx(np.log(2))
