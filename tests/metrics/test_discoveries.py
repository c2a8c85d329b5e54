"""The bound on familiar rows among the flagged, against every order of few scores and against many draws."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from softscope.errors import SoftscopeError
from softscope.metrics import discovery_bound, known_envelope
from softscope.metrics.compiled import exceeding


def exceeded(bounds, calibrated, fresh):
    """P(some k has more than bounds[k-1] fresh scores above the k-th largest calibration score), order by order."""
    orders = list(combinations(range(calibrated + fresh), calibrated))
    bad = sum(any(place - k > bounds[k] for k, place in enumerate(order)) for order in orders)
    return bad / len(orders)


@given(st.integers(1, 6), st.integers(1, 6), st.data())
def test_the_probability_of_exceeding_is_that_over_all_orders(calibrated, fresh, data):
    bounds = np.sort(data.draw(st.lists(st.integers(0, fresh), min_size=calibrated, max_size=calibrated)))
    np.testing.assert_allclose(exceeding(bounds, calibrated, fresh), exceeded(bounds, calibrated, fresh), atol=1e-12)


def test_one_bound_alone_is_exceeded_as_often_as_the_negative_hypergeometric_says():
    for k in (1, 7, 30):
        bounds = np.full(100, 50)
        bounds[:k] = 12
        np.testing.assert_allclose(
            exceeding(bounds, 100, 50), stats.hypergeom.cdf(k - 1, 150, 100, 12 + k), rtol=1e-9, err_msg=str(k)
        )


@pytest.mark.parametrize(("calibrated", "fresh"), [(1, 1), (30, 1), (19, 40), (500, 200), (2000, 5000)])
@pytest.mark.parametrize("confidence", [0.5, 0.95, 0.999])
def test_an_envelope_is_exceeded_with_at_most_the_probability_asked_for(calibrated, fresh, confidence):
    envelope = known_envelope(calibrated, fresh, confidence)
    assert (np.diff(envelope) >= 0).all()
    assert envelope.max() <= fresh
    probability = exceeding(envelope, calibrated, fresh)
    assert probability <= 1 - confidence
    if calibrated > 100:
        assert probability > 0.9 * (1 - confidence)


def test_with_many_fresh_scores_the_envelope_bounds_the_rate_at_every_threshold():
    """At a threshold chosen afterwards 5 % of 10,000 calibration rows stand for at most about 6 % of known inputs."""
    share = known_envelope(10_000, 10_000)[499] / 10_000
    assert 0.055 < share < 0.065


def by_definition(known, batch, envelope):
    """V(t) for each threshold, from the formula in the docstring."""
    bounds, before = [], []
    for t in sorted(set(batch), reverse=True):
        flagged = int((batch >= t).sum())
        reached = int((known >= t).sum())
        bound = min([flagged, envelope[reached] if reached < len(envelope) else len(batch)])
        bound = min([bound, *(v + flagged - r for r, v in before)])
        bounds.append((t, flagged, bound))
        before.append((flagged, bound))
    return bounds


@given(st.lists(st.integers(0, 9), min_size=1, max_size=25), st.lists(st.integers(3, 14), min_size=1, max_size=25))
def test_the_bound_is_its_formula_ties_included(known, batch):
    known, batch = np.array(known, float), np.array(batch, float)
    bound = discovery_bound(known, batch, 0.9)
    expected = by_definition(known, batch, known_envelope(len(known), len(batch), 0.9))
    assert list(zip(bound.thresholds, bound.flagged, bound.familiar)) == expected
    assert bound.at(99.0) == (0, 0)
    assert bound.at(float(bound.thresholds[-1]) - 1) == tuple(expected[-1][1:])
    t, flagged, familiar = expected[len(expected) // 2]
    assert bound.at(t) == (flagged, familiar)
    np.testing.assert_allclose(bound.share, bound.familiar / bound.flagged)


@pytest.mark.parametrize("confidence", [0.9, 0.95, 0.99])
def test_over_1000_calibrations_no_threshold_breaks_the_bound_more_often_than_promised(confidence):
    """150 known and 50 other rows; broken if at any threshold more known rows are flagged than the bound says."""
    rng, broken, runs = np.random.default_rng(7), 0, 1000
    envelope = known_envelope(400, 200, confidence)
    bounded = []
    for _ in range(runs):
        known, fresh, others = rng.normal(size=400), rng.normal(size=150), rng.normal(3, 1, 50)
        bound = discovery_bound(known, np.concatenate([fresh, others]), confidence)
        truly = (fresh[None, :] >= bound.thresholds[:, None]).sum(axis=1)
        broken += bool((truly > bound.familiar).any())
        bounded.append(bound.at(1.5)[1])
    assert broken <= stats.binom.ppf(0.999, runs, 1 - confidence)
    assert np.mean(bounded) < envelope[int(400 * stats.norm.sf(1.5))] + 20


@pytest.mark.parametrize("confidence", [0.0, 1.0, -1, 2])
def test_a_confidence_that_is_none_is_refused(confidence):
    with pytest.raises(SoftscopeError, match="confidence is"):
        discovery_bound([1.0, 2.0], [3.0], confidence)
