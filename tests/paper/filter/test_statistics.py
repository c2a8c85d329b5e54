"""Streamed statistics beside the whole arrays they stand for."""

import numpy as np
import pytest
import torch
from scipy import stats

from softscope.errors import SoftscopeError
from softscope.paper.filter import (
    Range,
    ScanStatistics,
    Unfolded,
    edges,
    exact_binomial,
    inputs,
    log_odds_of,
    scan,
    scanned,
)
from softscope.paper.nets import Net

from .conftest import confident

_ROWS = 9000


@pytest.fixture(scope="module")
def case() -> tuple[ScanStatistics, dict[str, np.ndarray], np.ndarray]:
    """What was streamed, and the same quantities of every input, from torch in float64 and textbook formulas."""
    net: Net = confident(3, scale=60.0)
    statistics = scan(scanned(net), Range(4, 0, _ROWS, top=7))
    net = net.double()
    bits = inputs.images(4, np.arange(_ROWS), (9, 9))
    with torch.inference_mode():
        z = net.forward_features(torch.from_numpy(bits[..., None].astype(np.float64)))
        p = torch.softmax(net.forward_head(z), 1).numpy()
    weight = net.classifier.weight.detach().numpy()
    z = z.numpy()
    first = p.max(axis=1)
    cosine = (z @ weight.T / np.linalg.norm(weight, axis=1) / np.linalg.norm(z, axis=1)[:, None]).max(axis=1)
    entropy = stats.entropy(p, axis=1)
    values = {"log_odds": np.log(first / (1 - first)), "entropy": entropy, "norm": np.linalg.norm(z, axis=1)}
    return statistics, values | {"cosine": cosine}, p.argmax(axis=1)


@pytest.mark.parametrize("quantity", ["log_odds", "entropy", "norm", "cosine"])
def test_histograms_are_those_of_the_whole_array(case: tuple, quantity: str) -> None:
    statistics, values, best = case
    for k in (None, 0, 3):
        own = values[quantity] if k is None else values[quantity][best == k]
        expected = np.histogram(own, edges(quantity, 10))[0]
        # float32 logits move a value across an edge now and then, by one bin.
        assert np.abs(np.cumsum(statistics.histogram(quantity, k) - expected)).max() <= 3
        assert statistics.histogram(quantity, k).sum() == len(own)


def test_the_finds_are_the_most_confident_of_each_class(case: tuple) -> None:
    statistics, values, best = case
    for k in range(10):
        own = np.flatnonzero(best == k)
        top = own[np.argsort(-values["log_odds"][own])][:7]
        np.testing.assert_array_equal(statistics.numbers[k][: len(top)], top)
        np.testing.assert_allclose(statistics.odds[k][: len(top)], values["log_odds"][top], rtol=0, atol=1e-5)
        assert np.all(statistics.odds[k][len(top) :] == -np.inf)


@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 0.99, 1.0])
def test_a_quantile_lies_in_its_bin(case: tuple, share: float) -> None:
    statistics, values, _ = case
    expected = np.quantile(values["norm"], share, method="inverted_cdf")
    bin_ = statistics.quantile("norm", share)
    assert bin_.low * (1 - 1e-6) <= expected <= bin_.high * (1 + 1e-6)


def test_the_share_above_a_confidence_is_exact_on_an_edge(case: tuple) -> None:
    statistics, values, _ = case
    above = int((values["log_odds"] >= 1.5).sum())
    share = statistics.share_above(1.5)
    expected = stats.binomtest(above, _ROWS).proportion_ci(method="exact")
    assert above > 0
    assert share.value == above / _ROWS
    assert (share.low, share.high) == pytest.approx((expected.low, expected.high), rel=1e-9)


def test_the_share_between_edges_is_covered(case: tuple) -> None:
    statistics, values, _ = case
    threshold = log_odds_of(0.77)
    share = statistics.share_above(threshold)
    assert share.low <= (values["log_odds"] >= threshold).mean() <= share.high


@pytest.mark.parametrize("log_odds", [-1e9, -4.0, 60.0, 1e9])
def test_shares_at_the_ends_are_all_and_nothing(case: tuple, log_odds: float) -> None:
    assert case[0].share_above(log_odds).value == (1.0 if log_odds < 0 else 0.0)


@pytest.mark.parametrize("successes", [0, 1, 5, 10])
def test_the_binomial_interval_is_scipys(successes: int) -> None:
    ours, theirs = exact_binomial(successes, 10), stats.binomtest(successes, 10).proportion_ci(method="exact")
    assert (ours.low, ours.high) == pytest.approx((theirs.low, theirs.high))


def test_equally_confident_inputs_are_ordered_by_number() -> None:
    net = confident(3)
    for layer in (net.body[0], net.body[2], net.body[5]):
        layer.weight.data.zero_()
    statistics = scan(Unfolded(net), Range(0, 0, 5000, top=4), threads=1)
    k = int(statistics.predicted.argmax())
    np.testing.assert_array_equal(statistics.numbers[k], [0, 1, 2, 3])
    other = ScanStatistics.empty(10, 4)
    other.merge(statistics)
    other.merge(
        ScanStatistics(0, np.zeros_like(statistics.counts), statistics.odds.copy(), statistics.numbers + np.uint64(2))
    )
    np.testing.assert_array_equal(other.numbers[k], [0, 1, 2, 2])


def test_questions_without_an_answer_are_refused(case: tuple) -> None:
    empty = ScanStatistics.empty(10, 5)
    with pytest.raises(SoftscopeError, match="no quantile"):
        empty.quantile("norm", 0.5)
    with pytest.raises(SoftscopeError, match="two different scans"):
        case[0].merge(empty)
    for confidence in (0.0, 1.0):
        with pytest.raises(SoftscopeError, match="between 0 and 1"):
            log_odds_of(confidence)
