"""Beyond WIDE columns covariances are factorised instead of diagonalised: the same scores, ranks and draws."""

import numpy as np
import pytest

from softscope.estimators import estimator
from softscope.features import FeatureSet
from softscope.geometry import plane
from softscope.guard.reference_formulas import plan_of
from softscope.head import Head
from softscope.mixture import ClassMoments, moments

HEIGHT, WIDTH, CLASSES = 400, 24, 4


def _made(rows: int, dead: int = 0) -> tuple[Head, FeatureSet, np.ndarray]:
    rng = np.random.default_rng(rows)
    mixing = rng.normal(size=(WIDTH, WIDTH)) * np.linspace(0.05, 3, WIDTH)
    labels = np.arange(rows) % CLASSES
    z = 2 + rng.normal(size=(rows, WIDTH)) @ mixing + rng.normal(size=(CLASSES, WIDTH))[labels]
    z[:, :dead] = 0
    head = Head(rng.normal(size=(CLASSES, WIDTH)), rng.normal(size=CLASSES))
    return head, FeatureSet(z, labels), 2 + 3 * rng.normal(size=(50, WIDTH))


@pytest.mark.parametrize("name", ["mahalanobis", "relative-mahalanobis", "residual", "vim", "vim(dim=3)"])
@pytest.mark.parametrize(("rows", "dead"), [(HEIGHT, 0), (WIDTH + 12, 0), (HEIGHT, 2), (WIDTH - 8, 0)])
def test_scores_are_those_of_eigenvectors(name, rows, dead, monkeypatch):
    head, train, z = _made(rows, dead)
    expected = estimator(name).fit(head, train)
    monkeypatch.setattr(moments, "WIDE", 8)
    fitted = estimator(name).fit(head, train)
    np.testing.assert_allclose(fitted.uncertainty(z), expected.uncertainty(z), rtol=1e-7)
    assert [line.rank for line in fitted.conditioning_] == [line.rank for line in expected.conditioning_]
    restored = estimator(name).restore(head, fitted.state())
    np.testing.assert_allclose(restored.uncertainty(z), fitted.uncertainty(z), rtol=1e-12)
    torch = pytest.importorskip("torch")
    plan = plan_of(fitted)
    constants = {key: torch.from_numpy(np.array(value, np.float64)) for key, value in plan.constants.items()}
    exported = plan.formula(torch.from_numpy(z), torch.from_numpy(head.logits(z)), constants)
    np.testing.assert_allclose(exported.numpy(), fitted.uncertainty(z), rtol=1e-6)


def test_nothing_off_the_subspace_is_lost_to_rounding(monkeypatch):
    """Rows that lie in the principal subspace but for 1e-7 of their norm keep their distance from it."""
    head, train, _ = _made(HEIGHT)
    monkeypatch.setattr(moments, "WIDE", 8)
    fitted = estimator("residual(dim=5)").fit(head, train)
    state = fitted.state()
    inside, normal = state["principal"].T, np.linalg.svd(state["principal"].T)[2][-1]
    rows = state["origin"] + 10 * inside + 1e-6 * normal
    np.testing.assert_allclose(fitted.uncertainty(rows), 1e-6, rtol=1e-6)


@pytest.mark.parametrize(("rows", "dead"), [(HEIGHT, 0), (WIDTH - 8, 0), (HEIGHT, 2)])
def test_rank_and_root_of_all_rows(rows, dead, monkeypatch):
    _, train, _ = _made(rows, dead)
    monkeypatch.setattr(moments, "WIDE", 8)
    class_moments = ClassMoments.of(train.array(), train.labels, CLASSES)
    covariance = np.cov(train.array().T, bias=True)
    assert class_moments.total_rank == np.linalg.matrix_rank(covariance)
    np.testing.assert_allclose(class_moments.total_root.T @ class_moments.total_root, covariance, atol=1e-9)


def test_a_shared_covariance_needs_no_pass_where_moments_are_at_hand():
    head, train, z = _made(HEIGHT)
    at_hand = ClassMoments.of(train.array(), train.labels, CLASSES)
    expected, ours = (
        estimator("density(covariance='tied')").fit(head, train, moments=given) for given in (None, at_hand)
    )
    np.testing.assert_allclose(ours.uncertainty(z), expected.uncertainty(z), rtol=1e-9)
    assert ours.mixture_.history == pytest.approx(expected.mixture_.history)


def test_the_plane_of_few_wide_rows_is_that_of_their_singular_vectors(monkeypatch):
    rows = np.random.default_rng(0).normal(size=(20, 60)) * np.linspace(3, 0.1, 60)
    expected = plane.Plane.principal(rows[:12], rows[12:])
    monkeypatch.setattr(plane, "_SMALL", 0)
    own_plane = plane.Plane.principal(rows[:12], rows[12:])
    np.testing.assert_allclose(own_plane.axes, expected.axes, atol=1e-9)
    same = plane.Plane.principal(np.ones((3, 9), np.float32))
    assert not same.project(np.ones((2, 9))).any()
