"""E8's density against scikit-learn, scipy and direct float64 sums; its bandwidth against brute-force leave-one-out."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar
from scipy.spatial.distance import cdist
from scipy.special import logsumexp
from scipy.stats import gaussian_kde
from sklearn.datasets import load_digits
from sklearn.neighbors import KernelDensity as SklearnKernelDensity

from softscope.errors import SoftscopeError
from softscope.mixture import kernel
from softscope.mixture.kernel import Kernels, held_out_bandwidth


def direct(train, z, h):
    """The definition, in float64."""
    exponents = -0.5 * cdist(z.astype(float), train.astype(float), "sqeuclidean") / h**2
    width = train.shape[1]
    return logsumexp(exponents, axis=1) - np.log(len(train)) - width * (0.5 * np.log(2 * np.pi) + np.log(h))


def leave_one_out(train, h):
    """Mean log density of each row under the kernels on all the others, in float64."""
    exponents = -0.5 * cdist(train, train, "sqeuclidean") / h**2
    np.fill_diagonal(exponents, -np.inf)
    width = train.shape[1]
    sums = logsumexp(exponents, axis=1) - np.log(len(train) - 1)
    return (sums - width * (0.5 * np.log(2 * np.pi) + np.log(h))).mean()


def relu_features(rows, width, seed, dtype=np.float32):
    """Two clusters of rectified Gaussians, some units dead."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(0, 3, (2, width))
    z = np.maximum(centres[rng.integers(0, 2, rows)] + rng.normal(size=(rows, width)), 0)
    z[:, ::7] = 0
    return z.astype(dtype)


@pytest.mark.parametrize("width", [1, 3, 64])
@pytest.mark.parametrize("h", [0.3, 2.0])
def test_log_density_equals_scikit_learn(width, h):
    rng = np.random.default_rng(width)
    train, z = rng.normal(size=(500, width)), rng.normal(0, 1.5, (200, width))
    # One leaf makes scikit-learn sum every kernel: its tree's bounds go wrong beyond a few dimensions (issue 27186).
    peer = SklearnKernelDensity(bandwidth=h, leaf_size=len(train), rtol=0, atol=0).fit(train)
    np.testing.assert_allclose(Kernels.on(train, h).log_density(z), peer.score_samples(z), rtol=1e-6, atol=1e-5)


def test_log_density_equals_scipy_in_one_dimension():
    rng = np.random.default_rng(0)
    train, z = rng.normal(size=(300, 1)), rng.normal(size=(100, 1))
    peer = gaussian_kde(train[:, 0], bw_method=0.4)
    densities = Kernels.on(train, 0.4 * train.std(ddof=1)).log_density(z)
    np.testing.assert_allclose(densities, peer.logpdf(z[:, 0]), rtol=1e-6)


@pytest.mark.parametrize(("width", "h"), [(2, 0.01), (64, 0.5), (512, 0.8), (2048, 1.0)])
def test_log_density_equals_the_definition_in_float64(width, h):
    train, z = relu_features(600, width, 0), relu_features(150, width, 1)
    densities = Kernels.on(train, h).log_density(z)
    expected = direct(train, z, h)
    # Within a thousandth of the spread of the log density inside one kernel, and in the same order.
    np.testing.assert_allclose(densities, expected, atol=1e-3 * np.sqrt(width / 2))
    gaps = np.subtract.outer(expected, expected)
    clear = np.abs(gaps) > 1e-2
    assert (np.sign(np.subtract.outer(densities, densities))[clear] == np.sign(gaps)[clear]).all()


def test_log_density_equals_the_definition_on_digits():
    digits = load_digits().data
    h = held_out_bandwidth(digits[:1000]).value
    np.testing.assert_allclose(
        Kernels.on(digits[:1000], h).log_density(digits[1000:]), direct(digits[:1000], digits[1000:], h), rtol=1e-6
    )


def test_products_are_float64_where_float32_would_not_do():
    train = relu_features(300, 16, 0, np.float64) + 1.0
    tight, wide = Kernels.on(train, 1e-3), Kernels.on(train, 1.0)
    assert (tight.centres.dtype, wide.centres.dtype) == (np.float64, np.float32)
    z = train[:50] + 1e-4
    np.testing.assert_allclose(tight.log_density(z), direct(train, z, 1e-3), atol=1e-6)


@pytest.mark.parametrize("scale", [1e3, 1e9, 1e30])
def test_rows_far_away_are_finite_and_exact(scale):
    train = relu_features(200, 32, 0)
    z = (relu_features(20, 32, 1) * scale).astype(np.float32)
    np.testing.assert_allclose(Kernels.on(train, 0.7).log_density(z), direct(train, z, 0.7), rtol=1e-6)


def test_a_shift_of_everything_changes_nothing():
    train, z = relu_features(300, 20, 0, np.float64), relu_features(50, 20, 1, np.float64)
    np.testing.assert_allclose(
        Kernels.on(train + 1e4, 0.5).log_density(z + 1e4), Kernels.on(train, 0.5).log_density(z), atol=1e-3
    )


def test_blocks_change_nothing(monkeypatch):
    train, z = relu_features(700, 24, 0), relu_features(90, 24, 1)
    whole = Kernels.on(train, 0.6).log_density(z)
    monkeypatch.setattr(kernel, "CENTRE_ROWS", 13)
    monkeypatch.setattr(kernel, "QUERY_ROWS", 7)
    np.testing.assert_allclose(Kernels.on(train, 0.6).log_density(z), whole, atol=1e-4)


def test_density_integrates_to_one():
    train = np.random.default_rng(0).normal(size=(20, 1))
    grid = np.linspace(-8, 8, 4001)
    mass = np.trapezoid(np.exp(Kernels.on(train, 0.3).log_density(grid[:, None])), grid)
    assert mass == pytest.approx(1, abs=1e-6)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from([1, 2, 5, 20]), st.integers(3, 60))
def test_bandwidth_is_the_leave_one_out_maximum(seed, width, rows):
    rng = np.random.default_rng(seed)
    train = rng.normal(size=(rows, width)) * rng.uniform(0.01, 100)
    bandwidth = held_out_bandwidth(train)
    assert bandwidth.log_likelihood == pytest.approx(leave_one_out(train, bandwidth.value), rel=1e-5, abs=1e-4)
    grid = bandwidth.value * np.geomspace(0.01, 100, 400)
    assert bandwidth.log_likelihood >= max(leave_one_out(train, h) for h in grid) - 1e-3 * width


def test_bandwidth_equals_a_direct_optimisation_on_digits():
    digits = load_digits().data[:600]
    peer = minimize_scalar(lambda h: -leave_one_out(digits, h), bounds=(0.5, 8), method="bounded")
    bandwidth = held_out_bandwidth(digits)
    assert bandwidth.value == pytest.approx(peer.x, rel=5e-3)
    assert bandwidth.log_likelihood == pytest.approx(-peer.fun, abs=1e-3)
    assert bandwidth.held_out == 600


@pytest.mark.parametrize("scale", [1e-25, 1e-3, 1e30])
def test_bandwidth_scales_with_the_features(scale):
    train = relu_features(200, 12, 0, np.float64)
    assert held_out_bandwidth(train * scale).value == pytest.approx(held_out_bandwidth(train).value * scale, rel=1e-6)


def test_duplicates_do_not_shrink_the_bandwidth():
    digits = load_digits().data[:400]
    twice = np.concatenate([digits, digits])
    assert held_out_bandwidth(twice).value == pytest.approx(held_out_bandwidth(digits).value, rel=1e-2)


def test_held_out_rows_are_drawn_by_the_seed(monkeypatch):
    monkeypatch.setattr(kernel, "HELD_OUT_ROWS", 100)
    digits = load_digits().data[:800]
    first, again, other = (held_out_bandwidth(digits, seed) for seed in (0, 0, 1))
    assert first == again
    assert first.held_out == 100
    assert first.value != other.value
    monkeypatch.setattr(kernel, "HELD_OUT_ROWS", 800)
    assert first.value == pytest.approx(held_out_bandwidth(digits).value, rel=0.05)


@pytest.mark.parametrize("rows", [1, 5])
def test_equal_rows_have_no_bandwidth(rows):
    with pytest.raises(SoftscopeError, match="all equal"):
        held_out_bandwidth(np.ones((rows, 4)))


def test_two_rows_have_their_distance_as_bandwidth():
    assert held_out_bandwidth(np.array([[0.0, 0.0], [3.0, 4.0]])).value == pytest.approx(5 / np.sqrt(2))
