"""p-values, thresholds and rates against the definition, scipy, exchangeability and many draws."""

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats

from softscope.errors import SoftscopeError
from softscope.guard.conformal import Calibration, Promise, benjamini_hochberg, check_rate

# Few distinct values, so that ties are the rule.
tied = st.lists(st.integers(-3, 3), min_size=1, max_size=30).map(lambda values: np.array(values, float))
rates = st.sampled_from([0.01, 0.05, 0.1, 0.2, 0.25, 0.3, 1 / 3, 0.5, 0.7, 0.9]) | st.floats(0.02, 0.98)


def one_group(scores):
    return Calibration.of(np.asarray(scores, float), np.zeros(len(scores), np.int64), 1)


def p_values(calibration, scores):
    return one_group(calibration).p_values(np.asarray(scores, float), np.zeros(len(scores), np.int64))


@given(tied, tied)
def test_p_values_count_calibration_scores_as_large_or_larger_ties_included(calibration, scores):
    expected = [(1 + sum(c >= s for c in calibration)) / (len(calibration) + 1) for s in scores]
    np.testing.assert_array_equal(p_values(calibration, scores), expected)


def test_p_values_are_those_of_crepes_ties_included():
    """A public implementation of conformal prediction, where it is installed."""
    crepes = pytest.importorskip("crepes.base")
    rng = np.random.default_rng(0)
    calibration, scores = rng.integers(0, 40, 300).astype(float), rng.integers(0, 45, 500).astype(float)
    theirs = crepes.p_values_batch(calibration, scores, smoothing=False)
    np.testing.assert_allclose(p_values(calibration, scores), np.asarray(theirs).ravel(), rtol=1e-12)


@pytest.mark.parametrize("score", [-0.3, 1e-30, 0.0, 7e20])
def test_scores_that_differ_in_the_last_bits_tie(score):
    """As those of one row do, scored alone and in a large batch; a third of the rows may well be the same."""
    near = [np.nextafter(score, side) for side in (-np.inf, np.inf)] if score else [0.0, -0.0]
    np.testing.assert_array_equal(p_values([score] * 9, near), [1.0, 1.0])


@given(tied, rates)
def test_among_exchangeable_scores_no_more_than_the_rate_are_alarms_whatever_the_ties(scores, rate):
    """Each of n + 1 scores is as likely to be the fresh one: the share with p <= rate is the false-alarm rate."""
    assume(len(scores) > 1)
    alarms = sum(p_values(np.delete(scores, i), scores[i : i + 1])[0] <= rate for i in range(len(scores)))
    assert alarms <= rate * len(scores) * (1 + 1e-12)
    if len(set(scores)) == len(scores):
        assert alarms == Promise(rate).rank(len(scores) - 1)


@given(st.integers(2, 60), rates)
def test_without_ties_the_false_alarm_rate_is_exactly_rank_over_n_plus_one(n, rate):
    scores = np.random.default_rng(n).permutation(n + 1)
    alarms = sum(p_values(np.delete(scores, i), scores[i : i + 1])[0] <= rate for i in range(n + 1))
    assert alarms == Promise(rate).rank(n)


@given(tied, tied, rates)
def test_an_alarm_is_a_score_above_the_threshold(calibration, scores, rate):
    assume(Promise(rate).rank(len(calibration)) > 0)
    threshold = one_group(calibration).thresholds(Promise(rate))
    np.testing.assert_array_equal(p_values(calibration, scores) <= rate, scores > threshold[0])


@given(st.lists(st.tuples(st.integers(-3, 3), st.integers(0, 2)), min_size=1, max_size=40), tied, rates)
def test_groups_are_compared_with_their_own_calibration_scores(pairs, scores, rate):
    values, groups = np.array(pairs, float).T
    groups = groups.astype(np.int64)
    calibration = Calibration.of(values, groups, 3)
    np.testing.assert_array_equal(calibration.counts, [(groups == g).sum() for g in range(3)])
    asked = np.arange(len(scores)) % 3
    expected = np.empty(len(scores))
    for g in range(3):
        np.testing.assert_array_equal(calibration.group(g), np.sort(values[groups == g]))
        expected[asked == g] = [
            (1 + (values[groups == g] >= s).sum()) / (1 + (groups == g).sum()) for s in scores[asked == g]
        ]
    np.testing.assert_array_equal(calibration.p_values(scores, asked), expected)


@pytest.mark.parametrize(
    ("rate", "n", "expected"), [(0.05, 19, 1), (0.05, 18, 0), (0.3, 9, 3), (0.1, 29, 3), (0.29, 99, 29)]
)
def test_rank_is_the_exact_floor_also_where_floats_are_not(rate, n, expected):
    assert Promise(rate).rank(n) == expected
    assert expected / (n + 1) <= rate < (expected + 1) / (n + 1)


@given(st.integers(2, 5000))
def test_the_smallest_calibration_of_one_in_d_is_d_minus_one(d):
    assert Promise(1 / d).smallest_calibration == d - 1


@given(st.floats(1e-6, 0.999))
def test_the_smallest_calibration_is_the_first_size_at_which_an_alarm_is_possible(rate):
    n = Promise(rate).smallest_calibration
    assert Promise(rate).rank(n) >= 1
    assert n == 1 or Promise(rate).rank(n - 1) == 0
    assert abs(n - (math.ceil(1 / rate) - 1)) <= 1


def test_p_values_of_fresh_scores_are_uniform_on_their_grid():
    """Chi-square over the n + 1 values p can take, one fresh score to each calibration set."""
    rng = np.random.default_rng(0)
    n, draws = 19, 20_000
    scores = rng.standard_cauchy((draws, n + 1))
    ranks = [round(20 * p_values(row[:n], row[n:])[0]) for row in scores]
    counts = np.bincount(ranks, minlength=21)[1:]
    assert counts.sum() == draws
    assert stats.chisquare(counts).pvalue > 1e-3


@pytest.mark.parametrize(("rate", "n", "fresh"), [(0.05, 19, 50), (0.05, 100, 200), (0.1, 59, 100), (0.5, 7, 30)])
def test_realised_alarms_are_beta_binomial_over_many_draws(rate, n, fresh):
    rng = np.random.default_rng(1)
    rank = Promise(rate).rank(n)
    law = stats.betabinom(fresh, rank, n + 1 - rank)
    draws = 4000
    alarms = np.array(
        [(p_values(rng.exponential(size=n), rng.exponential(size=fresh)) <= rate).sum() for _ in range(draws)]
    )
    assert abs(alarms.mean() - law.mean()) < 4 * law.std() / np.sqrt(draws)
    assert alarms.mean() / fresh <= rate + 4 * law.std() / fresh / np.sqrt(draws)
    edges = np.unique(law.ppf(np.linspace(0.1, 0.9, 9))).astype(int)
    seen = np.diff([0, *((alarms <= edge).sum() for edge in edges), draws])
    expected = draws * np.diff([0, *law.cdf(edges), 1])
    assert stats.chisquare(seen, expected).pvalue > 1e-3
    low, high = Promise(rate).alarm_band(n, fresh)
    inside = law.cdf(high) - (law.cdf(low - 1) if low else 0)
    assert abs(((alarms >= low) & (alarms <= high)).mean() - inside) < 4 * np.sqrt(inside * (1 - inside) / draws)


@given(st.floats(0.01, 0.9), st.integers(1, 300), st.integers(1, 300))
def test_the_band_of_alarms_is_that_of_scipys_beta_binomial(rate, n, fresh):
    rank = Promise(rate).rank(n)
    assume(rank > 0)
    law = stats.betabinom(fresh, rank, n + 1 - rank)
    low, high = Promise(rate).alarm_band(n, fresh)
    assert low == 0 or law.cdf(low - 1) <= 0.025 + 1e-9
    assert law.cdf(low) > 0.025 - 1e-9
    assert law.sf(high) <= 0.025 + 1e-9
    assert high == 0 or law.sf(high - 1) > 0.025 - 1e-9


def test_the_band_of_a_billion_rows_is_the_kept_rate_without_binomial_noise():
    rate = Promise(0.05).own_rate(5000)
    low, high = Promise(0.05).alarm_band(5000, 10**9)
    np.testing.assert_allclose([low / 1e9, high / 1e9], [rate.low, rate.high], rtol=1e-3)


@given(st.floats(0.01, 0.9), st.integers(1, 500))
def test_the_kept_rate_is_the_beta_law_of_scipy_and_never_above_the_promise(rate, n):
    rank = Promise(rate).rank(n)
    assume(rank > 0)
    kept, law = Promise(rate).own_rate(n), stats.beta(rank, n + 1 - rank)
    np.testing.assert_allclose([kept.value, kept.low, kept.high], [law.mean(), *law.ppf([0.025, 0.975])], rtol=1e-8)
    assert kept.value <= rate


@given(st.lists(st.floats(0.001, 1) | st.sampled_from([0.01, 0.02, 0.05]), min_size=1, max_size=40), rates)
def test_discoveries_are_those_of_scipys_benjamini_hochberg(values, rate):
    p = np.array(values)
    adjusted = stats.false_discovery_control(p, method="bh")
    discovered = benjamini_hochberg(p, rate)
    clear = np.abs(adjusted - rate) > 1e-12
    np.testing.assert_array_equal(discovered[clear], (adjusted <= rate)[clear])


def test_the_false_discovery_rate_is_kept_with_p_values_that_share_their_calibration():
    rng = np.random.default_rng(2)
    shares = []
    for _ in range(1500):
        fresh = np.concatenate([rng.normal(size=80), rng.normal(3.5, 1, size=20)])
        discovered = benjamini_hochberg(p_values(rng.normal(size=400), fresh), 0.2)
        shares.append(discovered[:80].sum() / max(1, discovered.sum()))
    error = np.std(shares) / np.sqrt(len(shares))
    assert np.mean(shares) < 0.2 * 80 / 100 + 4 * error
    assert np.mean(shares) > 0.1  # and not by finding nothing


def test_nothing_is_discovered_where_nothing_is_small_enough():
    assert not benjamini_hochberg(np.array([0.5, 0.9, 1.0]), 0.1).any()


@pytest.mark.parametrize("rate", [0.0, 1.0, -0.1, 5, float("nan")])
def test_a_rate_that_is_none_is_refused(rate):
    with pytest.raises(SoftscopeError, match=r"false_alarms is .*between 0 and 1"):
        check_rate(rate, "false_alarms")


# --- this very guard's own rate


def test_the_rank_of_a_thousand_rows_at_5_percent_with_confidence_95_is_39():
    promise = Promise(0.05, 0.95)
    assert (promise.rank(1000), Promise(0.05).rank(1000)) == (39, 50)
    assert promise.exceeded(1000) <= 0.05 < stats.beta(40, 961).sf(0.05)
    assert 0.475 < Promise(0.05).exceeded(1000) < 0.485  # what a promise on average leaves open


@given(st.floats(0.005, 0.6), st.sampled_from([0.5, 0.9, 0.95, 0.999]), st.integers(1, 3000))
def test_the_rank_with_confidence_is_the_largest_that_the_beta_law_allows(rate, confidence, n):
    rank = Promise(rate, confidence).rank(n)
    if rank:
        assert stats.beta(rank, n + 1 - rank).cdf(rate) >= confidence - 1e-9
    if rank < n:
        assert stats.beta(rank + 1, n - rank).cdf(rate) < confidence + 1e-9


@given(st.floats(0.001, 0.9), st.sampled_from([0.1, 0.5, 0.9, 0.95, 0.999]))
def test_the_smallest_calibration_with_confidence_is_the_first_with_a_rank(rate, confidence):
    promise = Promise(rate, confidence)
    n = promise.smallest_calibration
    assert promise.rank(n) >= 1
    assert n == 1 or promise.rank(n - 1) == 0


@pytest.mark.parametrize("rate", [0.01, 0.05, 0.2])
@pytest.mark.parametrize("tied", [False, True])
def test_over_1000_calibrations_the_own_rate_is_above_the_promise_no_more_often_than_said(rate, tied):
    """The own rate of a threshold on normal scores is known exactly; rounded scores tie."""
    rng, runs, n = np.random.default_rng(3), 1000, 800
    scores = rng.normal(size=(runs, n))
    grid = 4 if tied else 0
    scores = np.round(scores * grid) / grid if tied else scores
    for confidence in (None, 0.9, 0.95):
        promise = Promise(rate, confidence)
        thresholds = np.array([one_group(row).thresholds(promise)[0] for row in scores])
        own = stats.norm.sf(thresholds + (0.5 / grid if tied else 0))
        above = (own > rate).sum()
        if confidence is not None:
            assert above <= stats.binom.ppf(0.999, runs, 1 - confidence)
        if not tied:  # then the law is exact, and nothing is given away
            assert stats.binomtest(int(above), runs, promise.exceeded(n)).pvalue > 1e-3
            assert abs(own.mean() - promise.own_rate(n).value) < 4 * own.std() / np.sqrt(runs)
        assert own.mean() <= rate + 4 * own.std() / np.sqrt(runs)


@pytest.mark.parametrize("confidence", [0.0, 1.0, -1.0, 2.0, float("nan")])
def test_a_confidence_outside_0_to_1_is_refused(confidence):
    with pytest.raises(SoftscopeError, match="confidence is"):
        Promise(0.05, confidence)
