"""Calibration error, risk and classes where the truth is known."""

import numpy as np
import pytest

from softscope.diagnosis.details import by_class, expected_error, reliability, risk_curve
from softscope.diagnosis.model import ReliabilityBin
from softscope.geometry import valid_threshold
from softscope.metrics import Interval

from .made import made_scored


def _test_set(rng, rows: int, gap: float):
    """Two classes, confidence uniform in [.6, .9], right with probability confidence - gap."""
    sure = rng.uniform(0.6, 0.9, rows)
    labels = rng.integers(0, 2, rows)
    right = rng.random(rows) < sure - gap
    odds = np.log((1 - sure) / sure)
    return made_scored({"plain-max": -sure}, labels=labels, predicted=np.where(right, labels, 1 - labels), odds=odds)


@pytest.mark.parametrize("rows", [200, 2000])
@pytest.mark.parametrize("gap", [0.0, 0.1])
def test_the_interval_of_the_calibration_error_covers_the_truth(rows, gap) -> None:
    """The error of a network that is `gap` too sure everywhere is `gap`."""
    covered = sum(
        reliability(_test_set(np.random.default_rng(seed), rows, gap), seed).error.contains(gap) for seed in range(60)
    )
    assert covered >= 56


def test_the_error_is_the_mean_distance_of_accuracy_and_confidence() -> None:
    bins = (ReliabilityBin(0.9, Interval(0.5, 0, 1), 30), ReliabilityBin(0.6, Interval(0.7, 0, 1), 10))
    assert expected_error(bins, 0).value == pytest.approx((30 * 0.4 + 10 * 0.1) / 40)


def test_bins_hold_every_input_once_by_rising_confidence(rng) -> None:
    calibration = reliability(_test_set(rng, 101, 0.0), 0)
    assert sum(one.rows for one in calibration.bins) == 101
    assert [one.confidence for one in calibration.bins] == sorted(one.confidence for one in calibration.bins)


def test_risk_is_the_share_of_mistakes_among_the_surest() -> None:
    scored = made_scored(
        {"plain-max": np.zeros(4)}, labels=np.array([0, 0, 0, 0]), predicted=np.array([0, 0, 1, 1]),
        odds=np.array([-4.0, -3.0, -2.0, -1.0]),
    )  # fmt: skip
    curve = risk_curve(scored)
    assert curve.coverage == (0.25, 0.5, 0.75, 1.0)
    assert curve.risk == pytest.approx((0, 0, 1 / 3, 1 / 2), abs=1e-6)


def test_classes_have_their_own_accuracy_and_false_alarms() -> None:
    """40 inputs of two classes; at 5 % a few may be flagged, the least sure, all of class 1."""
    sure = np.linspace(0.99, 0.6, 40)
    labels = np.repeat([0, 1], 20)
    predicted = labels.copy()
    predicted[:6] = 1
    test = made_scored({"plain-max": -sure}, labels=labels, predicted=predicted, odds=np.log((1 - sure) / sure))
    ood = made_scored({"plain-max": np.array([-0.9, -0.1])}, predicted=np.array([1, 0]))
    first, second = by_class(test, {"ood": ood}, 3, None)
    assert (first.number, first.rows, first.accuracy.value) == (0, 20, 0.7)
    assert first.false_alarms["plain-max"].value == 0.0
    limit = valid_threshold(-sure, 0.05)
    assert second.false_alarms["plain-max"].value == (-sure > limit).sum() / 20 > 0
    assert second.confidence == pytest.approx(sure[20:].mean())
    assert (first.let_through, second.let_through) == (0, 1)


def test_without_labels_there_is_nothing_to_say() -> None:
    scored = made_scored({"plain-max": np.zeros(5)})
    assert reliability(scored, 0) is None
    assert risk_curve(scored) is None
    assert by_class(scored, {}, 2, None) == ()
