"""EM against scikit-learn from the same start, and what must hold of any fit."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import multivariate_normal
from sklearn.mixture import GaussianMixture as Sklearn
from sklearn.mixture._gaussian_mixture import _compute_precision_cholesky, _estimate_gaussian_parameters

from softscope import FeatureSet, SoftscopeError
from softscope.mixture.gaussian import GaussianMixture, fit_mixture

KINDS = {"full": "full", "tied": "tied", "diagonal": "diag", "spherical": "spherical"}


def clusters(rows=1500, features=12, components=4, seed=0, apart=2.0, dtype=np.float32):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, components, rows)
    centres = apart * rng.normal(size=(components, features))
    shapes = rng.normal(size=(components, features, features)) / np.sqrt(features)
    z = centres[labels] + np.einsum("nh,nhj->nj", rng.normal(size=(rows, features)), shapes[labels])
    return z.astype(dtype), labels.astype(np.int64)


def sklearn_from(z, start, kind, ridge):
    components = int(start.max()) + 1
    model = Sklearn(components, covariance_type=kind, reg_covar=ridge)
    weights, means, covariances = _estimate_gaussian_parameters(z, np.eye(components)[start], ridge, kind)
    model.weights_, model.means_, model.covariances_ = weights / len(z), means, covariances
    model.precisions_cholesky_ = _compute_precision_cholesky(covariances, kind)
    return model


def assert_agrees(ours, model, z, iterations):
    for log_likelihood in ours.history:
        theirs, responsibilities = model._e_step(z)
        assert log_likelihood == pytest.approx(theirs, rel=1e-6)
        model._m_step(z, responsibilities)
    assert len(ours.history) == iterations
    np.testing.assert_allclose(ours.weights, model.weights_, rtol=1e-3, atol=1e-6)
    np.testing.assert_allclose(ours.means, model.means_, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("covariance", KINDS)
def test_each_of_ten_iterations_agrees_with_sklearn(covariance):
    z, labels = clusters()
    start = np.where(np.random.default_rng(1).random(len(z)) < 0.3, 0, labels)
    ours = fit_mixture(FeatureSet(z), start, covariance=covariance, iterations=10, tolerance=0.0)
    assert_agrees(ours, sklearn_from(z.astype(float), start, KINDS[covariance], 1e-5), z.astype(float), 10)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_bounded_path_agrees_with_sklearn(dtype, monkeypatch):
    z, labels = clusters(rows=6000, features=96, components=8, apart=1.0, dtype=dtype)
    start = np.where(np.random.default_rng(1).random(len(z)) < 0.2, 0, labels)
    monkeypatch.setattr("softscope.mixture.full._WORTH_BOUNDING", 0.0)
    ours = fit_mixture(FeatureSet(z), start, iterations=3, tolerance=0.0)
    assert ours.components._bounds_for(z).width > 0
    assert_agrees(ours, sklearn_from(z.astype(float), start, "full", 1e-5), z.astype(float), 3)


@pytest.mark.parametrize("covariance", KINDS)
def test_log_density_is_the_mixture_of_scipys_normals(covariance):
    z, labels = clusters(rows=400, features=5, components=3, dtype=np.float64)
    mixture = fit_mixture(FeatureSet(z), labels, covariance=covariance, iterations=0)
    direct = np.zeros(len(z))
    pooled = sum(np.cov(z[labels == k].T, bias=True) * (labels == k).mean() for k in range(3))
    for k in range(3):
        own = z[labels == k]
        matrix = {
            "full": np.cov(own.T, bias=True),
            "tied": pooled,
            "diagonal": np.diag(own.var(axis=0)),
            "spherical": np.eye(5) * own.var(axis=0).mean(),
        }[covariance]
        normal = multivariate_normal(own.mean(axis=0), matrix + 1e-5 * np.eye(5))
        direct += len(own) / len(z) * normal.pdf(z)
    np.testing.assert_allclose(mixture.log_density(z), np.log(direct), rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("covariance", KINDS)
def test_the_closed_form_is_no_iteration_of_em(covariance):
    z, labels = clusters()
    mixture = fit_mixture(FeatureSet(z), labels, covariance=covariance, iterations=0)
    assert mixture.history == ()
    assert mixture.converged
    np.testing.assert_allclose(mixture.weights, np.bincount(labels) / len(labels))
    for k in range(4):
        np.testing.assert_allclose(mixture.means[k], z[labels == k].mean(axis=0, dtype=float), rtol=1e-5, atol=1e-6)


@settings(max_examples=25, deadline=None)
@given(
    st.sampled_from(list(KINDS)), st.integers(2, 5), st.integers(2, 8), st.floats(0.0, 3.0), st.integers(0, 2**32 - 1)
)
def test_the_likelihood_never_falls(covariance, components, features, apart, seed):
    z, _ = clusters(200, features, components, seed, apart)
    start = np.random.default_rng(seed).permutation(np.arange(200) % components)
    # A ridge breaks monotonicity by about its size; this one is below rounding of the likelihood.
    mixture = fit_mixture(FeatureSet(z), start, covariance=covariance, ridge=1e-9, iterations=15, tolerance=0.0)
    history = np.array(mixture.history)
    if not any(line.remedy for line in mixture.conditioning):
        assert np.diff(history).min() >= -1e-5 * np.abs(history).max()


def test_chunks_do_not_change_the_fit(monkeypatch):
    z, labels = clusters(rows=3000)
    whole = fit_mixture(FeatureSet(z), labels, iterations=5, tolerance=0.0)
    monkeypatch.setattr("softscope.mixture.gaussian._rows_a_chunk", lambda features, components: 177)
    cut = fit_mixture(FeatureSet(z), labels, iterations=5, tolerance=0.0)
    np.testing.assert_allclose(cut.history, whole.history, rtol=1e-9)
    np.testing.assert_allclose(cut.log_density(z), whole.log_density(z), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("covariance", KINDS)
def test_statistics_of_two_halves_merge_into_those_of_the_whole(covariance):
    from softscope.mixture import gaussian

    z, labels = clusters()
    whole = gaussian.first_statistics(FeatureSet(z), labels, covariance)
    first = whole.empty(whole.components()[0].means)
    second = whole.empty(whole.components()[0].means)
    member = np.eye(4)[labels]
    first.add(z[:700], member[:700])
    second.add(z[700:], member[700:])
    first.merge(second)
    expected, ours = whole.components()[0], first.components()[0]
    np.testing.assert_allclose(ours.log_joint(z), expected.log_joint(z), rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("covariance", KINDS)
def test_without_measuring_only_ranks_and_condition_numbers_are_left_out(covariance):
    from dataclasses import replace

    from softscope.mixture import first_statistics, fit_from

    z, labels = clusters()
    shared = first_statistics(FeatureSet(z), labels, covariance)
    whole, brief = (fit_from(FeatureSet(z), shared, iterations=2, measured=measured) for measured in (True, False))
    assert brief.history == whole.history
    assert [replace(line, rank=0, condition=0.0) for line in brief.conditioning] == [
        replace(line, rank=0, condition=0.0) for line in whole.conditioning
    ]
    assert None not in [line.rank for line in whole.conditioning]


@pytest.mark.parametrize("covariance", KINDS)
def test_one_pass_of_statistics_serves_every_ridge(covariance):
    from softscope.mixture.gaussian import first_statistics, fit_from

    z, labels = clusters()
    shared = first_statistics(FeatureSet(z), labels, covariance)
    for ridge in (1e-1, 1e-7, 1e-1):  # the first again: sharing left the statistics as they were
        alone = fit_mixture(FeatureSet(z), labels, covariance=covariance, ridge=ridge, iterations=3)
        fitted = fit_from(FeatureSet(z), shared, ridge=ridge, iterations=3)
        assert (fitted.covariance, fitted.history, fitted.conditioning) == (
            covariance,
            alone.history,
            alone.conditioning,
        )
        np.testing.assert_array_equal(fitted.log_density(z), alone.log_density(z))


def test_it_stays_finite_at_2048_features():
    rng = np.random.default_rng(0)
    z = rng.normal(size=(600, 2048)).astype(np.float32) * 30
    labels = np.arange(600) % 2
    mixture = fit_mixture(FeatureSet(z), labels, iterations=1)
    scores = mixture.log_density(np.concatenate([z[:5], z[:5] * 1e6]))
    assert np.isfinite(scores).all()
    assert (scores[5:] < scores[:5]).all()


def test_350_points_a_class_at_512_features_are_reported_as_rank_deficient():
    rng = np.random.default_rng(0)
    z = np.maximum(rng.normal(size=(1050, 512)), 0).astype(np.float32)
    mixture = fit_mixture(FeatureSet(z), np.arange(1050) % 3, iterations=2)
    assert [line.rank for line in mixture.conditioning] == [349, 349, 349]
    assert all(line.ridge == 1e-5 and line.remedy == "" for line in mixture.conditioning)
    assert all(line.condition > 1e4 for line in mixture.conditioning)
    assert np.isfinite(mixture.log_density(z)).all()


@pytest.mark.parametrize("covariance", KINDS)
def test_without_a_ridge_a_singular_covariance_gets_a_reported_one(covariance):
    z, labels = clusters()
    z[:, 3] = 0.0  # a dead neuron
    mixture = fit_mixture(FeatureSet(z), labels, covariance=covariance, ridge=0.0, iterations=2)
    assert np.isfinite(mixture.log_density(z)).all()
    assert np.isfinite(mixture.log_density(z + 1)).all()
    if covariance != "spherical":
        assert all(line.remedy for line in mixture.conditioning)


@pytest.mark.parametrize("covariance", KINDS)
def test_an_empty_component_is_dropped_and_said_so(covariance):
    z, labels = clusters(components=3)
    labels[labels == 2] = 4  # components 2 and 3 are empty
    mixture = fit_mixture(FeatureSet(z), labels, covariance=covariance, iterations=2)
    assert len(mixture.weights) == 3
    dropped = [line.component for line in mixture.conditioning if line.remedy == "dropped"]
    assert dropped == [2, 3]


@pytest.mark.parametrize("covariance", ["full", "diagonal"])
def test_a_component_of_one_point_takes_the_pooled_covariance(covariance):
    z, labels = clusters(components=2)
    labels[0] = 2
    mixture = fit_mixture(FeatureSet(z), labels, covariance=covariance, iterations=0)
    assert mixture.conditioning[2].remedy == "pooled covariance"
    assert np.isfinite(mixture.log_density(z)).all()


def test_an_ill_conditioned_covariance_is_whitened_in_float64():
    rng = np.random.default_rng(0)
    common = rng.normal(size=(500, 1)) * 1e3
    z = common + rng.normal(size=(500, 6)) * 1e-2
    mixture = fit_mixture(FeatureSet(z), np.zeros(500, np.int64), ridge=0.0, iterations=0)
    assert mixture.conditioning[0].precision == "float64"
    centred, covariance = z - z.mean(axis=0), np.cov(z.T, bias=True)
    distances = (centred * np.linalg.solve(covariance, centred.T).T).sum(axis=1)
    expected = -0.5 * (distances + np.linalg.slogdet(covariance)[1] + 6 * np.log(2 * np.pi))
    np.testing.assert_allclose(mixture.log_density(z), expected, atol=1e-4)


@pytest.mark.parametrize("covariance", KINDS)
def test_state_rebuilds_the_same_density(covariance):
    z, labels = clusters()
    mixture = fit_mixture(FeatureSet(z), labels, covariance=covariance, iterations=2)
    again = GaussianMixture.from_state(mixture.state())
    np.testing.assert_array_equal(again.log_density(z), mixture.log_density(z))
    assert again.covariance == covariance


def test_bad_arguments_are_explained():
    z, labels = clusters(rows=20)
    with pytest.raises(SoftscopeError, match="covariance 'round' is unknown"):
        fit_mixture(FeatureSet(z), labels, covariance="round")
    with pytest.raises(SoftscopeError, match="ridge is -1"):
        fit_mixture(FeatureSet(z), labels, ridge=-1.0)
    with pytest.raises(SoftscopeError, match="19 labels for 20 rows"):
        fit_mixture(FeatureSet(z), labels[1:])


def test_it_converges_where_sklearn_does():
    z, labels = clusters(apart=3.0)
    ours = fit_mixture(FeatureSet(z), labels)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = Sklearn(4, reg_covar=1e-5, weights_init=ours.weights, means_init=ours.means).fit(z.astype(float))
    assert ours.converged
    assert ours.history[-1] == pytest.approx(theirs.lower_bound_, rel=1e-3)


@pytest.mark.parametrize("covariance", KINDS)
@pytest.mark.parametrize("size", [1e12, 1e25, 1e37])
def test_rows_beyond_float32_squares_keep_their_order(covariance, size, monkeypatch):
    monkeypatch.setattr("softscope.mixture.full._WORTH_BOUNDING", 0.0)
    z, labels = clusters()
    mixture = fit_mixture(FeatureSet(z), labels, covariance=covariance, iterations=1)
    far = np.float32(size) * np.linspace(0.5, 1.0, 7, dtype=np.float32)[:, None] * np.abs(z[:7])
    far[1:] = far[1:] / far[1:].max(axis=1, keepdims=True) * np.linspace(0.5, 1.0, 6, dtype=np.float32)[:, None] * size
    scores = mixture.log_density(far)
    wide = mixture.log_density(far.astype(np.float64))
    np.testing.assert_allclose(scores, wide, rtol=1e-4)
    assert np.isfinite(scores).all()
