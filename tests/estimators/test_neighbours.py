"""k-nearest neighbours: against scikit-learn, and what scaling, k and sub-sampling do."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_digits
from sklearn.neighbors import NearestNeighbors
from sklearn.preprocessing import normalize

from softscope.errors import SoftscopeError
from softscope.estimators import neighbours
from softscope.estimators.compiled import push_rows
from softscope.estimators.neighbours import NearestNeighbours, NNGuide
from softscope.features import FeatureSet
from softscope.head import Head


def head(width):
    return Head(np.eye(2, width))


def by_scikit_learn(train, z, k):
    peer = NearestNeighbors(n_neighbors=k, algorithm="brute").fit(normalize(train.astype(float)))
    return peer.kneighbors(normalize(z.astype(float)))[0][:, -1]


def relu_features(rows, width, seed):
    return np.maximum(np.random.default_rng(seed).normal(0.3, 1, (rows, width)), 0).astype(np.float32)


@pytest.mark.parametrize("k", [1, 2, 7, 50, 499])
@pytest.mark.parametrize("width", [3, 64])
def test_distance_equals_scikit_learn(k, width):
    train, z = relu_features(500, width, 0) + 0.1, relu_features(300, width, 1) + 0.1
    scores = NearestNeighbours(k=k).fit(head(width), FeatureSet(train)).uncertainty(z)
    np.testing.assert_allclose(scores, by_scikit_learn(train, z, k), rtol=1e-5, atol=1e-7)


def test_distance_equals_scikit_learn_on_digits():
    digits = load_digits().data
    scores = NearestNeighbours().fit(head(64), FeatureSet(digits[:1200])).uncertainty(digits[1200:])
    np.testing.assert_allclose(scores, by_scikit_learn(digits[:1200], digits[1200:], 50), rtol=1e-6)


def test_a_training_row_is_at_distance_zero_from_itself():
    train = relu_features(400, 32, 0) + 0.1
    scores = NearestNeighbours(k=1).fit(head(32), FeatureSet(train)).uncertainty(train)
    np.testing.assert_array_equal(scores, 0)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32 - 1), st.floats(1e-15, 1e15))
def test_the_scale_of_z_does_not_matter(seed, scale):
    train, z = relu_features(100, 8, seed) + 0.01, relu_features(40, 8, seed + 1) + 0.01
    fitted = NearestNeighbours(k=5).fit(head(8), FeatureSet(train))
    np.testing.assert_allclose(fitted.uncertainty(z * np.float32(scale)), fitted.uncertainty(z), atol=1e-6)
    other = NearestNeighbours(k=5).fit(head(8), FeatureSet(train * np.float32(scale)))
    np.testing.assert_allclose(other.uncertainty(z), fitted.uncertainty(z), atol=1e-6)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 60))
def test_a_larger_k_is_never_nearer(seed, k):
    fitted = [
        NearestNeighbours(k=n).fit(head(5), FeatureSet(relu_features(61, 5, seed))).uncertainty(relu_features(9, 5, 7))
        for n in (k, k + 1)
    ]
    assert (fitted[0] <= fitted[1] + 1e-6).all()


def test_blocks_change_nothing(monkeypatch):
    train, z = relu_features(300, 16, 0), relu_features(70, 16, 1)
    whole = NearestNeighbours(k=9).fit(head(16), FeatureSet(train)).uncertainty(z)
    monkeypatch.setattr(neighbours, "TRAIN_ROWS", 11)
    monkeypatch.setattr(neighbours, "QUERY_ROWS", 6)
    np.testing.assert_allclose(NearestNeighbours(k=9).fit(head(16), FeatureSet(train)).uncertainty(z), whole, atol=1e-6)


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 12), st.integers(12, 30))
def test_the_heap_holds_the_largest_entries_and_their_places(seed, size, columns):
    block = np.random.default_rng(seed).integers(0, 9, (4, columns)).astype(np.float32)
    values, indices = np.full((4, size), -np.inf, np.float32), np.zeros((4, size), np.int64)
    push_rows(block[:, :5], 0, values, indices)
    push_rows(block[:, 5:], 5, values, indices)
    np.testing.assert_array_equal(np.sort(values, axis=1), np.sort(block, axis=1)[:, -size:])
    np.testing.assert_array_equal(np.take_along_axis(block, indices, axis=1), values)
    np.testing.assert_array_equal(values[:, 0], values.min(axis=1))


def test_k_shrinks_to_the_training_rows_and_says_so():
    train, z = relu_features(20, 4, 0), relu_features(5, 4, 1) + 0.1
    fitted = NearestNeighbours().fit(head(4), FeatureSet(train))
    assert fitted.k_ == 20
    farthest = NearestNeighbours(k=20).fit(head(4), FeatureSet(train)).uncertainty(z)
    np.testing.assert_array_equal(fitted.uncertainty(z), farthest)


def test_zero_rows_are_at_distance_one_from_every_direction():
    train = relu_features(50, 6, 0) + 0.1
    fitted = NearestNeighbours(k=3).fit(head(6), FeatureSet(train))
    np.testing.assert_allclose(fitted.uncertainty(np.zeros((2, 6), np.float32)), 1, rtol=1e-6)


def test_more_rows_than_asked_for_are_drawn_by_the_seed():
    train, z = relu_features(500, 6, 0), relu_features(20, 6, 1)
    fits = [NearestNeighbours(k=3, max_rows=100, seed=s).fit(head(6), FeatureSet(train)) for s in (0, 0, 1)]
    first, again, other = (fit.uncertainty(z) for fit in fits)
    assert fits[0].rows_ == 100
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)
    kept = {tuple(row) for row in fits[0].state()["train"]}
    everything = NearestNeighbours(k=3).fit(head(6), FeatureSet(train))
    assert kept <= {tuple(row) for row in everything.state()["train"]}


def test_a_restored_estimator_scores_alike():
    train, z = relu_features(120, 10, 0), relu_features(30, 10, 1)
    fitted = NearestNeighbours(k=60).fit(head(10), FeatureSet(train))
    copy = NearestNeighbours(k=60).restore(head(10), fitted.state())
    np.testing.assert_array_equal(copy.uncertainty(z), fitted.uncertainty(z))
    assert (copy.k_, copy.rows_) == (60, 120)


@pytest.mark.parametrize("params", [{"k": 0}, {"max_rows": 0}])
def test_parameters_without_meaning_are_refused(params):
    with pytest.raises(SoftscopeError, match=next(iter(params))):
        NearestNeighbours(**params).fit(head(4), FeatureSet(relu_features(9, 4, 0)))


def test_k_is_scaled_with_the_rows_that_are_kept_and_survives_saving():
    """Of 1,000 rows 200 are kept: the 10th of them is about as far away as the 50th of all."""
    rng = np.random.default_rng(0)
    train, queries = rng.normal(size=(1000, 4)), rng.normal(size=(50, 4))
    fitted = NearestNeighbours(max_rows=200).fit(head(4), FeatureSet(train))
    assert (fitted.k_, fitted.rows_) == (10, 200)
    whole = NearestNeighbours(max_rows=1000).fit(head(4), FeatureSet(train))
    assert whole.k_ == 50
    assert fitted.uncertainty(queries).mean() == pytest.approx(whole.uncertainty(queries).mean(), rel=0.1)
    restored = NearestNeighbours(max_rows=200).restore(head(4), fitted.state())
    assert np.array_equal(restored.uncertainty(queries), fitted.uncertainty(queries))


def test_nnguide_is_energy_times_the_mean_of_the_largest_guided_cosines():
    rng = np.random.default_rng(3)
    head = Head(rng.normal(size=(4, 20)), 2 + rng.normal(size=4))
    train, rows = (np.maximum(rng.normal(size=(n, 20)), 0).astype(np.float32) for n in (500, 20))

    def confidence(z):
        return np.log(sum(np.exp(z @ w + b) for w, b in zip(head.weight, head.bias)))

    def by_definition(z, k, added=0.0):
        """For one row, in float64; OpenOOD has `added` = 1e-10."""
        z = z.astype(np.float64)
        guided = []
        for seen in train.astype(np.float64):
            cosine = (z / np.sqrt(z @ z) + added) @ (seen / np.sqrt(seen @ seen) + added)
            guided.append(cosine * confidence(seen))
        return -confidence(z) * np.mean(sorted(guided)[-k:])

    for k in (1, 10, 100):
        scores = NNGuide(k=k).fit(head, train).uncertainty(rows)
        for added in (0.0, 1e-10):
            np.testing.assert_allclose(scores, [by_definition(z, k, added) for z in rows], rtol=1e-5)
    few = NNGuide(k=10, max_rows=4).fit(head, train)
    assert (few.rows_, few.k_) == (4, 4)


def test_nnguide_refuses_a_head_whose_confidence_changes_its_sign():
    rng = np.random.default_rng(4)
    head = Head(rng.normal(size=(4, 20)), -20 * np.ones(4))
    with pytest.raises(SoftscopeError, match=r"nnguide assumes log sum exp\(logits\) > 0"):
        NNGuide().fit(head, rng.normal(size=(100, 20)))


def test_without_normalising_distances_are_those_of_z_itself():
    rng = np.random.default_rng(5)
    head = Head(rng.normal(size=(3, 8)))
    train, rows = rng.normal(size=(400, 8)), 3 * rng.normal(size=(30, 8))
    distances = np.sort(np.linalg.norm(rows[:, None] - train, axis=2), axis=1)
    scores = NearestNeighbours(k=7, normalise=False).fit(head, train).uncertainty(rows)
    np.testing.assert_allclose(scores, distances[:, 6], rtol=1e-10)
