"""KL matching and GradNorm against a second computation."""

import numpy as np
import pytest
from scipy.special import softmax
from scipy.stats import entropy

from softscope import FeatureSet, Head
from softscope.estimators import GradNorm, KLMatching


@pytest.fixture(scope="module")
def world():
    rng = np.random.default_rng(2)
    weight, bias = rng.normal(size=(6, 10)), rng.normal(size=6)
    return Head(weight, bias), FeatureSet(rng.normal(size=(500, 10))), rng.normal(size=(40, 10))


def test_kl_matching_is_scipys_divergence_from_the_nearest_mean_softmax(world):
    head, train, rows = world
    probabilities = softmax(train.array() @ head.weight.T + head.bias, axis=1)
    means = [probabilities[probabilities.argmax(axis=1) == k].mean(axis=0) for k in range(6)]
    s = softmax(rows @ head.weight.T + head.bias, axis=1)
    expected = [min(entropy(row, mean) for mean in means) for row in s]
    np.testing.assert_allclose(KLMatching().fit(head, train).uncertainty(rows), expected, rtol=1e-9, atol=1e-12)


def test_classes_that_are_never_predicted_have_no_mean_softmax(world):
    head, train, rows = world
    never = Head(head.weight, head.bias - 1e3 * np.eye(6)[2])
    fitted = KLMatching().fit(never, train)
    assert len(fitted.state()["log_means"]) == 5
    assert np.isfinite(fitted.uncertainty(1e3 * rows)).all(), "also where the softmax saturates"


def test_gradnorm_is_the_norm_of_the_gradient_by_finite_differences(world):
    head, _, rows = world

    def loss(weight, z):
        logits = weight @ z + head.bias
        return -sum(logits - np.log(np.exp(logits).sum()))

    for z in rows[:3]:
        total, step = 0.0, 1e-6
        for place in np.ndindex(head.weight.shape):
            shift = np.zeros_like(head.weight)
            shift[place] = step
            total += abs(loss(head.weight + shift, z) - loss(head.weight - shift, z)) / (2 * step)
        assert GradNorm().fit(head).uncertainty(z[None])[0] == pytest.approx(-total, rel=1e-6)


def test_where_the_softmax_saturates_kl_matching_is_minus_the_log_of_the_class_s_own_mean(world):
    head, train, rows = world
    fitted, sharp = KLMatching().fit(head, train), 1e4 * rows
    own = (sharp @ head.weight.T + head.bias).argmax(axis=1)
    np.testing.assert_allclose(fitted.uncertainty(sharp), -fitted.state()["log_means"][:, own].max(axis=0), rtol=1e-12)


def test_gradnorm_is_the_norm_of_the_gradient_that_torch_finds(world):
    torch = pytest.importorskip("torch")
    head, _, rows = world
    expected = []
    for z in torch.tensor(rows):
        weight = torch.tensor(np.array(head.weight), requires_grad=True)
        logits = weight @ z + torch.tensor(np.array(head.bias))
        (-torch.log_softmax(logits, dim=0).sum()).backward()
        expected.append(-weight.grad.abs().sum().item())
    np.testing.assert_allclose(GradNorm().fit(head).uncertainty(rows), expected, rtol=1e-10)
