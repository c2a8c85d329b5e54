"""The bounds rule out what can't matter, and nothing else."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from softscope import FeatureSet
from softscope.mixture.bounds import KEEP_NATS, Bounds
from softscope.mixture.gaussian import fit_mixture


def separated(rows=5000, features=128, components=12, apart=1.5, seed=0):
    rng = np.random.default_rng(seed)
    labels = np.arange(rows) % components
    # Like final-layer features: non-negative, each class with neurons of its own, some dead for all.
    active = rng.random((components, features)) < 0.4
    active[:, :10] = False
    z = np.maximum(rng.normal(size=(rows, features)) + apart, 0) * active[labels]
    return z.astype(np.float32), labels


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_no_bound_is_below_the_density_it_bounds(scale):
    z, labels = separated()
    components = fit_mixture(FeatureSet(z * scale), labels, ridge=1e-5 * scale**2, iterations=0).components
    bounds = Bounds(components.factors, components.means, components._constants, z[::20] * scale)
    assert bounds.width > 0
    exact = components.dense(z * np.float32(scale))
    rounding = 1e-3 + 1e-4 * np.abs(exact)
    assert (bounds.upper(z * np.float32(scale)) >= exact - rounding).all()


def test_no_bound_is_below_the_density_where_float32_has_few_digits_left():
    """Narrow components far apart: a whitened coordinate is the small difference of two numbers of about 1e8."""
    rng = np.random.default_rng(0)
    labels = np.arange(3000) % 6
    z = 1e4 * rng.normal(size=(6, 40))[labels] + 1e-4 * rng.normal(size=(3000, 40))
    components = fit_mixture(FeatureSet(z), labels, ridge=0.0, iterations=0).components
    bounds = Bounds(components.factors, components.means, components._constants, z[::10])
    assert bounds.width > 0
    exact = np.stack([_log_joint(z, z[labels == k], 1 / 6) for k in range(6)], axis=1)
    upper = bounds.upper(z).astype(np.float64)
    assert (upper >= exact).all()
    own = np.take_along_axis(upper, labels[:, None], axis=1)
    others = np.ma.masked_array(upper, np.eye(6, dtype=bool)[labels])
    assert (others.max(axis=1)[:, None] < own - KEEP_NATS).mean() > 0.99, "and yet others are ruled out"


def _log_joint(z, members, weight):
    """log(weight N(z; mean, covariance)) of the members' own moments, by numpy alone."""
    mean, covariance = members.mean(axis=0), np.cov(members, rowvar=False, ddof=0)
    lower = np.linalg.cholesky(covariance)
    white = np.linalg.solve(lower, (z - mean).T)
    return (
        np.log(weight) - 0.5 * ((white**2).sum(axis=0) + len(mean) * np.log(2 * np.pi)) - np.log(lower.diagonal()).sum()
    )


def test_most_components_are_ruled_out_and_the_density_is_the_same():
    z, labels = separated()
    mixture = fit_mixture(FeatureSet(z), labels, iterations=0)
    joint = mixture.components._bounded(z)
    dense = mixture.components.dense(z)
    assert np.isfinite(joint).sum(axis=1).mean() < 3
    left_out = ~np.isfinite(joint)
    best = dense.max(axis=1, keepdims=True)
    assert (dense[left_out] < np.broadcast_to(best, dense.shape)[left_out] - KEEP_NATS + 1).all()
    np.testing.assert_allclose(joint[~left_out], dense[~left_out], rtol=1e-5, atol=1e-3)


def test_overlapping_components_are_evaluated_densely():
    rng = np.random.default_rng(0)
    z = rng.normal(size=(4000, 64)).astype(np.float32)
    components = fit_mixture(FeatureSet(z), rng.integers(0, 8, 4000), iterations=0).components
    assert Bounds(components.factors, components.means, components._constants, z[:256]).width == 0
    np.testing.assert_array_equal(components._bounded(z), components.dense(z))


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32 - 1), st.floats(0.0, 4.0), st.floats(0.1, 100.0))
def test_ruling_out_never_changes_a_density(seed, apart, stretch):
    z, labels = separated(rows=600, features=40, components=6, apart=apart, seed=seed)
    mixture = fit_mixture(FeatureSet(z), labels, iterations=0)
    far = z * np.float32(stretch)  # unfamiliar rows are bounded with the training rows' coordinates
    bounded = mixture.components._bounded(far).max(axis=1)
    dense = mixture.components.dense(far).max(axis=1)
    np.testing.assert_allclose(bounded, dense, rtol=1e-5, atol=1e-3)
