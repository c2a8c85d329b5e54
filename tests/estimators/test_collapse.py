"""fDBD, NCI and SHE against their definitions, computed row by row."""

import numpy as np
import pytest

from softscope import FeatureSet, Head, SoftscopeError
from softscope.estimators import FDBD, NCI, SHE


@pytest.fixture(scope="module")
def world():
    rng = np.random.default_rng(0)
    weight, bias = rng.normal(size=(5, 16)), rng.normal(size=5)
    labels = rng.integers(0, 5, 400)
    z = np.maximum(weight[labels] + 0.7 * rng.normal(size=(400, 16)), 0)
    return Head(weight, bias), FeatureSet(z, labels), np.maximum(rng.normal(size=(30, 16)), 0)


def test_fdbd_is_the_mean_distance_to_the_boundary_over_the_distance_to_the_mean(world):
    head, train, rows = world
    mean = train.array().mean(axis=0)
    expected = []
    for z in rows:
        logits = head.weight @ z + head.bias
        c = int(logits.argmax())
        distances = []
        for k in range(5):
            if k != c:  # walk from z straight to the hyperplane on which the two logits are equal
                normal = head.weight[c] - head.weight[k]
                foot = z - normal * ((logits[c] - logits[k]) / (normal @ normal))
                assert head.weight[c] @ foot + head.bias[c] == pytest.approx(head.weight[k] @ foot + head.bias[k])
                distances.append(np.linalg.norm(foot - z))
        expected.append(-np.mean(distances) / np.linalg.norm(z - mean))
    np.testing.assert_allclose(FDBD().fit(head, train).uncertainty(rows), expected, rtol=1e-10)


def test_fdbd_ignores_classes_that_have_no_boundary_with_the_predicted_one(world):
    head, train, rows = world
    doubled = Head(np.vstack([head.weight, head.weight[:1]]), np.append(head.bias, head.bias[0] - 1.0))
    scores = FDBD().fit(doubled, train).uncertainty(rows)
    assert np.isfinite(scores).all()
    taken_for_0 = head.logits(rows).argmax(axis=1) == 0
    assert taken_for_0.any()
    np.testing.assert_allclose(scores[taken_for_0], FDBD().fit(head, train).uncertainty(rows)[taken_for_0], rtol=1e-12)


def test_nci_is_alignment_and_size_in_the_ratio_alpha_over_training_rows(world):
    head, train, rows = world
    fitted = NCI(alpha=0.5).fit(head, train)

    mean = sum(train.array()) / len(train)

    def terms(z):
        winner = max(range(5), key=lambda k: head.weight[k] @ z + head.bias[k])
        return head.weight[winner] @ (z - mean) / np.sqrt((z - mean) @ (z - mean)), sum(abs(one) for one in z)

    alignments, sizes = zip(*map(terms, train.array()))
    strength = 0.5 * sum(alignments) / sum(sizes)
    assert fitted.a_ == pytest.approx(strength, rel=1e-10)
    expected = [-(alignment + strength * size) for alignment, size in map(terms, rows)]
    np.testing.assert_allclose(fitted.uncertainty(rows), expected, rtol=1e-10)


@pytest.mark.parametrize("score", [FDBD, NCI])
def test_the_unit_of_the_features_does_not_change_the_order(world, score):
    head, train, rows = world
    plain = score().fit(head, train).uncertainty(rows)
    scaled_head = Head(head.weight / 1000.0, head.bias)
    scaled = score().fit(scaled_head, (1000.0 * train.array(), train.labels)).uncertainty(1000.0 * rows)
    np.testing.assert_array_equal(np.argsort(scaled), np.argsort(plain))


def test_she_is_the_product_with_the_mean_of_the_rows_classified_right(world):
    head, train, rows = world
    z, labels = train.array(), train.labels
    predicted = (z @ head.weight.T + head.bias).argmax(axis=1)
    assert 0 < (predicted != labels).sum() < len(z)
    patterns = np.stack([z[(labels == k) & (predicted == k)].mean(axis=0) for k in range(5)])
    expected = [-row @ patterns[int((head.weight @ row + head.bias).argmax())] for row in rows]
    np.testing.assert_allclose(SHE().fit(head, train).uncertainty(rows), expected, rtol=1e-10)


def test_a_class_that_is_never_classified_right_takes_the_mean_of_all_its_rows(world):
    head, train, _ = world
    never = Head(head.weight, head.bias - 1e3 * np.eye(5)[0])
    fitted = SHE().fit(never, train)
    np.testing.assert_allclose(fitted._patterns[0], train.array()[train.labels == 0].mean(axis=0), rtol=1e-10)


def test_a_strength_below_0_is_refused(world):
    head, train, _ = world
    with pytest.raises(SoftscopeError, match="alpha is -1"):
        NCI(alpha=-1).fit(head, train)
