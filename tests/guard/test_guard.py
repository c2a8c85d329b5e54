"""`Guard`: what it promises holds, for every estimator; what can't be promised is refused."""

import re
import warnings

import numpy as np
import pytest
from scipy import stats

import softscope
from softscope.errors import SoftscopeError
from softscope.estimators import DEFAULT, ESTIMATORS, UNLABELLED_DEFAULT, Density, Estimator, Info, estimator
from softscope.features import FeatureSet
from softscope.guard import Guard
from softscope.head import Head
from softscope.metrics import discovery_bound

from .conftest import CLASSES, WIDTH, draw

# scores that are small where rows are far from anything known
BLIND_TO_DISTANCE = (
    "max",
    "entropy",
    "cool",
    "mental",
    "norm",
    "margin",
    "max-logit",
    "energy",
    "gen",
    "react",
    "scale",
    "ash-s",
    "she",
    "gradnorm",
    "kl-matching",
    "fdbd",
    "nci",
    "nnguide",
)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_every_estimator_gives_p_values_by_the_formula_and_alarms_at_the_rate(world, name):
    guard = Guard.fit(world.head, world.train, world.calibration, name, 0.1)
    fitted = estimator(name).fit(world.head, world.train)
    scores, calibration = fitted.uncertainty(world.fresh), fitted.uncertainty(world.calibration)
    np.testing.assert_array_equal(guard.uncertainty(world.fresh), scores)
    expected = (1 + (calibration >= scores[:, None]).sum(axis=1)) / 301
    np.testing.assert_array_equal(guard.p_values(world.fresh), expected)
    np.testing.assert_array_equal(guard.alarms(world.fresh), expected <= 0.1)
    np.testing.assert_array_equal(guard.alarms(world.fresh), scores > guard.thresholds[0])
    low, high = stats.betabinom(400, 30, 271).ppf([1e-4, 1 - 1e-4])
    assert low <= guard.alarms(world.fresh).sum() <= high
    if name not in BLIND_TO_DISTANCE:
        assert guard.alarms(world.strange).mean() > 0.5


def test_the_realised_rate_over_many_calibrations_lies_in_its_beta_binomial_band():
    """400 guards on fresh calibration rows, each asked about 100 fresh rows: the sum against its exact law."""
    rng = np.random.default_rng(0)
    head = Head(np.random.default_rng(4).normal(size=(CLASSES, WIDTH)))
    n, fresh, rate = 39, 100, 0.1
    law = stats.betabinom(fresh, 4, n + 1 - 4)
    alarms = np.array(
        [
            Guard.fit(head, None, FeatureSet(draw(rng, n)[0]), "max", rate).alarms(draw(rng, fresh)[0]).sum()
            for _ in range(400)
        ]
    )
    assert abs(alarms.mean() - law.mean()) < 4 * law.std() / 20
    assert abs(alarms.std() - law.std()) < 0.2 * law.std()
    assert (
        stats.ks_1samp(alarms + rng.uniform(size=400), lambda x: law.cdf(x - 1) + law.pmf(np.floor(x)) * (x % 1)).pvalue
        > 1e-3
    )


def test_per_class_the_rate_holds_among_the_rows_taken_for_each_class(world):
    rng = np.random.default_rng(1)
    head, (z, _) = world.head, draw(rng, 4000)
    z *= np.where(head.logits(z).argmax(axis=1) == 2, 1.6, 1.0).astype(np.float32)[:, None]  # one class spreads wider
    calibration, fresh = FeatureSet(z[:2000]), z[2000:]
    taken = head.logits(fresh).argmax(axis=1)
    pooled = Guard.fit(head, None, calibration, "norm", 0.1).alarms(fresh)
    each = Guard.fit(head, None, calibration, "norm", 0.1, per_class=True)
    spread = [pooled[taken == k].mean() for k in range(CLASSES)]
    assert max(spread) > 0.2  # what per_class is for
    scores, before = each.uncertainty(fresh), each.uncertainty(calibration)
    groups = head.logits(z[:2000]).argmax(axis=1)
    for k in range(CLASSES):
        n, rows = int((groups == k).sum()), taken == k
        expected = (1 + (before[groups == k] >= scores[rows, None]).sum(axis=1)) / (n + 1)
        np.testing.assert_array_equal(each.p_values(fresh)[rows], expected)
        number = int(0.1 * (n + 1))
        low, high = stats.betabinom(rows.sum(), number, n + 1 - number).ppf([1e-4, 1 - 1e-4])
        assert low <= each.alarms(fresh)[rows].sum() <= high
        assert each.thresholds[k] == np.sort(before[groups == k])[-number]


def test_discoveries_are_the_strange_rows_of_a_batch(world, guard):
    batch = np.concatenate([world.fresh[:60], world.strange[:40]])
    discovered = guard.discoveries(batch, 0.1)
    adjusted = stats.false_discovery_control(guard.p_values(batch))
    np.testing.assert_array_equal(discovered, adjusted <= 0.1)
    assert discovered[60:].all()
    assert discovered[:60].mean() < 0.25


def test_feature_sets_files_and_arrays_are_judged_alike(world, guard, tmp_path):
    FeatureSet(world.fresh).save(tmp_path / "z.safetensors")
    opened = FeatureSet.open(tmp_path / "z.safetensors")
    for z in (FeatureSet(world.fresh), opened, world.fresh.tolist()):
        np.testing.assert_allclose(guard.uncertainty(z), guard.uncertainty(world.fresh), rtol=1e-5)
    np.testing.assert_array_equal(guard.p_values(opened), guard.p_values(world.fresh))


def test_a_guard_is_fitted_on_arrays_like_on_feature_sets(world, guard):
    train = FeatureSet.of(world.train)
    again = Guard.fit(world.head, (train.array(), train.labels), FeatureSet.of(world.calibration).array(), "density")
    np.testing.assert_array_equal(again.p_values(world.fresh), guard.p_values(world.fresh))


def test_the_callers_estimator_is_copied_with_its_parameters_and_left_unfitted(world):
    own = Density(covariance="tied", ridge=1e-3)
    guard = Guard.fit(world.head, world.train, world.calibration, own)
    assert guard.estimator.params() == own.params()
    assert not hasattr(own, "head_")
    np.testing.assert_array_equal(
        guard.uncertainty(world.fresh), own.fit(world.head, world.train).uncertainty(world.fresh)
    )


def test_a_guard_says_what_it_is_and_promises(world, guard):
    assert repr(guard) == f"Guard({Density()!r}, 0.05 false alarms, calibrated on 300 rows)"
    said = guard.describe()
    assert (said["estimator"], said["classes"], said["features"], said["calibration_rows"]) == ("density", 4, 12, 300)
    assert said["groups"][0]["threshold"] == guard.thresholds[0]
    law = stats.beta(15, 286)
    assert said["groups"][0]["rate"] == pytest.approx(
        {"value": 15 / 301, "low": law.ppf(0.025), "high": law.ppf(0.975)}
    )
    each = Guard.fit(world.head, None, world.calibration, "max", 0.1, per_class=True)
    assert [group["class"] for group in each.describe()["groups"]] == ["cat", "dog", "hen", "<owl>"]
    assert sum(group["rows"] for group in each.describe()["groups"]) == 300
    assert "per class" in repr(each)


def test_with_confidence_the_threshold_is_higher_and_alarms_are_those_above_it(world, guard):
    sure = Guard.fit(world.head, world.train, world.calibration, "density", confidence=0.95)
    scores = sure.uncertainty(world.calibration)
    assert sure.thresholds[0] == np.sort(scores)[-9]
    assert stats.beta(9, 292).cdf(0.05) >= 0.95 > stats.beta(10, 291).cdf(0.05)
    np.testing.assert_array_equal(sure.alarms(world.fresh), sure.uncertainty(world.fresh) > sure.thresholds[0])
    np.testing.assert_array_equal(sure.p_values(world.fresh), guard.p_values(world.fresh))
    assert "0.05 false alarms with confidence 0.95" in repr(sure)


def test_the_spread_by_class_is_the_share_of_alarms_among_calibration_rows_of_each_class(world, guard):
    taken = world.head.logits(world.calibration.array()).argmax(axis=1)
    raised = guard.uncertainty(world.calibration) > guard.thresholds[0]
    assert raised.sum() == 14  # the 15th largest of 300 scores is the threshold
    for k, entry in enumerate(guard.describe()["spread"]):
        assert entry["class"] == world.head.classes[k]
        assert entry["rows"] == (taken == k).sum()
        assert entry["rate"]["value"] == raised[taken == k].mean()
    assert Guard.fit(world.head, None, world.calibration, "max", 0.1, per_class=True).describe()["spread"] == []


@pytest.mark.parametrize("single", [lambda z: z[0], lambda z: z[0].tolist(), lambda z: z[:1]])
def test_a_single_row_is_accepted(world, guard, single):
    np.testing.assert_allclose(guard.uncertainty(single(world.fresh)), guard.uncertainty(world.fresh)[:1], rtol=1e-5)
    assert guard.alarms(single(world.strange)).shape == (1,)


def test_a_single_row_of_another_width_is_refused_with_the_right_hint(guard):
    with pytest.raises(SoftscopeError, match=r"expected a matrix of rows x features, found shape \(5,\)\. .*z\[None\]"):
        guard.alarms(np.ones(5, np.float32))


def test_the_bound_on_discoveries_is_that_of_metrics(world, guard):
    batch = np.concatenate([world.fresh[:60], world.strange[:40]])
    bound = guard.discovery_bound(batch)
    expected = discovery_bound(guard.uncertainty(world.calibration), guard.uncertainty(batch))
    np.testing.assert_array_equal(bound.familiar, expected.familiar)
    flagged, known = bound.at(float(np.sort(guard.uncertainty(world.strange[:40]))[0]))
    assert flagged >= 40
    assert known < 10
    with pytest.raises(SoftscopeError, match="needs one threshold"):
        Guard.fit(world.head, None, world.calibration, "max", 0.1, per_class=True).discovery_bound(batch)


def test_the_package_offers_the_guard():
    assert softscope.Guard is Guard


# --- newer calibration rows


def test_a_recalibrated_guard_scores_as_before_and_knows_its_parent(world, guard, tmp_path):
    new = guard.recalibrate(world.fresh, false_alarms=0.1)
    np.testing.assert_array_equal(new.uncertainty(world.strange), guard.uncertainty(world.strange))
    assert new.thresholds[0] == np.sort(guard.uncertainty(world.fresh))[-40]
    assert (new.parent["sha256"], new.parent["calibration_rows"]) == (guard.sha256, 300)
    assert new.parent["thresholds"] == guard.thresholds.tolist()
    new.save(tmp_path / "g.safetensors")
    assert Guard.load(tmp_path / "g.safetensors").describe() == new.describe()
    assert new.recalibrate(world.calibration).parent["sha256"] == new.sha256
    assert guard.parent is None


def test_rows_that_raise_the_drift_alarm_are_refused_unless_told(world, guard):
    with pytest.raises(SoftscopeError, match=r"these rows are not like .* under no change.*drifted=True"):
        guard.recalibrate(world.strange)
    new = guard.recalibrate(world.strange, drifted=True)
    assert new.alarms(world.strange).mean() <= 0.05
    assert "under no change" in new.parent["drift"]


def test_recalibrating_keeps_the_promise_it_is_not_told_to_change(world):
    first = Guard.fit(world.head, None, world.calibration, "max", 0.1, confidence=0.9, per_class=True)
    new = first.recalibrate(world.fresh)
    assert (new.promise, new.per_class) == (first.promise, True)
    assert first.recalibrate(world.fresh, confidence=0.5).promise.confidence == 0.5


# --- what can't be promised


@pytest.mark.parametrize(("rate", "needed"), [(0.05, 19), (0.01, 99), (1 / 3, 2), (0.07, 14)])
def test_too_few_calibration_rows_are_refused_with_the_number_that_is_needed(world, rate, needed):
    enough = world.calibration.take(slice(needed))
    Guard.fit(world.head, None, enough, "max", rate)
    with pytest.raises(SoftscopeError, match=f"calibration: {needed - 1} calibration rows, .* needs at least {needed}"):
        Guard.fit(world.head, None, enough.take(slice(needed - 1)), "max", rate)


def test_a_class_with_too_few_calibration_rows_is_named(world):
    taken = world.head.logits(world.calibration.array()).argmax(axis=1)
    few = world.calibration.take(np.flatnonzero((taken != 3) | (np.cumsum(taken == 3) <= 5)))
    with pytest.raises(SoftscopeError, match=r"5 calibration rows are taken for class <owl>, .* needs at least 19\. "):
        Guard.fit(world.head, None, few, "max", per_class=True)
    none = world.calibration.take(np.flatnonzero(taken < 2))
    with pytest.raises(SoftscopeError, match=r"0 calibration rows are taken for class hen, .*\(and 1 more class"):
        Guard.fit(world.head, None, none, "max", per_class=True)


def test_discoveries_at_a_rate_too_small_for_the_calibration_are_refused(world, guard):
    with pytest.raises(SoftscopeError, match=r"300 calibration rows, a rate of 0\.003 needs at least 333"):
        guard.discoveries(world.fresh, 0.003)


@pytest.mark.parametrize("rate", [0, 1, -1, np.nan])
def test_a_rate_outside_0_to_1_is_refused(world, guard, rate):
    with pytest.raises(SoftscopeError, match="false_alarms is"):
        Guard.fit(world.head, world.train, world.calibration, false_alarms=rate)
    with pytest.raises(SoftscopeError, match="rate is"):
        guard.discoveries(world.fresh, rate)


def test_calibrating_on_the_training_rows_is_refused(world):
    for same in (world.train, FeatureSet(world.train.array()[::-1].astype(np.float64), name="turned")):
        with pytest.raises(SoftscopeError, match=r"600 of 600 calibration rows are rows of train\. Calibrate on"):
            Guard.fit(world.head, world.train, same, "max")
    part = FeatureSet(np.concatenate([world.train.array()[:200], world.fresh[:100]]), name="part")
    with pytest.raises(SoftscopeError, match="part: 200 of 300 calibration rows are rows of train"):
        Guard.fit(world.head, world.train, part, "max")


def test_a_few_training_rows_among_the_calibration_rows_are_warned_of(world):
    mixed = FeatureSet(np.concatenate([world.fresh, world.train.array()[:3]]), name="mixed")
    with pytest.warns(UserWarning, match="mixed: 3 of 403 calibration rows are rows of train"):
        Guard.fit(world.head, world.train, mixed, "max")


def test_equal_rows_without_a_mix_up_are_neither_refused_nor_warned_of(world):
    """All-zero rows are what a network makes of inputs that leave every unit off."""
    zeros = np.zeros((50, WIDTH), np.float32)
    train = FeatureSet(np.concatenate([world.train.array(), zeros]), name="train")
    known = FeatureSet(np.concatenate([world.fresh, -zeros]), name="calibration")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert Guard.fit(world.head, train, known, "max").p_values(world.fresh).min() > 0


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_bad_row_is_named(world, guard, bad):
    rows = world.fresh.copy()
    rows[123, 5] = bad
    for judge in (guard.uncertainty, guard.p_values, guard.alarms, lambda z: guard.discoveries(z, 0.1)):
        with pytest.raises(SoftscopeError, match=r"z.*row 123"):
            judge(rows)
    with pytest.raises(SoftscopeError, match=r"known.*row 123"):
        Guard.fit(world.head, world.train, FeatureSet(rows, name="known"))


class Failing(Estimator):
    """One that breaks the contract: not finite for rows beyond 1000."""

    info = Info("T0", "failing", "U", "u", ("head",))

    def _uncertainty(self, rows):
        return np.where(np.abs(rows).max(axis=1) > 1e3, np.nan, rows[:, 0])


@pytest.mark.parametrize(("name", "size"), [("max", 3e38), ("failing", 1e4)])
@pytest.mark.parametrize("per_class", [False, True])
def test_a_finite_row_without_a_finite_score_is_an_error_not_a_verdict(world, name, size, per_class):
    chosen = Failing() if name == "failing" else name
    guard = Guard.fit(world.head, None, world.calibration, chosen, 0.1, per_class=per_class)
    rows = world.fresh.copy()
    rows[7] = size
    with pytest.raises(SoftscopeError, match=r"row 7|from row 0"):
        guard.alarms(rows)


def test_a_row_whose_class_cannot_be_told_is_named_where_classes_count(world):
    rows = world.fresh.copy()
    rows[7] = 3e38
    assert not Guard.fit(world.head, None, world.calibration, "norm").alarms(rows)[7]
    guard = Guard.fit(world.head, None, world.calibration, "norm", 0.1, per_class=True)
    with pytest.raises(SoftscopeError, match="z: row 7 can't be scored"):
        guard.alarms(rows)


def test_features_of_another_network_are_refused(world, guard):
    other = FeatureSet(np.ones((30, 5), np.float32), name="other")
    for call in (
        lambda: guard.alarms(other),
        lambda: Guard.fit(world.head, world.train, other),
        lambda: Guard.fit(world.head, other, world.calibration, "max"),
    ):
        with pytest.raises(SoftscopeError, match="other: z: has 5 columns, the head expects 12"):
            call()


def test_what_the_estimator_needs_is_asked_for(world):
    with pytest.raises(SoftscopeError, match=f"{re.escape(DEFAULT)} needs training features"):
        Guard.fit(world.head, None, world.calibration)
    with pytest.raises(SoftscopeError, match="needs labels, train has none"):
        Guard.fit(world.head, world.train.array(), world.calibration, DEFAULT)
    with pytest.raises(SoftscopeError, match="no estimator is called 'nonsense'"):
        Guard.fit(world.head, None, world.calibration, "nonsense")


# --- where no score is chosen


def test_the_default_is_the_one_that_the_estimators_name(world):
    guard = Guard.fit(world.head, world.train, world.calibration)
    assert guard.estimator.info.name == DEFAULT
    named = Guard.fit(world.head, world.train, world.calibration, DEFAULT)
    np.testing.assert_array_equal(guard.uncertainty(world.fresh), named.uncertainty(world.fresh))


def test_the_default_keeps_its_promise_and_refuses_rows_that_hold_nan_or_inf(world):
    guard = Guard.fit(world.head, world.train, world.calibration, false_alarms=0.1)
    assert guard.alarms(world.calibration).mean() <= 0.1
    assert 0.04 < guard.alarms(world.fresh).mean() < 0.18
    for value in (np.nan, np.inf):
        bad = world.fresh[:3].copy()
        bad[1, 2] = value
        with pytest.raises(SoftscopeError, match="row 1 holds"):
            guard.alarms(bad)


def test_the_default_does_not_see_the_size_of_a_row_and_the_density_does(world):
    huge = 50 * world.fresh
    blind = Guard.fit(world.head, world.train, world.calibration)
    np.testing.assert_array_equal(blind.alarms(huge), blind.alarms(world.fresh))
    assert Guard.fit(world.head, world.train, world.calibration, "density").alarms(huge).all()


@pytest.mark.parametrize("train", ["no labels", "too few rows"])
def test_where_classes_have_no_spread_the_default_gives_way_and_says_so(world, train):
    rows = world.train.array()
    few = FeatureSet(rows[:6], np.arange(6) % 4, name="train")
    given, why = {"no labels": (rows, "have no labels"), "too few rows": (few, "fewer than 2 for each of 4 classes")}[
        train
    ]
    with pytest.warns(UserWarning, match=rf"mahalanobis\+\+: the training rows .*{why}; fdbd is used instead"):
        guard = Guard.fit(world.head, given, world.calibration, false_alarms=0.1)
    assert guard.estimator.info.name == UNLABELLED_DEFAULT
    assert guard.alarms(world.calibration).mean() <= 0.1
