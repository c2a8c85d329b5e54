"""Vector fields against complex steps, torch and 50-digit arithmetic; the explicit mixture against scipy."""

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import logsumexp
from scipy.stats import multivariate_normal

from softscope import Head
from softscope.errors import SoftscopeError
from softscope.geometry import KnownMixture, density_field, entropy_field, max_field

SIZES = [(2, 2), (3, 2), (10, 64), (100, 512)]


def random_head(classes, features, seed, scale=1.0):
    rng = np.random.default_rng(seed)
    weight = scale * rng.standard_normal((classes, features)) / np.sqrt(features)
    return Head(weight, rng.standard_normal(classes)), 3.0 * rng.standard_normal((4, features))


def random_components(count, features, seed):
    rng = np.random.default_rng(seed)
    half = rng.standard_normal((count, features, features)) / np.sqrt(features)
    covariances = half @ half.transpose(0, 2, 1) + 0.3 * np.eye(features)
    weights = rng.random(count) + 0.1
    return weights / weights.sum(), 2.0 * rng.standard_normal((count, features)), covariances


def complex_step(function, row):
    """The derivative of an analytic function along each coordinate, without cancellation."""
    return np.array([function(row + 1e-30j * unit).imag / 1e-30 for unit in np.eye(len(row))])


@pytest.mark.parametrize(("classes", "features"), SIZES)
def test_the_field_of_u_max_is_its_gradient(classes, features):
    head, z = random_head(classes, features, seed=classes)
    for row, field in zip(z, max_field(head, z)):
        lead = int((head.weight @ row + head.bias).argmax())

        def u_max(point, lead=lead):
            logits = head.weight @ point + head.bias
            return -1.0 / np.exp(logits - logits[lead]).sum()

        np.testing.assert_allclose(field, complex_step(u_max, row), atol=1e-12)


@pytest.mark.parametrize(("classes", "features"), SIZES)
def test_the_field_of_u_entropy_is_its_gradient(classes, features):
    head, z = random_head(classes, features, seed=classes)

    def u_entropy(point):
        logits = head.weight @ point + head.bias
        log_s = logits - logsumexp(logits)
        return -(np.exp(log_s) * log_s).sum()

    for row, field in zip(z, entropy_field(head, z)):
        np.testing.assert_allclose(field, complex_step(u_entropy, row), atol=1e-12)


@pytest.mark.parametrize(("classes", "features"), SIZES)
def test_all_three_fields_agree_with_autograd(classes, features):
    torch = pytest.importorskip("torch")
    head, z = random_head(classes, features, seed=7)
    weights, means, covariances = random_components(3, features, seed=8)
    points = torch.tensor(z, requires_grad=True)
    s = torch.softmax(points @ torch.tensor(head.weight).T + torch.tensor(head.bias), dim=1)
    parts = [
        torch.distributions.MultivariateNormal(torch.tensor(m), torch.tensor(c)).log_prob(points) + np.log(w)
        for w, m, c in zip(weights, means, covariances)
    ]
    for field, value in [
        (max_field(head, z), -s.max(dim=1).values),
        (entropy_field(head, z), -(s * s.log()).sum(dim=1)),
        (density_field(weights, means, covariances, z), -torch.logsumexp(torch.stack(parts), dim=0)),
    ]:
        (expected,) = torch.autograd.grad(value.sum(), points, retain_graph=True)
        np.testing.assert_allclose(field, expected.numpy(), atol=1e-6, rtol=1e-6)


def test_fields_keep_their_digits_where_softmax_saturates():
    head, z = Head(np.array([[40.0, 0.0], [-40.0, 3.0], [0.0, -20.0]])), np.array([[1.5, 0.2]])
    with mpmath.workdps(50):
        logits = [mpmath.fdot(w, z[0]) for w in head.weight.tolist()]
        total = mpmath.fsum(mpmath.exp(v) for v in logits)
        s = [mpmath.exp(v) / total for v in logits]
        entropy = -mpmath.fsum(p * mpmath.log(p) for p in s)
        mean = [mpmath.fsum(p * w for p, w in zip(s, column)) for column in head.weight.T.tolist()]
        of_max = [float(s[0] * (m - w)) for m, w in zip(mean, head.weight[0].tolist())]
        slope = [-p * (mpmath.log(p) + entropy) for p in s]
        of_entropy = [float(mpmath.fsum(g * w for g, w in zip(slope, c))) for c in head.weight.T.tolist()]
    np.testing.assert_allclose(max_field(head, z)[0], of_max, rtol=1e-12)
    np.testing.assert_allclose(entropy_field(head, z)[0], of_entropy, rtol=1e-12)


@pytest.mark.parametrize(("count", "features"), [(1, 2), (2, 2), (10, 64), (5, 512)])
def test_the_field_of_u_density_is_its_gradient(count, features):
    weights, means, covariances = random_components(count, features, seed=features)
    z = means[:1] + np.random.default_rng(1).standard_normal((3, features))
    inverses, logdets = np.linalg.inv(covariances), np.linalg.slogdet(covariances)[1]

    def u_density(point):
        offsets = point - means
        parts = np.log(weights) - 0.5 * logdets - 0.5 * np.einsum("ch,chg,cg->c", offsets, inverses, offsets)
        return -logsumexp(parts)

    for row, field in zip(z, density_field(weights, means, covariances, z)):
        np.testing.assert_allclose(field, complex_step(u_density, row), rtol=1e-8, atol=1e-10)


@given(st.integers(1, 5), st.integers(1, 6), st.integers(0, 10_000))
def test_the_explicit_mixture_agrees_with_scipy(count, features, seed):
    weights, means, covariances = random_components(count, features, seed)
    z = 3.0 * np.random.default_rng(seed).standard_normal((5, features))
    expected = logsumexp(
        [
            np.log(w) + np.atleast_1d(multivariate_normal(m, c).logpdf(z))
            for w, m, c in zip(weights, means, covariances)
        ],
        axis=0,
    )
    np.testing.assert_allclose(KnownMixture(weights, means, covariances).log_density(z), expected, rtol=1e-9, atol=1e-9)


def test_draws_have_the_moments_of_the_mixture():
    mixture = KnownMixture(*random_components(3, 2, seed=3))
    z, labels = mixture.sample(200_000, np.random.default_rng(0))
    np.testing.assert_allclose(np.bincount(labels) / len(labels), mixture.weights, atol=0.005)
    for i in range(3):
        np.testing.assert_allclose(z[labels == i].mean(axis=0), mixture.means[i], atol=0.03)
        np.testing.assert_allclose(np.cov(z[labels == i].T), mixture.covariances[i], atol=0.05)


@pytest.mark.parametrize(
    ("weights", "covariances", "said"),
    [
        ([0.5, 0.6], np.stack([np.eye(2)] * 2), "sum to 1"),
        ([0.5, 0.5], np.stack([np.eye(3)] * 2), "expected shape"),
        ([0.5, 0.5], np.stack([np.eye(2), -np.eye(2)]), "positive definite"),
    ],
)
def test_impossible_mixtures_are_refused(weights, covariances, said):
    with pytest.raises(SoftscopeError, match=said):
        density_field(weights, np.zeros((2, 2)), covariances, np.zeros((1, 2)))


def test_fields_do_not_depend_on_how_rows_are_cut(monkeypatch):
    head, _ = random_head(3, 4, seed=0)
    z = np.random.default_rng(0).standard_normal((50, 4))
    mixture = random_components(2, 4, seed=0)
    whole = max_field(head, z), entropy_field(head, z), density_field(*mixture, z)
    monkeypatch.setattr("softscope.geometry.fields.chunk_rows", lambda columns: 7)
    for before, after in zip(whole, (max_field(head, z), entropy_field(head, z), density_field(*mixture, z))):
        np.testing.assert_allclose(before, after, rtol=1e-13)
