"""Mahalanobis, relative Mahalanobis, ViM, GEN: against scikit-learn, scipy, mpmath, and their own symmetries."""

import mpmath
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp, softmax
from scipy.stats import ortho_group
from sklearn.covariance import EmpiricalCovariance
from sklearn.datasets import load_digits
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression

from softscope.errors import SoftscopeError
from softscope.estimators import (
    GEN,
    Density,
    KernelDensity,
    Mahalanobis,
    MahalanobisPlus,
    RelativeMahalanobis,
    RelativeMahalanobisPlus,
    Residual,
    ViM,
)
from softscope.estimators.softmax import log_generalised_entropy
from softscope.features import FeatureSet
from softscope.head import Head
from softscope.metrics import auroc
from softscope.mixture import ClassMoments

seeds = st.integers(0, 2**32 - 1)


def clusters(seed, rows=300, width=8, classes=4, dtype=np.float64):
    """Labelled rows around class means, with a common, tilted covariance."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, classes, rows)
    tilt = np.eye(width) + 0.3 * rng.normal(size=(width, width)) / np.sqrt(width)
    z = 3 * rng.normal(size=(classes, width))[labels] + rng.normal(size=(rows, width)) @ tilt
    return z.astype(dtype), labels


def any_head(classes, width, seed=0, bias=True):
    rng = np.random.default_rng(seed)
    return Head(rng.normal(size=(classes, width)), rng.normal(size=classes) if bias else None)


def centred_by_class(z, labels):
    means = np.stack([z[labels == c].mean(axis=0) for c in np.unique(labels)])
    return means, z - means[np.unique(labels, return_inverse=True)[1]]


def by_scikit_learn(train, labels, z):
    """Min over classes of the squared distance, and that to the Gaussian of all rows."""
    means, centred = centred_by_class(train.astype(float), labels)
    tied = EmpiricalCovariance(assume_centered=True).fit(centred)
    whole = EmpiricalCovariance().fit(train.astype(float))
    distances = np.stack([tied.mahalanobis(z - mean) for mean in means], axis=1)
    return distances.min(axis=1), whole.mahalanobis(z)


@pytest.fixture(scope="module")
def digits():
    """A real head and real features: logistic regression on images of digits, three pixels of which are never lit."""
    data, labels = load_digits(return_X_y=True)
    z = (data / 16).astype(np.float32)
    model = LogisticRegression(max_iter=2000).fit(z[:1200], labels[:1200])
    head = Head(model.coef_.astype(np.float32), model.intercept_.astype(np.float32))
    return head, FeatureSet(z[:1200], labels[:1200]), z[1200:]


def test_mahalanobis_distances_equal_scikit_learn(digits):
    z, labels = clusters(0)
    queries = clusters(1)[0]
    head = any_head(4, 8)
    nearest, background = by_scikit_learn(z, labels, queries)
    train = FeatureSet(z, labels)
    np.testing.assert_allclose(Mahalanobis().fit(head, train).uncertainty(queries), nearest, rtol=1e-9)
    relative = RelativeMahalanobis().fit(head, train).uncertainty(queries)
    np.testing.assert_allclose(relative, nearest - background, rtol=1e-9, atol=1e-9)


def test_mahalanobis_distances_equal_scikit_learn_on_digits_with_dead_units(digits):
    head, train, z = digits
    nearest, background = by_scikit_learn(train.array(), train.labels, z)
    fitted = Mahalanobis().fit(head, train)
    np.testing.assert_allclose(fitted.uncertainty(z), nearest, rtol=1e-6)
    relative = RelativeMahalanobis().fit(head, train)
    np.testing.assert_allclose(relative.uncertainty(z), nearest - background, rtol=1e-6, atol=1e-6)
    assert fitted.conditioning_[0].rank == 61
    assert "3 directions" in fitted.conditioning_[0].remedy
    assert len(relative.conditioning_) == 2


def test_mahalanobis_orders_classes_as_linear_discriminant_analysis():
    z, labels = clusters(3, rows=400, classes=2)
    labels[:200], labels[200:] = 0, 1
    peer = LinearDiscriminantAnalysis(solver="lsqr", priors=[0.5, 0.5]).fit(z, labels)
    moments = ClassMoments.of(z, labels, 2)
    precision = np.linalg.inv(moments.tied_covariance)
    distances = np.stack([np.einsum("ij,jk,ik->i", z - m, precision, z - m) for m in moments.means], axis=1)
    np.testing.assert_allclose((distances[:, 0] - distances[:, 1]) / 2, peer.decision_function(z), rtol=1e-6)
    scores = Mahalanobis().fit(any_head(2, 8), FeatureSet(z, labels)).uncertainty(z)
    np.testing.assert_allclose(scores, distances.min(axis=1), rtol=1e-9)


@settings(max_examples=25, deadline=None)
@given(seeds)
def test_mahalanobis_distances_do_not_change_under_an_affine_map(seed):
    z, labels = clusters(seed)
    rng = np.random.default_rng(seed)
    matrix = rng.normal(size=(8, 8))
    assume(np.linalg.cond(matrix) < 1e3)
    moved = z @ matrix + 10 * rng.normal(size=8)
    for cls in (Mahalanobis, RelativeMahalanobis):
        plain = cls().fit(any_head(4, 8), FeatureSet(z, labels)).uncertainty(z)
        mapped = cls().fit(any_head(4, 8), FeatureSet(moved, labels)).uncertainty(moved)
        # Rounding is relative to the largest distance: a relative distance is a difference of two.
        np.testing.assert_allclose(mapped, plain, rtol=0, atol=1e-7 * np.abs(plain).max())


@settings(max_examples=25, deadline=None)
@given(seeds, st.integers(1, 200), st.integers(1, 12))
def test_class_moments_merge_to_those_of_all_rows(seed, cut, classes):
    z, labels = clusters(seed, rows=201, width=5, classes=classes)
    z += 1e3
    parts = [ClassMoments.of(z[s], labels[s], classes) for s in (slice(0, cut), slice(cut, None))]
    merged, whole = parts[0].merge(parts[1]), ClassMoments.of(z, labels, classes)
    np.testing.assert_array_equal(merged.counts, whole.counts)
    np.testing.assert_allclose(merged.means, whole.means, rtol=1e-12)
    np.testing.assert_allclose(merged.within, whole.within, rtol=1e-9, atol=1e-6)
    np.testing.assert_allclose(merged.total_covariance, np.cov(z.T, bias=True), rtol=1e-9, atol=1e-8)
    np.testing.assert_allclose(merged.mean, z.mean(axis=0), rtol=1e-12)


def test_tight_classes_far_apart_keep_their_digits():
    rng = np.random.default_rng(0)
    labels = np.arange(4000) % 4
    noise = rng.normal(size=(4000, 6))
    z = 1e9 * rng.normal(size=(4, 6))[labels] + noise
    scores = Mahalanobis().fit(any_head(4, 6), FeatureSet(z, labels)).uncertainty(z)
    assert scores.mean() == pytest.approx(6, rel=1e-2)


@pytest.mark.parametrize("cls", [Mahalanobis, RelativeMahalanobis])
def test_fewer_rows_than_features_give_finite_distances_and_a_remedy(cls):
    z, labels = clusters(0, rows=40, width=100, dtype=np.float32)
    fitted = cls().fit(any_head(4, 100), FeatureSet(z, labels))
    assert np.isfinite(fitted.uncertainty(clusters(1, width=100)[0])).all()
    assert fitted.conditioning_[0].rank == 36
    assert ("pseudo-inverse" if cls is Mahalanobis else "common ridge") in fitted.conditioning_[0].remedy


def test_a_class_without_rows_attracts_nothing():
    z, labels = clusters(0, classes=3)
    kept = labels != 1
    nearest, _ = by_scikit_learn(z[kept], labels[kept], z)
    scores = Mahalanobis().fit(any_head(3, 8), FeatureSet(z[kept], labels[kept])).uncertainty(z)
    np.testing.assert_allclose(scores, nearest, rtol=1e-9)


@pytest.mark.parametrize("cls", [Mahalanobis, RelativeMahalanobis])
def test_classes_without_any_spread_are_refused(cls):
    with pytest.raises(SoftscopeError, match="no covariance"):
        cls().fit(any_head(3, 4), FeatureSet(np.tile(np.eye(3, 4), (2, 1)), np.arange(6) % 3))


def test_mahalanobis_without_labels_is_refused():
    with pytest.raises(SoftscopeError, match="labels"):
        Mahalanobis().fit(any_head(3, 4), FeatureSet(np.eye(3, 4)))


def by_definition_vim(head, train, z, dim):
    """ViM as its authors write it, in float64 with numpy and scikit-learn."""
    weight, bias = head.weight.astype(float), head.bias.astype(float)
    # The rows of this head sum to 0 but for float32 rounding, which pinv must not take for a direction.
    origin = -np.linalg.pinv(weight, rcond=1e-5) @ bias
    second = EmpiricalCovariance(assume_centered=True).fit(train - origin).covariance_
    values, vectors = np.linalg.eig(second)
    residual = vectors.real[:, np.argsort(-values.real)[dim:]]
    logits = train @ weight.T + bias
    alpha = logits.max(axis=1).mean() / np.linalg.norm((train - origin) @ residual, axis=1).mean()
    virtual = alpha * np.linalg.norm((z - origin) @ residual, axis=1)
    return virtual, z @ weight.T + bias


@pytest.mark.parametrize(
    ("plus", "plain"), [(MahalanobisPlus, Mahalanobis), (RelativeMahalanobisPlus, RelativeMahalanobis)]
)
def test_plus_plus_is_scikit_learns_distance_between_directions(plus, plain):
    z, labels = clusters(3, rows=500)
    train, rows = z[:400], z[400:]
    unit_train, unit = (x / np.linalg.norm(x, axis=1, keepdims=True) for x in (train, rows))
    nearest, whole = by_scikit_learn(unit_train, labels[:400], unit)
    expected = nearest if plus is MahalanobisPlus else nearest - whole
    fitted = plus().fit(any_head(4, 8), (train, labels[:400]))
    np.testing.assert_allclose(fitted.uncertainty(rows), expected, rtol=1e-8, atol=1e-8)
    same = plain(normalise=True).fit(any_head(4, 8), (train, labels[:400]))
    np.testing.assert_array_equal(same.uncertainty(rows), fitted.uncertainty(rows))
    np.testing.assert_allclose(fitted.uncertainty(1e3 * rows), expected, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize(
    ("rows", "width", "normalise"), [(370, 200, False), (370, 200, True), (740, 1280, False), (740, 1280, True)]
)
def test_relative_mahalanobis_does_not_invert_where_rows_are_fewer_than_features(rows, width, normalise):
    """10 or 20 rows of each of 37 classes; with each covariance inverted by itself far rows get the lowest scores."""
    rng = np.random.default_rng(0)
    labels = np.arange(rows) % 37
    means, spectrum = rng.normal(size=(37, width)), np.exp(-np.arange(width) / 40)
    draw = lambda labels: 3 + means[labels] + 2 * rng.normal(size=(len(labels), width)) * spectrum  # noqa: E731
    train, known = draw(labels), draw(labels[:185])
    far = 3 + 1.5 * rng.normal(size=(200, width))
    head = any_head(37, width)
    fitted = RelativeMahalanobis(normalise=normalise).fit(head, (train, labels))
    distance = Mahalanobis(normalise=normalise).fit(head, (train, labels))
    areas = [auroc(one.uncertainty(known), one.uncertainty(far)).value for one in (fitted, distance)]
    assert areas[0] > areas[1] - 0.02
    assert areas[0] > 0.9
    assert all("common ridge" in line.remedy for line in fitted.conditioning_)
    # No direction counts the wrong way: far enough along any of them, every row is strange.
    z = known[:20] if not normalise else known[:20] / np.linalg.norm(known[:20], axis=1, keepdims=True)
    within, whole = fitted._whitening.matrix, fitted._background.matrix
    gap = np.linalg.eigvalsh(within @ within.T - whole @ whole.T)
    assert gap.min() > -1e-8 * gap.max()
    assert np.isfinite(fitted.uncertainty(z)).all()


def shrunk_relative_distance(z, labels, row):
    """The definition for one row: both covariances shrunk by Chen's l (eq. 23, n = rows - classes) to one ridge."""
    rows, width = z.shape
    means = [z[labels == k].mean(axis=0) for k in range(labels.max() + 1)]
    within = sum(np.outer(z[i] - means[labels[i]], z[i] - means[labels[i]]) for i in range(rows)) / rows
    whole = sum(np.outer(one - z.mean(axis=0), one - z.mean(axis=0)) for one in z) / rows
    trace, squares, n = np.trace(within), np.trace(within @ within), rows - len(means)
    share = ((1 - 2 / width) * squares + trace**2) / ((n + 1 - 2 / width) * (squares - trace**2 / width))
    ridge = share * trace / width * np.eye(width)
    inverse, background = (np.linalg.inv((1 - share) * s + ridge) for s in (within, whole))
    distances = [(row - mean) @ inverse @ (row - mean) for mean in means]
    return min(distances) - (row - z.mean(axis=0)) @ background @ (row - z.mean(axis=0))


@pytest.mark.parametrize("normalise", [False, True])
def test_relative_mahalanobis_of_few_rows_is_its_definition_row_by_row(normalise):
    z, labels = clusters(6, rows=60, width=50)
    queries = clusters(7, rows=20, width=50)[0]
    fitted = RelativeMahalanobis(normalise=normalise).fit(any_head(4, 50), (z, labels))
    if normalise:
        z, queries = (x / np.linalg.norm(x, axis=1, keepdims=True) for x in (z, queries))
    expected = [shrunk_relative_distance(z, labels, row) for row in queries]
    np.testing.assert_allclose(fitted.uncertainty(queries), expected, rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("rows", [30, 400])
def test_relative_mahalanobis_reads_one_direction_less_than_there_are_classes(rows):
    """A step that changes no class's distance relative to another's is unseen, however long and with any rows."""
    z, labels = clusters(8, rows=rows, width=20, classes=3)
    head = any_head(3, 20)
    fitted, distance = (cls().fit(head, (z, labels)) for cls in (RelativeMahalanobis, Mahalanobis))
    means = fitted._means - fitted._means[0]
    step = np.random.default_rng(0).normal(size=20)
    step -= np.linalg.lstsq(means.T, step, rcond=None)[0] @ means
    moved = z[:10] + 100 * np.linalg.solve(fitted._whitening.matrix.T, step)
    before = fitted.uncertainty(z[:10])
    np.testing.assert_allclose(fitted.uncertainty(moved), before, atol=1e-6 * np.abs(distance.uncertainty(moved)).max())
    assert (distance.uncertainty(moved) > 1000 * distance.uncertainty(z[:10])).all()


def test_the_shrinkage_is_scikit_learns_oas():
    from sklearn.covariance import OAS

    from softscope.estimators.distances import _shrinkage

    z = np.random.default_rng(1).normal(size=(50, 80)) * np.linspace(0.1, 3, 80)
    z -= z.mean(axis=0)
    share, ridge = _shrinkage(z.T @ z / 50, 50)
    peer = OAS(assume_centered=True).fit(z)
    assert share == pytest.approx(peer.shrinkage_, rel=0.05)  # theirs leaves out the two terms 2 / H of the paper
    expected = (1 - share) * (z.T @ z / 50) + ridge * np.eye(80)
    np.testing.assert_allclose(expected, (1 - share) * z.T @ z / 50 + share * np.trace(z.T @ z / 50) / 80 * np.eye(80))


def test_relative_mahalanobis_refuses_single_rows_of_classes():
    z, _ = clusters(2, rows=6, width=8)
    with pytest.raises(SoftscopeError, match="6 training rows of 4 classes"):
        RelativeMahalanobis().fit(any_head(4, 8), (z, np.array([0, 1, 2, 3, 0, 1])))


@pytest.mark.parametrize("made", [Density, KernelDensity])
def test_normalised_densities_are_those_of_directions(made):
    z, labels = clusters(5, rows=600)
    train, rows = z[:500], z[500:]
    unit_train, unit = (x / np.linalg.norm(x, axis=1, keepdims=True) for x in (train, rows))
    expected = made().fit(any_head(4, 8), (unit_train, labels[:500])).uncertainty(unit)
    fitted = made(normalise=True).fit(any_head(4, 8), (train, labels[:500]))
    np.testing.assert_allclose(fitted.uncertainty(7.0 * rows), expected, rtol=1e-6, atol=1e-6)


def test_rows_of_any_size_and_zeros_have_directions():
    from softscope.estimators.base import unit_rows

    for dtype, sizes in ((np.float32, (1e-42, 1e-20, 1.0, 1e30)), (np.float64, (1e-310, 1e-160, 1.0, 1e300))):
        rows = np.array([[3.0, -4.0]]) * np.array(sizes)[:, None]
        unit = unit_rows(np.vstack([rows, [[0.0, 0.0]]]).astype(dtype))
        assert unit.dtype == dtype
        np.testing.assert_allclose(unit[:-1], np.tile([0.6, -0.8], (4, 1)), rtol=1e-2 if dtype == np.float32 else 1e-6)
        np.testing.assert_allclose(unit[1:-1], np.tile([0.6, -0.8], (3, 1)), rtol=1e-6)
        assert not unit[-1].any()


def test_residual_is_the_distance_from_the_principal_subspace(digits):
    head, train, rows = digits
    inverse = np.linalg.pinv(head.weight.astype(float), rcond=64 * np.finfo(np.float32).eps)
    z, origin = train.array().astype(float), -inverse @ head.bias.astype(float)
    basis = np.linalg.svd(z - origin, full_matrices=False)[2][:20]
    about = rows.astype(float) - origin
    expected = np.linalg.norm(about - about @ basis.T @ basis, axis=1)
    np.testing.assert_allclose(Residual(dim=20).fit(head, train).uncertainty(rows), expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("dim", [5, 20])
def test_the_residual_of_directions_is_the_sine_of_the_angle_with_the_subspace(digits, dim):
    head, train, rows = digits
    unit = train.array().astype(float)
    unit /= np.linalg.norm(unit, axis=1, keepdims=True)
    values, vectors = np.linalg.eigh(sum(np.outer(n, n) for n in unit))
    basis = vectors[:, np.argsort(values)[::-1][:dim]]
    expected = []
    for z in rows.astype(float):
        inside = basis @ (basis.T @ z)
        cosine = z @ inside / (np.linalg.norm(z) * np.linalg.norm(inside))
        expected.append(np.sin(np.arccos(min(cosine, 1.0))))
    found = Residual(dim=dim, normalise=True).fit(head, train)
    np.testing.assert_allclose(found.uncertainty(rows), expected, rtol=1e-4)
    same = Residual(dim=dim, normalise=True).fit(head, train, moments=ClassMoments.of(train.array(), train.labels, 10))
    np.testing.assert_array_equal(same.uncertainty(rows), found.uncertainty(rows))


@pytest.mark.parametrize("dim", [0, 10, 32, 50])
def test_vim_equals_its_definition_on_digits(digits, dim):
    head, train, z = digits
    scores = ViM(dim=dim).fit(head, train).uncertainty(z)
    virtual, logits = by_definition_vim(head, train.array().astype(float), z.astype(float), dim)
    np.testing.assert_allclose(scores, virtual - logsumexp(logits, axis=1), rtol=1e-4, atol=1e-4)
    # The authors' score is the virtual class's softmax probability; the score here is its log-odds.
    probability = softmax(np.column_stack([logits, virtual]), axis=1)[:, -1]
    np.testing.assert_allclose(1 / (1 + np.exp(-scores)), probability, rtol=1e-3)


@pytest.mark.parametrize(("width", "dim"), [(8, 4), (512, 256), (767, 383), (768, 512), (1280, 512), (2048, 1000)])
def test_vim_takes_its_authors_dimension(width, dim):
    assert ViM()._asked(width) == dim


@settings(max_examples=20, deadline=None)
@given(seeds, st.integers(0, 7))
def test_vim_does_not_change_when_features_and_head_rotate_together(seed, dim):
    z, _ = clusters(seed)
    head = any_head(4, 8, seed % 1000)
    turn = ortho_group.rvs(8, random_state=seed)
    turned = Head(head.weight @ turn, head.bias)
    plain = ViM(dim=dim).fit(head, FeatureSet(z)).uncertainty(z)
    np.testing.assert_allclose(ViM(dim=dim).fit(turned, FeatureSet(z @ turn)).uncertainty(z @ turn), plain, rtol=1e-6)


def test_vim_keeps_some_residual_where_the_features_span_few_directions():
    z, _ = clusters(0, rows=30, width=100)
    fitted = ViM().fit(any_head(4, 100), FeatureSet(z))
    assert fitted.dim_ == 15
    assert "reduced" in fitted.conditioning_[0].remedy
    assert np.isfinite(fitted.uncertainty(clusters(1, width=100)[0])).all()
    assert np.isfinite(fitted.alpha_)


def test_vim_of_rows_at_the_origin_is_the_energy():
    head = any_head(3, 4, bias=False)
    fitted = ViM().fit(head, FeatureSet(np.zeros((5, 4))))
    assert fitted.alpha_ == 0
    z = clusters(0, width=4)[0]
    np.testing.assert_allclose(fitted.uncertainty(z), -logsumexp(head.logits(z), axis=1), rtol=1e-9)


def test_vim_survives_a_head_whose_rows_sum_to_zero():
    rng = np.random.default_rng(0)
    weight = rng.normal(size=(5, 12))
    head = Head((weight - weight.mean(axis=0)).astype(np.float32), rng.normal(size=5).astype(np.float32))
    fitted = ViM().fit(head, FeatureSet(clusters(0, width=12)[0]))
    assert np.linalg.norm(fitted.state()["origin"]) < 10


@pytest.mark.parametrize("dim", [-1, 8, 100])
def test_vim_refuses_a_dimension_outside_the_features(dim):
    with pytest.raises(SoftscopeError, match="dim is"):
        ViM(dim=dim).fit(any_head(4, 8), FeatureSet(clusters(0)[0]))


def exact_gen(logits, gamma, top):
    """The definition in 200 digits."""
    powers = [mpmath.exp(mpmath.mpf(float(v))) for v in logits]
    total = mpmath.fsum(powers)
    largest = sorted(powers, reverse=True)[:top]
    return mpmath.fsum((p / total * (total - p) / total) ** mpmath.mpf(gamma) for p in largest)


@pytest.mark.parametrize(("classes", "top"), [(2, 100), (10, 100), (10, 3), (10, 1), (150, 100)])
@pytest.mark.parametrize("scale", [0.1, 3.0, 60.0])
@pytest.mark.parametrize("gamma", [0.1, 1.0])
def test_gen_equals_two_hundred_digits(classes, top, scale, gamma):
    logits = np.random.default_rng(classes).normal(0, scale, (12, classes))
    with mpmath.workdps(200):
        expected = [float(mpmath.log(exact_gen(row, gamma, top))) for row in logits]
    np.testing.assert_allclose(log_generalised_entropy(logits, gamma, top), expected, rtol=1e-10, atol=1e-12)


def test_gen_orders_saturated_rows_as_two_hundred_digits_do():
    rng = np.random.default_rng(0)
    logits = rng.normal(0, 4, (300, 10)).astype(np.float32)
    logits[np.arange(300), rng.integers(0, 10, 300)] += rng.uniform(40, 140, 300).astype(np.float32)
    with mpmath.workdps(200):
        values = [exact_gen(row, 0.1, 100) for row in logits]
    scores = log_generalised_entropy(logits)
    assert (np.diff(scores[sorted(range(300), key=values.__getitem__)]) > 0).all()


def test_gen_is_finite_at_any_margin():
    logits = np.array([[0.0, 1e6, -1e6], [0.0, 0.0, 0.0], [3e38, 0.0, 0.0]], np.float32)
    assert np.isfinite(log_generalised_entropy(logits)).all()


@settings(max_examples=50, deadline=None)
@given(seeds, st.integers(2, 40), st.integers(1, 50))
def test_gen_depends_on_neither_the_order_of_classes_nor_a_common_shift(seed, classes, top):
    rng = np.random.default_rng(seed)
    logits = rng.normal(0, 10, (20, classes))
    plain = log_generalised_entropy(logits, 0.1, top)
    np.testing.assert_allclose(
        log_generalised_entropy(logits[:, rng.permutation(classes)], 0.1, top), plain, atol=1e-12
    )
    np.testing.assert_allclose(log_generalised_entropy(logits + 7.0, 0.1, top), plain, rtol=1e-9, atol=1e-12)


def test_gen_of_the_uniform_softmax_is_the_largest():
    logits = np.random.default_rng(0).normal(size=(200, 10))
    logits[0] = 5.0
    assert log_generalised_entropy(logits).argmax() == 0


def test_gen_reads_the_head_and_its_plain_value_is_the_papers(digits):
    head, _, z = digits
    fitted = GEN().fit(head)
    s = softmax(z.astype(float) @ head.weight.T.astype(float) + head.bias, axis=1)
    expected = (s**0.1 * (1 - s) ** 0.1).sum(axis=1)
    np.testing.assert_allclose(np.exp(fitted.uncertainty(z)), expected, rtol=1e-5)
    np.testing.assert_allclose(fitted.plain(z), expected, rtol=1e-5)


@pytest.mark.parametrize("params", [{"gamma": 0.0}, {"gamma": float("nan")}, {"top": 0}])
def test_gen_refuses_parameters_without_meaning(params):
    with pytest.raises(SoftscopeError, match="gen"):
        GEN(**params).fit(any_head(3, 4))


@pytest.mark.parametrize("estimator", [Mahalanobis(), RelativeMahalanobis(), ViM(), ViM(dim=3), GEN()])
def test_a_restored_estimator_scores_alike(digits, estimator):
    head, train, z = digits
    fitted = estimator.fit(head, train)
    copy = type(estimator)(**estimator.params()).restore(head, fitted.state())
    np.testing.assert_array_equal(copy.uncertainty(z), fitted.uncertainty(z))
    if isinstance(copy, ViM):
        assert (copy.dim_, copy.alpha_) == (fitted.dim_, fitted.alpha_)


@pytest.mark.parametrize("cls", [Mahalanobis, RelativeMahalanobis, ViM])
def test_chunks_of_the_training_rows_change_nothing(digits, cls, monkeypatch):
    head, train, z = digits
    whole = cls().fit(head, train).uncertainty(z)
    monkeypatch.setattr("softscope.features.feature_set.chunk_rows", lambda *_: 97)
    np.testing.assert_allclose(cls().fit(head, train).uncertainty(z), whole, rtol=1e-7, atol=1e-7)
