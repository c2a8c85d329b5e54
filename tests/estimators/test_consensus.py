"""The consensus against its definition: p-values by counting, Fisher's statistic by scipy."""

import numpy as np
import pytest
from scipy.stats import combine_pvalues

from softscope import FeatureSet, Head, SoftscopeError
from softscope.estimators import Consensus, estimator
from softscope.estimators.consensus import surprise, surprise_levels


@pytest.fixture(scope="module")
def world():
    rng = np.random.default_rng(0)
    weight = rng.normal(size=(4, 12))
    labels = rng.integers(0, 4, 500)
    z = np.maximum(2 * weight[labels] + rng.normal(size=(500, 12)), 0)
    return Head(weight, rng.normal(size=4)), FeatureSet(z, labels)


def test_at_calibration_scores_it_is_scipys_fisher_statistic_of_counted_p_values(world):
    head, train = world
    fitted = Consensus(seed=3).fit(head, train)
    order = np.random.default_rng(3).permutation(500)
    calibration, fit = train.rows(np.sort(order[:100])), train.take(np.sort(order[100:]))
    p_values = []
    for name in ("mahalanobis++", "energy", "residual"):
        scores = estimator(name).fit(head, fit).uncertainty(calibration)
        p_values.append([(1 + (scores >= s).sum()) / 101 for s in scores])
    expected = [combine_pvalues(p, method="fisher").statistic / 2 for p in np.transpose(p_values)]
    np.testing.assert_allclose(fitted.uncertainty(calibration), expected, rtol=1e-6, atol=1e-6)


def test_log_p_is_strictly_monotone_on_both_sides_and_between_calibration_scores():
    levels = np.sort(np.random.default_rng(1).normal(size=50))
    grid = np.linspace(-20, 20, 2001)
    known = surprise_levels(levels)
    assert (np.diff(surprise(grid, *known)) > 0).all()
    assert surprise(levels[:1], *known)[0] == 0
    assert surprise(levels[-1:], *known)[0] == pytest.approx(np.log(51 / 2))
    tied = np.random.default_rng(2).permutation(np.repeat(levels, 3))
    expected = [-np.log((1 + (tied >= s).sum()) / 151) for s in levels]
    np.testing.assert_allclose(surprise(levels, *surprise_levels(tied)), expected)


def test_a_part_whose_calibration_scores_are_all_equal_still_tells_rows_apart():
    known = surprise_levels(np.full(20, 3.0))
    assert np.isfinite(surprise(np.array([-1e9, 3.0, 1e9]), *known)).all()
    assert (np.diff(surprise(np.array([2.0, 3.0, 4.0]), *known)) > 0).all()


def test_the_unit_of_the_features_does_not_matter(world):
    head, train = world
    plain = Consensus().fit(head, train).uncertainty(train)
    scaled = Head(head.weight / 100, head.bias), (100 * train.array(), train.labels)
    np.testing.assert_allclose(Consensus().fit(*scaled).uncertainty(100 * train.array()), plain, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("share", [0.0, 1.0, -1.0])
def test_a_share_that_leaves_nothing_is_refused(world, share):
    with pytest.raises(SoftscopeError, match="held_out"):
        Consensus(held_out=share).fit(*world)


@pytest.mark.parametrize("parts", ["", "consensus", "nonsense, energy"])
def test_parts_that_are_not_other_scores_are_refused(world, parts):
    with pytest.raises(SoftscopeError, match="parts"):
        Consensus(parts=parts).fit(*world)


def test_other_parts_are_summed_the_same_way(world):
    head, train = world
    whole = Consensus(parts="knn, energy").fit(head, train)
    halves = [Consensus(parts=name).fit(head, train).uncertainty(train) for name in ("knn", "energy")]
    np.testing.assert_allclose(whole.uncertainty(train), sum(halves))


def test_the_parts_are_fitted_on_a_bounded_number_of_rows(world, monkeypatch):
    head, train = world
    monkeypatch.setattr("softscope.estimators.consensus.MOST_FIT_ROWS", 150)
    fitted = Consensus(parts="mahalanobis++").fit(head, train)
    order = np.random.default_rng(0).permutation(500)
    part = estimator("mahalanobis++").fit(head, train.take(np.sort(order[100:250])))
    np.testing.assert_allclose(fitted.parts_["mahalanobis++"].uncertainty(train), part.uncertainty(train))
