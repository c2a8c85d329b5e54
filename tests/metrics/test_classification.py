"""Accuracy, cross-entropy and balanced sides."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import log_softmax
from sklearn.metrics import accuracy_score, log_loss

from softscope import SoftscopeError
from softscope.metrics import accuracy, balanced, cross_entropy, proportion


@pytest.fixture
def classified():
    generator = np.random.default_rng(3)
    return generator.normal(size=(5000, 7)).astype(np.float32) * 3, generator.integers(0, 7, 5000)


def test_accuracy_agrees_with_scikit_learn(classified):
    logits, labels = classified
    share = accuracy(logits, labels)
    assert share.value == accuracy_score(labels, logits.argmax(axis=1))
    assert share == proportion(round(share.value * 5000), 5000)


def test_cross_entropy_agrees_with_scikit_learn(classified):
    logits, labels = classified
    expected = log_loss(labels, np.exp(log_softmax(logits.astype(np.float64), axis=1)))
    assert cross_entropy(logits, labels).value == pytest.approx(expected, rel=1e-10)


def test_the_interval_of_cross_entropy_covers_as_often_as_it_says():
    generator = np.random.default_rng(4)
    logits = generator.normal(size=(600, 40, 3))
    labels = generator.integers(0, 3, (600, 40))
    # Independent logits and labels: the mean loss is E[log sum exp l] - E[l].
    truth = np.log(np.exp(generator.normal(size=(10**6, 3))).sum(axis=1)).mean()
    hits = sum(cross_entropy(one, other).contains(truth) for one, other in zip(logits, labels))
    assert 0.92 < hits / 600 < 0.98


def test_tiny_losses_and_huge_margins_stay_exact():
    logits = np.array([[50.0, 0.0], [0.0, 1000.0], [800.0, 0.0]])
    assert cross_entropy(logits[:1], [0]).value == pytest.approx(math.exp(-50), rel=1e-12)
    assert cross_entropy(logits[1:], [0, 0]).value == 500.0


def test_one_row_has_no_upper_bound():
    loss = cross_entropy(np.zeros((1, 2)), np.array([0]))
    assert (loss.value, loss.low, loss.high) == (pytest.approx(math.log(2)), 0.0, math.inf)


def test_equal_logits_go_to_the_first_class():
    assert accuracy(np.zeros((2, 3)), np.array([0, 1])).value == 0.5


def test_chunks_change_nothing(classified, monkeypatch):
    logits, labels = classified
    whole = accuracy(logits, labels), cross_entropy(logits, labels)
    monkeypatch.setattr("softscope.metrics.interval.chunk_rows", lambda columns: 7)
    assert (accuracy(logits, labels), cross_entropy(logits, labels)) == whole


@pytest.mark.parametrize("metric", [accuracy, cross_entropy])
@pytest.mark.parametrize(
    ("logits", "labels", "message"),
    [
        (np.zeros((0, 3)), np.zeros(0, int), "is empty"),
        (np.zeros((2, 3)), np.array([0, 3]), "row 1 has label 3"),
        (np.zeros((2, 3)), np.array([0]), "1 labels for 2 rows"),
        (np.array([[0.0, np.nan]]), np.array([0]), "row 0 holds nan"),
        (np.zeros(3), np.array([0]), "expected a matrix"),
        (np.zeros((1, 3)), np.array([0.0]), "whole-number labels"),
    ],
)
def test_bad_logits_and_labels_are_named(metric, logits, labels, message):
    with pytest.raises(SoftscopeError, match=message):
        metric(logits, labels)


@given(st.integers(1, 300), st.integers(1, 300), st.integers(0, 2**32))
def test_balanced_sides_are_equal_distinct_and_repeatable(familiar, unfamiliar, seed):
    sides = balanced(familiar, unfamiliar, seed)
    for rows, limit in zip(sides, (familiar, unfamiliar)):
        assert rows.size == min(familiar, unfamiliar)
        assert (np.diff(rows) > 0).all()
        assert rows.min() >= 0
        assert rows.max() < limit
    for rows, again in zip(sides, balanced(familiar, unfamiliar, seed)):
        np.testing.assert_array_equal(rows, again)


def test_every_row_of_the_larger_side_is_drawn_alike():
    drawn = np.concatenate([balanced(20, 5, seed)[0] for seed in range(2000)])
    counts = np.bincount(drawn, minlength=20)
    assert np.abs(counts - 500).max() < 5 * math.sqrt(2000 * 0.25 * 0.75)


def test_another_seed_draws_other_rows():
    assert not np.array_equal(balanced(1000, 10, 0)[0], balanced(1000, 10, 1)[0])


def test_an_empty_side_is_refused():
    with pytest.raises(SoftscopeError, match="the unfamiliar side has 0 rows"):
        balanced(5, 0)
