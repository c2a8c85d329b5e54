"""E4 against scikit-learn's mixture, its options, and what it says when they can't be had."""

import numpy as np
import pytest
from sklearn.mixture import GaussianMixture

from softscope import Density, FeatureSet, Head, SoftscopeError


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    labels = np.arange(900) % 3
    z = np.maximum(rng.normal(size=(900, 16)) + 2 * rng.normal(size=(3, 16))[labels], 0).astype(np.float32)
    return Head(rng.normal(size=(3, 16))), FeatureSet(z, labels), rng.normal(size=(200, 16)) * 4


def test_one_gaussian_is_sklearns(data):
    head, train, other = data
    theirs = GaussianMixture(1, reg_covar=1e-5).fit(train.array().astype(float))
    ours = Density(components=1).fit(head, train)
    np.testing.assert_allclose(ours.uncertainty(other), -theirs.score_samples(other), rtol=1e-4)


def test_one_per_class_is_a_gaussian_fitted_to_each_class(data):
    head, train, other = data
    ours = Density(one_per_class=True).fit(head, train)
    assert ours.mixture_.history == ()
    z = train.array().astype(float)
    parts = [
        GaussianMixture(1, reg_covar=1e-5).fit(z[train.labels == k]).score_samples(other)
        + np.log((train.labels == k).mean())
        for k in range(3)
    ]
    np.testing.assert_allclose(ours.uncertainty(other), -np.logaddexp.reduce(parts), rtol=1e-4)


def test_em_raises_the_likelihood_of_the_class_fit(data):
    head, train, _ = data
    fitted, closed = Density().fit(head, train), Density(one_per_class=True).fit(head, train)
    assert fitted.uncertainty(train).mean() <= closed.uncertainty(train).mean() + 1e-6
    assert len(fitted.mixture_.history) > 1


def test_log_features_are_the_density_of_log_of_z_plus_the_recorded_offset(data):
    head, train, _ = data
    ours = Density(transform="log", ridge=1e-3).fit(head, train)
    log_z = np.log(np.maximum(train.array(), 0) + ours.offset_)
    direct = Density(ridge=1e-3).fit(head, FeatureSet(log_z, train.labels))
    np.testing.assert_allclose(ours.uncertainty(train), direct.uncertainty(log_z), rtol=1e-6)
    assert np.isfinite(ours.uncertainty(-train.array())).all()


def test_neurons_are_columns_drawn_by_the_seed(data):
    head, train, other = data
    ours = Density(neurons=5, seed=3).fit(head, train)
    assert len(set(ours.columns_)) == 5
    np.testing.assert_array_equal(ours.columns_, Density(neurons=5, seed=3).fit(head, train).columns_)
    assert (ours.columns_ != Density(neurons=5, seed=4).fit(head, train).columns_).any()
    changed = other.copy()
    changed[:, np.setdiff1d(np.arange(16), ours.columns_)] = 99.0
    np.testing.assert_array_equal(ours.uncertainty(changed), ours.uncertainty(other))


@pytest.mark.parametrize("init", ["kmeans", "random"])
def test_other_starts_need_no_labels_and_any_number_of_components(data, init):
    head, train, other = data
    bare = FeatureSet(train.array())
    ours = Density(components=5, init=init).fit(head, bare)
    assert len(ours.mixture_.weights) <= 5
    assert ours.uncertainty(other).mean() > ours.uncertainty(bare).mean()


def test_every_component_is_reported(data):
    head, train, _ = data
    report = Density().fit(head, train).conditioning_
    assert [line.component for line in report] == [0, 1, 2]
    assert sum(line.count for line in report) == pytest.approx(900)
    assert {line.precision for line in report} <= {"float32", "float64"}
    assert all(1 <= line.rank <= 16 and line.condition >= 1 for line in report)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"init": "magic"}, "init 'magic' is unknown"),
        ({"transform": "sqrt"}, "transform 'sqrt' is unknown"),
        ({"covariance": "round"}, "covariance 'round' is unknown"),
        ({"components": 0}, "0 components"),
        ({"components": 7}, "the classes give 3 components, 7 were asked for"),
        ({"neurons": 17}, "17 neurons asked for, the features have 16"),
        ({"ridge": float("nan")}, "ridge is nan"),
        ({"components": 901, "init": "kmeans"}, "901 components for 900 rows"),
    ],
)
def test_impossible_options_are_explained(data, options, message):
    head, train, _ = data
    with pytest.raises(SoftscopeError, match=message):
        Density(**options).fit(head, train)


def test_starting_from_classes_without_labels_is_explained(data):
    head, train, _ = data
    with pytest.raises(SoftscopeError, match="needs labels"):
        Density().fit(head, FeatureSet(train.array()))
    for least in (Density(init="kmeans"), Density(components=1)):
        assert least.needs == ("train",)
        assert np.isfinite(least.fit(head, FeatureSet(train.array())).uncertainty(train)).all()
    assert Density(init="kmeans", one_per_class=True).needs == Density().needs == ("train", "labels")


def test_covariances_that_would_fill_the_memory_are_shared_and_said(data, monkeypatch):
    head, train, other = data
    monkeypatch.setattr("softscope.estimators.density.FULL_BYTES", 3 * 16**2 * 8 - 1)
    with pytest.warns(UserWarning, match="3 covariances of 16 x 16 need 0 GB; all components share one"):
        fitted = Density().fit(head, train)
    tied = Density(covariance="tied").fit(head, train)
    np.testing.assert_array_equal(fitted.uncertainty(other), tied.uncertainty(other))
