"""Interval, shares and means."""

import json
import math

import numpy as np
import pytest
from scipy import stats

from softscope import SoftscopeError
from softscope.metrics import Interval, mean_interval, proportion


def test_an_interval_reads_well_in_every_number_format():
    interval = Interval(0.953, 0.941, 0.963)
    assert str(interval) == "0.953 [0.941, 0.963]"
    assert f"{interval:.1%}" == "95.3% [94.1%, 96.3%]"


def test_an_interval_contains_its_ends_and_nothing_outside():
    interval = Interval(0.5, 0.25, 0.75)
    assert interval.contains(0.25)
    assert interval.contains(0.75)
    assert not interval.contains(0.7500001)


@pytest.mark.parametrize("ends", [(0.1, 0.9), (-math.inf, 0.6), (-math.inf, math.inf)])
def test_an_interval_survives_strict_json(ends):
    interval = Interval(1 / 3, *ends)
    assert Interval.from_dict(json.loads(json.dumps(interval.to_dict(), allow_nan=False))) == interval


def test_numpy_numbers_become_plain_floats():
    interval = Interval(np.float64(0.5), np.float32(0.25), np.float64(1))
    assert {type(number) for number in (interval.value, interval.low, interval.high)} == {float}


@pytest.mark.parametrize("bad", [(0.5, 0.6, 0.7), (0.5, 0.1, 0.4), (math.nan, 0, 1), (0.5, math.nan, 1)])
def test_an_interval_that_leaves_out_its_value_is_refused(bad):
    with pytest.raises(SoftscopeError, match="low <= value <= high"):
        Interval(*bad)


@pytest.mark.parametrize("bad", [{}, {"value": 1, "low": "x", "high": 2}, {"value": None, "low": 0, "high": 1}])
def test_a_dictionary_that_is_no_interval_is_refused(bad):
    with pytest.raises(SoftscopeError, match="not an interval"):
        Interval.from_dict(bad)


@pytest.mark.parametrize(("successes", "rows"), [(0, 1), (0, 20), (1, 20), (13, 20), (20, 20), (999, 1000)])
def test_a_share_has_wilsons_interval(successes, rows):
    interval = proportion(successes, rows)
    expected = stats.binomtest(successes, rows).proportion_ci(method="wilson")
    assert interval.value == successes / rows
    assert (interval.low, interval.high) == pytest.approx((expected.low, expected.high), abs=1e-12)


@pytest.mark.parametrize(("successes", "rows"), [(0, 0), (3, 2), (-1, 5)])
def test_a_share_of_nothing_is_refused(successes, rows):
    with pytest.raises(SoftscopeError, match="not a share"):
        proportion(successes, rows)


def test_a_mean_has_students_interval():
    values = np.random.default_rng(0).exponential(size=9)
    interval = mean_interval(values)
    low, high = stats.t.interval(0.95, 8, values.mean(), stats.sem(values))
    assert (interval.value, interval.low, interval.high) == pytest.approx((values.mean(), low, high))


def test_a_mean_of_one_value_has_no_bounds():
    assert mean_interval(np.array([0.25])) == Interval(0.25, -math.inf, math.inf)


def test_a_mean_of_nan_is_refused():
    with pytest.raises(SoftscopeError, match="row 1 holds nan"):
        mean_interval(np.array([0.0, np.nan]))
