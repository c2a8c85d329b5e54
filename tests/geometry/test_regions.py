"""Valid OOD regions: thresholds, membership, closed forms, volumes, and the sizes for a head with features."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import dblquad
from scipy.stats import chi2

from softscope import FeatureSet, Head, geometry
from softscope.errors import SoftscopeError
from softscope.estimators import MaxProbability
from softscope.geometry import (
    KnownMixture,
    SlabRegion,
    confidence_threshold,
    density_region,
    entropy_region,
    exact_region,
    linear_region,
    optimal_structure,
    projection,
    region_sizes,
    shares_under,
    slab_offset,
    uniform_in_ball,
    uniform_on_sphere,
    valid_region,
    valid_threshold,
)

TWO = KnownMixture([0.3, 0.7], [[2.0, 1.0], [-2.0, 0.5]], [np.diag([0.5, 1.0]), [[0.8, 0.3], [0.3, 0.6]]])
PAIR = Head(np.array([[1.5, 0.5], [-1.5, -0.5]]), np.array([0.2, -0.1]))


@given(st.lists(st.integers(-5, 5), min_size=1, max_size=60), st.floats(0, 1), st.integers(-6, 6))
def test_the_threshold_is_the_definition_of_the_valid_region(values, epsilon, u):
    share_below = np.mean(np.array(values) < u)
    if abs(share_below - (1 - epsilon)) < 1e-9:
        return
    assert (u > valid_threshold(values, epsilon)) == (share_below > 1 - epsilon)


def test_epsilon_zero_leaves_an_empty_region_and_whole_shares_are_not_lost_to_rounding():
    assert valid_threshold([1.0, 2.0], 0.0) == np.inf
    assert valid_threshold(np.arange(100.0), 0.05) == 95.0
    assert valid_threshold(np.arange(10.0), 0.9) == 1.0


@pytest.mark.parametrize(("values", "epsilon"), [([], 0.05), ([np.nan], 0.05), ([1.0], 1.5), ([1.0], -0.1)])
def test_thresholds_of_nothing_or_of_impossible_shares_are_refused(values, epsilon):
    with pytest.raises(SoftscopeError):
        valid_threshold(values, epsilon)


def test_the_exact_region_is_where_confidence_is_below_t():
    rng = np.random.default_rng(0)
    head = Head(rng.standard_normal((5, 3)), rng.standard_normal(5))
    z = 2.0 * rng.standard_normal((500, 3))
    s = np.exp(head.logits(z))
    confidence = (s / s.sum(axis=1, keepdims=True)).max(axis=1)
    np.testing.assert_array_equal(exact_region(head, np.log(0.7 / 0.3)).contains(z), confidence < 0.7)


@given(st.integers(2, 6), st.integers(1, 5), st.floats(0.05, 0.999), st.integers(0, 10_000))
def test_the_linear_region_is_the_union_of_slabs_around_the_boundaries(classes, features, t, seed):
    rng = np.random.default_rng(seed)
    head = Head(rng.standard_normal((classes, features)), rng.standard_normal(classes))
    z = 3.0 * rng.standard_normal((20, features))
    logits = head.logits(z)
    width = np.log(t / (1 - t))
    expected = np.zeros(20, bool)
    for i in range(classes):
        for j in range(classes):
            if i != j:
                leads = np.isin(logits.argmax(axis=1), (i, j))
                expected |= leads & (np.abs(logits[:, i] - logits[:, j]) < width)
    np.testing.assert_array_equal(linear_region(head, width).contains(z), expected)


def test_the_linear_region_is_empty_for_confidences_up_to_one_half():
    head = optimal_structure(3, 2)
    z = np.random.default_rng(0).standard_normal((1000, 2))
    assert not linear_region(head, 0.0).contains(z).any()
    assert not linear_region(head, np.log(0.4 / 0.6)).contains(z).any()


def test_regions_hold_the_stated_share_of_the_training_features():
    z, _ = TWO.sample(200_000, np.random.default_rng(3))
    train, fresh = z[:100_000], z[100_000:]
    for region in (
        exact_region(PAIR, confidence_threshold(PAIR, train, 0.1)),
        entropy_region(PAIR, FeatureSet(train), 0.1),
        entropy_region(PAIR, TWO, 0.1),
        density_region(TWO, 0.1),
        valid_region(MaxProbability().fit(PAIR), train, 0.1),
        SlabRegion(PAIR, slab_offset(PAIR, TWO, 0.1)),
    ):
        assert region.contains(fresh).mean() == pytest.approx(0.1, abs=0.006)


def test_for_two_classes_slab_exact_linear_and_entropy_regions_are_one():
    alpha = slab_offset(PAIR, TWO, 0.05)
    normal = (PAIR.weight[0] - PAIR.weight[1]) / 2
    logit_t = 2 * alpha * normal @ normal
    z = 3.0 * np.random.default_rng(4).standard_normal((10_000, 2))
    slab = SlabRegion(PAIR, alpha).contains(z)
    assert 0.05 < slab.mean() < 0.95
    np.testing.assert_array_equal(slab, exact_region(PAIR, logit_t).contains(z))
    np.testing.assert_array_equal(slab, linear_region(PAIR, logit_t).contains(z))


def test_the_erf_form_agrees_with_the_exact_offset_for_separable_classes():
    apart = KnownMixture([0.4, 0.6], [[4.0, 0.0], [-4.0, 1.0]], TWO.covariances)
    assert geometry.gaussian_coverage(projection(PAIR, apart), slab_offset(PAIR, apart)) == pytest.approx(0.9, rel=1e-6)
    near = KnownMixture([0.4, 0.6], [[0.5, 0.0], [-0.5, 1.0]], TWO.covariances)
    assert abs(geometry.gaussian_coverage(projection(PAIR, near), slab_offset(PAIR, near)) - 0.9) > 1e-2


def test_the_slab_is_for_two_classes_only():
    with pytest.raises(SoftscopeError, match="two classes"):
        slab_offset(optimal_structure(3, 2), TWO)


def test_one_gaussian_has_the_chi_square_ellipsoid():
    one = KnownMixture([1.0], [[1.0, -1.0, 0.0]], [np.diag([0.1, 1.0, 5.0])])
    assert geometry.ellipsoid_region(one, 0.05).sizes[0] == pytest.approx(chi2.isf(0.05, 3), rel=1e-9)


def test_ellipsoids_of_separated_components_are_the_density_region():
    apart = KnownMixture([0.2, 0.8], [[6.0, 0.0], [-6.0, 0.0]], [np.eye(2) * 0.3, np.diag([2.0, 0.5])])
    z = np.random.default_rng(0).uniform(-9, 9, (20_000, 2))
    exact, ellipsoids = density_region(apart, 0.05).contains(z), geometry.ellipsoid_region(apart, 0.05).contains(z)
    assert (exact != ellipsoids).mean() < 1e-3
    assert 0.02 < 1 - exact.mean() < 0.5


def test_points_of_another_width_are_refused():
    with pytest.raises(SoftscopeError, match="the region expects 2"):
        density_region(TWO).contains(np.zeros((3, 5)))


@pytest.mark.parametrize(("size", "keep"), [(1, 1), (3, 3), (7, 2)])
def test_uniform_points_have_the_radii_and_moments_of_the_ball(size, keep):
    z = uniform_in_ball(200_000, size, np.random.default_rng(0), radius=2.0, keep=keep)
    assert z.shape == (200_000, keep)
    np.testing.assert_allclose((z**2).mean(axis=0), 4.0 / (size + 2), rtol=0.02)
    if keep == size:
        inside = np.mean(np.linalg.norm(z, axis=1) < 1.0)
        assert inside == pytest.approx(0.5**size, abs=0.004)


@pytest.mark.parametrize(("size", "keep"), [(2, 2), (5, 3)])
def test_points_on_the_sphere_are_uniform(size, keep):
    z = uniform_on_sphere(200_000, size, np.random.default_rng(0), keep=keep)
    np.testing.assert_allclose((z**2).mean(axis=0), 1.0 / size, rtol=0.02)
    if keep == size:
        np.testing.assert_allclose(np.linalg.norm(z, axis=1), 1.0)


def share_of_disc(region, radius, **how):
    return shares_under({"": region}, lambda count, rng: uniform_in_ball(count, 2, rng, radius=radius), **how)[""]


def test_the_share_of_a_disc_agrees_with_quadrature():
    region = linear_region(PAIR, 1.0)
    inside, _ = dblquad(
        lambda y, x: float(region.contains(np.array([[x, y]]))[0]),
        -1, 1, lambda x: -np.sqrt(1 - x * x), lambda x: np.sqrt(1 - x * x), epsabs=2e-2, epsrel=2e-2,
    )  # fmt: skip
    share = share_of_disc(region, 1.0, samples=400_000)
    assert share.value == pytest.approx(inside / np.pi, abs=0.02)
    assert share.standard_error < 0.001


def test_the_standard_error_is_honest_and_never_zero():
    region = linear_region(PAIR, 1.0)
    shares = [share_of_disc(region, 1.5, samples=2_000, seed=seed) for seed in range(200)]
    spread = np.std([share.value for share in shares])
    assert spread == pytest.approx(shares[0].standard_error, rel=0.2)
    assert share_of_disc(linear_region(PAIR, -1.0), 1.0, samples=1000).standard_error > 0


def test_a_share_needs_draws():
    with pytest.raises(SoftscopeError, match="draws"):
        share_of_disc(linear_region(PAIR, 1.0), 1.0, samples=0)


def test_membership_of_a_million_points_in_one_call():
    z = np.random.default_rng(0).standard_normal((1_000_000, 2)).astype(np.float32)
    head = optimal_structure(3, 2, norm=3.0)
    linear, exact = linear_region(head, 1.0).contains(z), exact_region(head, 1.0).contains(z)
    assert linear.shape == (1_000_000,)
    assert not (linear & ~exact).any()


def test_region_sizes_of_a_trained_head_say_how_much_room_there_is():
    rng = np.random.default_rng(0)
    head = optimal_structure(3, 8, norm=3.0, seed=1)
    labels = rng.integers(0, 3, 6000)
    train = FeatureSet(head.weight[labels] + 0.5 * rng.standard_normal((6000, 8)), labels)
    sizes = region_sizes(head, train, density=MaxProbability().fit(head), samples=20_000)
    assert set(sizes.ball) == set(sizes.gaussian) == {"max", "linear", "entropy", "density"}
    for shares in (sizes.ball, sizes.gaussian):
        assert shares["linear"].value <= shares["max"].value
        assert shares["density"] == shares["max"]
        assert 0 < shares["max"].value < 1
    assert sizes.radius == pytest.approx(
        np.quantile(np.linalg.norm(np.concatenate(list(train.chunks())), axis=1), 0.95)
    )
    larger = region_sizes(head, train, epsilon=0.3, samples=20_000)
    assert larger.ball["max"].value > sizes.ball["max"].value
    assert "density" not in larger.ball


def test_whatever_people_pass_as_training_features_is_taken(tmp_path):
    rng = np.random.default_rng(0)
    head, z = optimal_structure(3, 8, norm=3.0, seed=1), rng.standard_normal((300, 8)).astype(np.float32)
    train = FeatureSet(z)
    train.save(tmp_path / "z.safetensors")
    expected = region_sizes(head, train, samples=500)
    for own in (z, z.tolist(), (z, np.zeros(300, int)), tmp_path / "z.safetensors"):
        sizes = region_sizes(head, own, samples=500)
        assert (sizes.ball, sizes.gaussian) == (expected.ball, expected.gaussian)


def test_the_gaussian_reference_has_the_mean_and_the_covariance_of_training():
    rng = np.random.default_rng(8)
    # Far from the origin: products that are not centred would spread the reference along the mean.
    z = np.array([6.0, -4.0]) + rng.standard_normal((4000, 2)) @ np.array([[0.5, 0.2], [0.0, 0.3]])
    head = Head(np.array([[1.0, 0.0], [-1.0, 0.5]]), np.array([-6.0, 6.0]))
    sizes = region_sizes(head, FeatureSet(z), samples=200_000)
    drawn = np.random.default_rng(9).multivariate_normal(z.mean(axis=0), np.cov(z.T), 200_000)
    for name, region in {"max": exact_region(head, sizes.logit_t), "entropy": entropy_region(head, z)}.items():
        expected = region.contains(drawn).mean()
        assert 0.01 < expected < 0.2
        assert sizes.gaussian[name].value == pytest.approx(expected, abs=5 * sizes.gaussian[name].standard_error)


def test_an_equation_for_the_slab_without_a_solution_is_said_in_one_line():
    with pytest.raises(SoftscopeError, match="no half width"):
        slab_offset(PAIR, TWO, 1.5)
