"""The consensus against its definition: p-values by counting, Fisher's statistic by scipy."""

import numpy as np
import pytest
from scipy.stats import combine_pvalues

from softscope import FeatureSet, Head, SoftscopeError
from softscope.estimators import Consensus, estimator
from softscope.estimators.consensus import surprise


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
    assert (np.diff(surprise(grid, levels)) > 0).all()
    assert surprise(levels[:1], levels)[0] == 0
    assert surprise(levels[-1:], levels)[0] == pytest.approx(np.log(51 / 2))
    tied = np.repeat(levels, 3)
    np.testing.assert_allclose(surprise(levels, tied), [-np.log((1 + (tied >= s).sum()) / 151) for s in levels])


def test_the_unit_of_the_features_does_not_matter(world):
    head, train = world
    plain = Consensus().fit(head, train).uncertainty(train)
    scaled = Head(head.weight / 100, head.bias), (100 * train.array(), train.labels)
    np.testing.assert_allclose(Consensus().fit(*scaled).uncertainty(100 * train.array()), plain, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("share", [0.0, 1.0, -1.0])
def test_a_share_that_leaves_nothing_is_refused(world, share):
    with pytest.raises(SoftscopeError, match="held_out"):
        Consensus(held_out=share).fit(*world)
