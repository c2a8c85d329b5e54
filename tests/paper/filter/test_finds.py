"""Climbing ends where no flip helps; resemblance is what its definition says."""

import numpy as np
import pytest
from scipy import stats

from softscope.paper.filter import Folded, Range, inputs, scan
from softscope.paper.filter.finds import (
    FLIPS,
    class_log_odds,
    climb,
    nearest_distances,
    permutation_test,
    template_correlations,
)

from .conftest import confident


@pytest.fixture(scope="module")
def network() -> Folded:
    return Folded.of(confident(3, scale=30.0))


def test_flips_are_all_of_at_most_two_bits() -> None:
    assert len(set(FLIPS.tolist())) == 1 + 64 + 64 * 63 // 2
    assert np.bitwise_count(FLIPS).max() == 2


def test_a_climb_ends_above_its_start_where_no_single_flip_helps(network: Folded) -> None:
    starts, wanted = inputs.words(9, np.arange(4)), np.array([0, 3, 3, 7])
    climbed = climb(network, starts, wanted)
    for start, end, odds, steps, k in zip(starts, climbed.words, climbed.odds, climbed.steps, wanted):
        heights = class_log_odds(network.evaluate_words(np.array([start, end]))[0], int(k))
        assert heights[1] == pytest.approx(odds, abs=1e-5)
        assert heights[1] > heights[0]
        assert steps >= 1
        around = inputs.unpack(np.array([end]))[0].ravel() ^ np.eye(64, dtype=np.uint8)
        single = network.evaluate(around.reshape(64, 8, 8))[0]
        assert class_log_odds(single, int(k)).max() <= odds + 1e-5


def test_climbing_gets_further_than_drawing(network: Folded) -> None:
    drawn = scan(network, Range(0, 0, 50_000, top=1))
    k = int(drawn.odds[:, 0].argmax())
    climbed = climb(network, inputs.words(0, drawn.numbers[k]), np.array([k]))
    assert climbed.odds[0] > drawn.odds[k, 0]


def test_log_odds_of_a_class_are_those_of_its_softmax(rng: np.random.Generator) -> None:
    logits = rng.normal(size=(20, 5))
    p = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(class_log_odds(logits, 2), np.log(p[:, 2] / (1 - p[:, 2])), rtol=1e-10)


def test_templates_are_compared_by_pearsons_correlation(rng: np.random.Generator) -> None:
    known, labels = rng.integers(0, 2, (30, 9, 9), dtype=np.uint8), np.arange(30) % 3
    finds = rng.integers(0, 2, (4, 9, 9), dtype=np.uint8)
    match = template_correlations(finds, known, labels, 3)
    for i in range(4):
        for k in range(3):
            mean = known[labels == k].mean(axis=0)[:8, :8].ravel()
            assert match[i, k] == pytest.approx(stats.pearsonr(finds[i, :8, :8].ravel(), mean).statistic)


def test_a_blank_input_correlates_with_nothing(rng: np.random.Generator) -> None:
    known = rng.integers(0, 2, (6, 9, 9), dtype=np.uint8)
    match = template_correlations(np.zeros((1, 9, 9), np.uint8), known, np.arange(6) % 2, 2)
    np.testing.assert_array_equal(match, 0.0)


def test_distances_count_differing_pixels(rng: np.random.Generator) -> None:
    known, labels = rng.integers(0, 2, (30, 9, 9), dtype=np.uint8), np.arange(30) % 3
    finds = rng.integers(0, 2, (4, 9, 9), dtype=np.uint8)
    distances = nearest_distances(inputs.pack(finds), inputs.pack(known), labels, 3)
    away = (finds[:, None, :8, :8] != known[None, :, :8, :8]).sum(axis=(2, 3))
    np.testing.assert_array_equal(distances, np.stack([away[:, labels == k].min(axis=1) for k in range(3)], axis=1))


def test_finds_that_match_their_class_are_told_from_finds_that_do_not(rng: np.random.Generator) -> None:
    wanted = np.repeat(np.arange(5), 4)
    noise = rng.normal(size=(20, 5))
    matched = noise + 3 * np.eye(5)[wanted]
    assert permutation_test(matched, wanted, 999, 0).p_value == 1 / 1000
    assert permutation_test(noise, wanted, 999, 0).p_value > 0.02


def test_p_values_are_uniform_where_classes_mean_nothing(rng: np.random.Generator) -> None:
    wanted = np.repeat(np.arange(4), 3)
    p_values = [permutation_test(rng.normal(size=(12, 4)), wanted, 99, i).p_value for i in range(200)]
    assert stats.kstest(p_values, "uniform").pvalue > 1e-3
