"""ReAct, SCALE and ASH-S against their definitions, row by row; what they assume is checked."""

import numpy as np
import pytest
from scipy.special import logsumexp

from softscope import FeatureSet, Head, SoftscopeError
from softscope.estimators import AshS, ReAct, Scale


@pytest.fixture(scope="module")
def world():
    rng = np.random.default_rng(1)
    weight, bias = rng.normal(size=(4, 40)), rng.normal(size=4)
    z = np.maximum(rng.normal(size=(200, 40)) + 0.3, 0)
    return Head(weight, bias), FeatureSet(z), np.maximum(rng.normal(size=(25, 40)), 0)


def test_react_is_the_energy_of_features_cut_at_a_training_quantile(world):
    head, train, rows = world
    for quantile in (0.5, 0.9):
        fitted = ReAct(quantile=quantile).fit(head, train)
        assert fitted.cut_ == pytest.approx(np.quantile(train.array().ravel(), quantile))
        expected = [-logsumexp(head.weight @ np.minimum(z, fitted.cut_) + head.bias) for z in rows]
        np.testing.assert_allclose(fitted.uncertainty(rows), expected, rtol=1e-10)


def scaled_energy(head, z, percentile, *, prune):
    """The definition for one row, with the largest entries picked by a full sort."""
    order = np.argsort(z)[::-1]
    largest = order[: len(z) - round(percentile * len(z))]
    shaped = np.zeros_like(z)
    shaped[largest] = z[largest]
    ratio = z.sum() / shaped.sum()
    return -logsumexp(head.weight @ ((shaped if prune else z) * np.exp(ratio)) + head.bias)


@pytest.mark.parametrize(("score", "prune"), [(Scale, False), (AshS, True)])
@pytest.mark.parametrize("percentile", [0.5, 0.85, 0.9])
def test_features_are_scaled_by_how_much_of_them_the_largest_hold(world, score, prune, percentile):
    head, train, rows = world
    expected = [scaled_energy(head, z, percentile, prune=prune) for z in rows]
    fitted = score(percentile=percentile).fit(head, train)
    np.testing.assert_allclose(fitted.uncertainty(rows), expected, rtol=1e-10)


@pytest.mark.parametrize("score", [Scale, AshS])
def test_a_row_of_zeros_has_the_energy_of_the_bias(world, score):
    head, train, _ = world
    scores = score().fit(head, train).uncertainty(np.zeros((1, 40)))
    np.testing.assert_allclose(scores, -logsumexp(head.bias), rtol=1e-12)


@pytest.mark.parametrize("score", [Scale, AshS])
def test_features_that_no_relu_made_are_refused(world, score):
    head, train, _ = world
    gelu_like = train.array() - 0.17 * (train.array() == 0)
    with pytest.raises(SoftscopeError, match=r"assumes features that are not negative, \d+% of train lies below 0"):
        score().fit(head, gelu_like)
    hardly = train.array() - 1e-4 * (train.array() == 0)  # swish after pooling: next to nothing below 0
    assert np.isfinite(score().fit(head, hardly).uncertainty(hardly)).all()


def test_react_refuses_features_of_which_its_quantile_would_leave_nothing(world):
    head, train, rows = world
    sparse = train.array() * (np.arange(40) % 12 == 0)
    with pytest.raises(SoftscopeError, match=r"the 0\.9 quantile of the activations of train is 0, so that nothing"):
        ReAct().fit(head, sparse)
    assert len(np.unique(ReAct(quantile=0.97).fit(head, sparse).uncertainty(rows))) == len(rows)


@pytest.mark.parametrize("bad", [0.0, 1.0, -0.2, float("nan")])
def test_shares_that_make_no_sense_are_refused(world, bad):
    head, train, _ = world
    for wrong in (ReAct(quantile=bad), Scale(percentile=bad), AshS(percentile=bad)):
        with pytest.raises(SoftscopeError, match="between 0 and 1"):
            wrong.fit(head, train)
