"""Moments against numpy on the whole, however the rows are cut."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from softscope.mixture.moments import Moments


@given(st.integers(1, 60), st.integers(1, 6), st.integers(0, 2**32 - 1), st.integers(1, 20))
def test_merging_any_cut_equals_the_whole(rows, features, seed, size):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, features)) * 3 + 1e4  # a mean that would cancel in sum(x x') - n m m'
    moments = Moments.over(x[i : i + size] for i in range(0, rows, size))
    centred = x - x.mean(axis=0)
    assert moments.count == rows
    np.testing.assert_allclose(moments.mean, x.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(moments.scatter, centred.T @ centred, rtol=1e-8, atol=1e-8)


def test_weights_count_as_repeated_rows():
    rng = np.random.default_rng(0)
    x, times = rng.normal(size=(7, 3)), np.array([1, 2, 0, 3, 1, 1, 4])
    weighted, repeated = Moments.of(x, times), Moments.of(np.repeat(x, times, axis=0))
    assert weighted.count == repeated.count
    np.testing.assert_allclose(weighted.mean, repeated.mean)
    np.testing.assert_allclose(weighted.scatter, repeated.scatter, atol=1e-12)


def test_covariance_is_numpys_maximum_likelihood():
    x = np.random.default_rng(1).normal(size=(50, 4))
    np.testing.assert_allclose(Moments.of(x).covariance, np.cov(x.T, bias=True))


def test_nothing_merges_to_nothing():
    empty = Moments.of(np.ones((3, 2)), np.zeros(3))
    assert empty.count == 0
    assert empty.merge(empty).count == 0
    assert empty.merge(Moments.of(np.ones((2, 2)))).mean == pytest.approx(np.ones(2))
