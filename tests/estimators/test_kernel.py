"""E8 as an estimator; the density itself is tested in tests/mixture/test_kernel.py."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from scipy.special import logsumexp
from sklearn.datasets import load_digits

from softscope.errors import SoftscopeError
from softscope.estimators.density import KernelDensity
from softscope.features import FeatureSet
from softscope.head import Head
from softscope.mixture.kernel import held_out_bandwidth

HEAD = Head(np.eye(10, 64))


@pytest.fixture(scope="module")
def digits():
    data = (load_digits().data / 16).astype(np.float32)
    return data[:1200], data[1200:]


def test_uncertainty_is_minus_the_log_density_at_the_held_out_bandwidth(digits):
    train, z = digits
    fitted = KernelDensity().fit(HEAD, FeatureSet(train))
    h = held_out_bandwidth(train).value
    assert fitted.bandwidth_ == h
    exponents = -0.5 * cdist(z.astype(float), train.astype(float), "sqeuclidean") / h**2
    expected = -logsumexp(exponents, axis=1) + np.log(1200) + 32 * np.log(2 * np.pi * h**2)
    np.testing.assert_allclose(fitted.uncertainty(z), expected, rtol=1e-5, atol=1e-4)


def test_noise_is_less_certain_than_digits(digits):
    train, z = digits
    fitted = KernelDensity().fit(HEAD, FeatureSet(train))
    noise = np.random.default_rng(0).random((100, 64), np.float32)
    assert fitted.uncertainty(noise).min() > np.quantile(fitted.uncertainty(z), 0.99)


def test_a_given_bandwidth_is_used(digits):
    assert KernelDensity(bandwidth=0.25).fit(HEAD, FeatureSet(digits[0])).bandwidth_ == 0.25


def test_the_log_transform_is_the_density_of_log_z(digits):
    train, z = digits
    fitted = KernelDensity(transform="log").fit(HEAD, FeatureSet(train))
    logs = [np.log(np.maximum(part, 0) + np.float32(fitted.offset_)) for part in digits]
    plain = KernelDensity().fit(HEAD, FeatureSet(logs[0]))
    np.testing.assert_array_equal(fitted.uncertainty(z), plain.uncertainty(logs[1]))
    copy = KernelDensity(transform="log").restore(HEAD, fitted.state())
    np.testing.assert_array_equal(copy.uncertainty(z), fitted.uncertainty(z))


def test_an_unknown_transform_is_refused(digits):
    with pytest.raises(SoftscopeError, match="transform 'sqrt' is unknown"):
        KernelDensity(transform="sqrt").fit(HEAD, FeatureSet(digits[0]))


def test_more_rows_than_asked_for_are_drawn_by_the_seed(digits):
    train, z = digits
    fits = [KernelDensity(max_rows=300, seed=s).fit(HEAD, FeatureSet(train)) for s in (0, 0, 1)]
    first, again, other = (fit.uncertainty(z) for fit in fits)
    assert fits[0].rows_ == 300
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


def test_a_restored_estimator_scores_alike(digits):
    train, z = digits
    fitted = KernelDensity().fit(HEAD, FeatureSet(train))
    copy = KernelDensity().restore(HEAD, fitted.state())
    np.testing.assert_array_equal(copy.uncertainty(z), fitted.uncertainty(z))
    assert (copy.bandwidth_, copy.rows_) == (fitted.bandwidth_, 1200)


@pytest.mark.parametrize("bandwidth", [0.0, -1.0, float("nan"), float("inf")])
def test_a_bandwidth_without_meaning_is_refused(digits, bandwidth):
    with pytest.raises(SoftscopeError, match="bandwidth is"):
        KernelDensity(bandwidth=bandwidth).fit(HEAD, FeatureSet(digits[0]))
