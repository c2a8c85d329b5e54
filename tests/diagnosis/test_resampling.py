"""AUROCs of resamples against scikit-learn's with weights, and the coverage of the intervals they give."""

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.metrics import roc_auc_score

from softscope.diagnosis.resampling import (
    Contest,
    bootstrap_interval,
    complement,
    independent_mean,
    mean_of,
    resampled,
    value_of,
    widened,
)
from softscope.metrics import Interval


def _sklearn(test, ood, low, high, weights_low=None, weights_high=None) -> float:
    truth = np.repeat([0, 1], [len(low), len(high)])
    weights = None if weights_low is None else np.concatenate([weights_low[low], weights_high[high]])
    return roc_auc_score(truth, np.concatenate([test[low], ood[high]]), sample_weight=weights)


@pytest.mark.parametrize("ties", [False, True])
def test_value_and_draws_agree_with_sklearn(rng, ties) -> None:
    test, ood = rng.normal(size=80), rng.normal(0.5, 1, size=50)
    if ties:
        test, ood = np.round(test), np.round(ood)
    low, high = np.sort(rng.choice(80, 40, replace=False)), np.sort(rng.choice(50, 30, replace=False))
    contest = Contest.of(test, ood, low, high)
    assert contest.value() == pytest.approx(_sklearn(test, ood, low, high), abs=1e-12)
    weights_low, weights_high = rng.integers(0, 4, (20, 80), np.uint8), rng.integers(0, 4, (20, 50), np.uint8)
    expected = [
        _sklearn(test, ood, low, high, ours.astype(float), theirs.astype(float))
        for ours, theirs in zip(weights_low, weights_high)
    ]
    assert contest.draws(weights_low, weights_high) == pytest.approx(expected, abs=1e-12)


def test_a_resample_without_rows_of_a_side_is_nan_and_does_not_count(rng) -> None:
    contest = Contest.of(rng.normal(size=5), rng.normal(size=5), np.arange(5), np.arange(5))
    weights = np.zeros((2, 5), np.uint8)
    weights[1] = 1
    draws = contest.draws(weights, np.ones((2, 5), np.uint8))
    assert np.isnan(draws[0])
    assert draws[1] == pytest.approx(contest.value())
    interval = bootstrap_interval(contest.value(), draws)
    assert interval.low == interval.high == contest.value()


def test_all_quantities_see_the_same_resample(rng) -> None:
    test, ood = rng.normal(size=60), rng.normal(size=60)
    everyone = np.arange(60)
    score, same = Contest.of(test, ood, everyone, everyone), Contest.of(3 * test + 1, 3 * ood + 1, everyone, everyone)
    draws = resampled({("a", "one"): (score,), ("a", "two"): (same,)}, 60, {"a": 60}, 50, seed=3)
    assert np.array_equal(draws["a", "one"], draws["a", "two"])
    assert draws["a", "one"].std() > 0
    again = resampled({("a", "one"): (score,)}, 60, {"a": 60}, 50, seed=3)
    assert np.array_equal(draws["a", "one"], again["a", "one"])


def test_several_contests_are_averaged(rng) -> None:
    test, ood = rng.normal(size=40), rng.normal(1, 1, size=40)
    halves = tuple(Contest.of(test, ood, part, part) for part in (np.arange(20), np.arange(20, 40)))
    assert value_of(halves) == pytest.approx(np.mean([half.value() for half in halves]))
    draws = resampled({("a", "halves"): halves}, 40, {"a": 40}, 200, seed=0)["a", "halves"]
    assert np.nanmean(draws) == pytest.approx(value_of(halves), abs=0.03)


def test_intervals_of_a_difference_hold_the_truth_about_95_times_in_100() -> None:
    """AUROC of x + noise against AUROC of x, both known in closed form: Phi(shift / sqrt(2 variance))."""
    shift, rows, trials = 1.0, 150, 200
    truth = norm.cdf(shift / np.sqrt(2.0)) - norm.cdf(shift / np.sqrt(2.0 * 1.5))
    held = 0
    everyone = np.arange(rows)
    for trial in range(trials):
        rng = np.random.default_rng(trial)
        test, ood = rng.normal(size=rows), rng.normal(shift, 1, rows)
        noisy = [side + np.sqrt(0.5) * rng.normal(size=rows) for side in (test, ood)]
        pairs = {
            ("a", "clean"): (Contest.of(test, ood, everyone, everyone),),
            ("a", "noisy"): (Contest.of(*noisy, everyone, everyone),),
        }
        draws = resampled(pairs, rows, {"a": rows}, 200, seed=trial)
        value = value_of(pairs["a", "clean"]) - value_of(pairs["a", "noisy"])
        held += bootstrap_interval(value, draws["a", "clean"] - draws["a", "noisy"]).contains(truth)
    # Binomial(200, 0.95) lies in 180..197 with probability 0.999.
    assert 178 <= held <= 198


def test_an_interval_is_widened_to_another_but_stays_a_share() -> None:
    assert widened(Interval(1.0, 1.0, 1.0), Interval(0.99, 0.96, 0.995)) == Interval(1.0, 0.97, 1.0)
    assert widened(Interval(0.5, 0.3, 0.9), Interval(0.5, 0.4, 0.6)) == Interval(0.5, 0.3, 0.9)
    assert widened(Interval(0.5, 0.45, 0.55), Interval(0.6, 0.6, 0.75)) == Interval(0.5, 0.45, 0.65)
    assert widened(Interval(0.9, 0.9, 0.9), Interval(0.5, 0.5, 0.7)) == Interval(0.9, 0.9, 1.0)
    assert complement(Interval(0.75, 0.5, 1.0)) == Interval(0.25, 0.0, 0.5)


def test_means_of_intervals() -> None:
    ends = [Interval(0.5, 0.4, 0.6), Interval(0.7, 0.5, 0.8)]
    together, apart = mean_of(ends), independent_mean(ends)
    assert (together.value, together.low, together.high) == pytest.approx((0.6, 0.45, 0.7))
    assert (apart.value, apart.low) == pytest.approx((0.6, 0.6 - np.hypot(0.1, 0.2) / 2))
