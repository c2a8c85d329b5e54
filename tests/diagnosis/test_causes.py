"""The causes against scikit-learn's AUROCs by hand, and each cause made on purpose."""

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from softscope.diagnosis import diagnose
from softscope.diagnosis.causes import measure
from softscope.diagnosis.model import Causes
from softscope.estimators import estimator
from softscope.features import FeatureSet
from softscope.geometry import optimal_structure
from softscope.head import Head

from .made import made_scored

NAMES = ("plain-max", "plain-entropy", "max", "entropy", "cool", "density")
QUICK = {"bootstraps": 100, "estimators": ("max",)}


def _auroc(test, ood) -> float:
    return roc_auc_score(np.repeat([0, 1], [len(test), len(ood)]), np.concatenate([test, ood]))


def _made(rng, labelled: bool = True):
    """Test and two OOD sets with scores of differing quality, balanced already."""
    rows = 120
    labels = rng.integers(0, 3, rows)
    predicted = np.where(rng.random(rows) < 0.1, (labels + 1) % 3, labels)
    probability = np.where(predicted == labels, rng.uniform(0.4, 1, rows), rng.uniform(0, 0.4, rows))
    known = {"labels": labels, "predicted": predicted, "true_probability": probability} if labelled else {}
    unclear = (predicted != labels) | (probability < 0.5)
    test = made_scored({name: rng.normal(size=rows) + 1.5 * unclear for name in NAMES}, **known)
    ood = {
        name: made_scored({score: rng.normal(place + lift, 1, rows) for place, score in enumerate(NAMES)})
        for name, lift in (("near", -2.5), ("far", -1.0))
    }
    return test, ood, unclear


def test_causes_are_differences_of_sklearns_aurocs(rng) -> None:
    test, ood, unclear = _made(rng)
    measured = measure(test, ood, 0, 50, lambda what: None)
    by_hand = {name: {key: _auroc(test.values[key], one.values[key]) for key in NAMES} for name, one in ood.items()}
    for name, causes in measured.causes.items():
        b, e, c, d = (by_hand[name][key] for key in ("plain-entropy", "entropy", "cool", "density"))
        assert causes.saturation.value == pytest.approx(c - b, abs=1e-12)
        assert causes.rounding.value == pytest.approx(e - b, abs=1e-12)
        assert causes.temperature.value == pytest.approx(c - e, abs=1e-12)
        assert causes.extrapolation.value == pytest.approx(d - c, abs=1e-12)
        assert causes.overlap.value == pytest.approx(1 - d, abs=1e-12)
        clear = {key: _auroc(test.values[key][~unclear], ood[name].values[key]) for key in ("cool", "density")}
        assert causes.extrapolation_proper is not None
        assert causes.ambiguity is not None
        assert causes.extrapolation_proper.value == pytest.approx(clear["density"] - clear["cool"], abs=1e-12)
        assert causes.ambiguity.value == pytest.approx((d - c) - (clear["density"] - clear["cool"]), abs=1e-12)
    mean = np.mean([by_hand[name]["density"] - by_hand[name]["cool"] for name in ood])
    assert measured.mean_causes.extrapolation.value == pytest.approx(mean, abs=1e-12)


def _sum(causes: Causes) -> float:
    return sum(part.value for part in (causes.entropy, causes.saturation, causes.extrapolation, causes.overlap))


def test_parts_add_up_to_causes_and_causes_to_one(rng) -> None:
    test, ood, _ = _made(rng)
    measured = measure(test, ood, 0, 50, lambda what: None)
    for causes in (*measured.causes.values(), measured.mean_causes):
        assert _sum(causes) == pytest.approx(1.0)
        assert causes.rounding.value + causes.temperature.value == pytest.approx(causes.saturation.value)
        assert causes.misfit.value + causes.overlap_proper.value == pytest.approx(causes.overlap.value)
        assert causes.extrapolation_proper.value + causes.ambiguity.value == pytest.approx(causes.extrapolation.value)
        assert causes.ceiling.value >= causes.density.value
        assert causes.misfit.low >= 0


def test_leaving_out_test_inputs_at_random_changes_no_cause_on_average(rng) -> None:
    """Why cause 2b needs no random draws: their average is the value with all inputs."""
    test, ood, unclear = _made(rng)
    c, d = (ood["near"].values[key] for key in ("cool", "density"))
    whole = _auroc(test.values["density"], d) - _auroc(test.values["cool"], c)
    drawn = []
    for _ in range(150):
        kept = rng.permutation(len(unclear))[unclear.sum() :]
        drawn.append(_auroc(test.values["density"][kept], d) - _auroc(test.values["cool"][kept], c))
    assert np.mean(drawn) == pytest.approx(whole, abs=4 * np.std(drawn) / np.sqrt(len(drawn)))


def test_without_test_labels_cause_2_is_not_split_and_the_reason_is_given(rng) -> None:
    test, ood, _ = _made(rng, labelled=False)
    measured = measure(test, ood, 0, 50, lambda what: None)
    assert test.seen.ambiguous is None
    assert measured.causes["near"].ambiguity is None
    assert measured.mean_causes.extrapolation_proper is None
    assert "no labels" in measured.ambiguity_missing
    assert measured.mistakes == {}


def test_a_test_set_that_is_all_ambiguous_gives_a_reason(rng) -> None:
    test, ood, _ = _made(rng)
    test.seen.true_probability[:] = 0.1
    measured = measure(test, ood, 0, 50, lambda what: None)
    assert measured.causes["near"].ambiguity is None
    assert "every test input" in measured.ambiguity_missing


def test_balanced_rows_are_used_where_sets_differ_in_size(rng) -> None:
    test = made_scored({name: rng.normal(size=500) for name in NAMES})
    ood = {"few": made_scored({name: rng.normal(1, 1, 100) for name in NAMES})}
    measured = measure(test, ood, 7, 50, lambda what: None)
    low, high = measured.pairs["few"].low, measured.pairs["few"].high
    assert len(low) == len(high) == 100
    assert measured.causes["few"].density.value == pytest.approx(
        _auroc(test.values["density"][low], ood["few"].values["density"]), abs=1e-12
    )


def _classes(head: Head, rows: int, seed: int, size: float = 1.0, spread: float = 0.1) -> FeatureSet:
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, head.n_classes, rows)
    z = size * (head.weight[labels] / head.weight_norms[0] + spread * rng.standard_normal((rows, head.n_features)))
    return FeatureSet(z.astype(np.float32), labels, name=f"seed {seed}")


def test_saturation_on_purpose_shows_as_rounding() -> None:
    """Logits so large that float32 prints a confidence of 1 for all test and most OOD inputs, OOD a little weaker."""
    head = Head(optimal_structure(3, 8, norm=10.0, seed=0).weight.astype(np.float32))
    test, ood = _classes(head, 500, 2, size=30.0), _classes(head, 500, 3, size=20.0)
    diagnosis = diagnose(head, _classes(head, 500, 1, size=30.0), test, {"weaker": ood}, **QUICK)
    causes = diagnosis.causes["weaker"]
    assert causes.entropy.value < 0.6
    assert causes.rounding.low > 0.4
    assert abs(causes.temperature.value) < 0.05
    assert any("float32" in finding.what for finding in diagnosis.self_check)
    counts = diagnosis.inputs["weaker"].counts
    assert counts["R"] > 0.9 * sum(counts.values())


def test_extrapolation_on_purpose_shows_as_cause_2a() -> None:
    """OOD twice as far out along the class weights: more confident than any training input, but no density there."""
    head = Head(optimal_structure(3, 8, norm=3.0, seed=0).weight.astype(np.float32))
    beyond = _classes(head, 500, 3, size=2.0, spread=0.05)
    diagnosis = diagnose(head, _classes(head, 1000, 1), _classes(head, 500, 2), {"beyond": beyond}, **QUICK)
    causes = diagnosis.causes["beyond"]
    assert causes.entropy.value < 0.1
    assert causes.extrapolation.low > 0.8
    assert causes.extrapolation_proper is not None
    assert causes.extrapolation_proper.low > 0.8
    assert causes.overlap.high < 0.05
    assert diagnosis.inputs["beyond"].counts["X"] > 450
    assert diagnosis.advice.verdict == "do not trust"
    assert diagnosis.advice.recommended == "density"


def test_ambiguity_on_purpose_shows_as_cause_2b() -> None:
    """A third of test inputs belongs to no class more than another, as OOD inputs near the origin; densities know."""
    head = Head(optimal_structure(3, 8, norm=5.0).weight.astype(np.float32))

    def mixed(rows: int, seed: int) -> FeatureSet:
        rng = np.random.default_rng(seed)
        clear = _classes(head, rows, seed)
        # Off the plane of the weights: a tight cloud of its own that softmax can't tell from the origin.
        between = 0.05 * rng.standard_normal((rows, 8)) + np.eye(8)[7]
        z = np.where(rng.random((rows, 1)) < 0.34, between, clear.array())
        return FeatureSet(z.astype(np.float32), clear.labels, name=f"mixed {seed}")

    ood = FeatureSet(0.05 * np.random.default_rng(9).standard_normal((600, 8)).astype(np.float32), name="origin")
    diagnosis = diagnose(head, mixed(2000, 1), mixed(600, 2), {"origin": ood}, **QUICK)
    causes = diagnosis.causes["origin"]
    assert causes.ambiguity is not None
    assert causes.extrapolation_proper is not None
    assert causes.ambiguity.low > 0.1
    assert causes.extrapolation_proper.high < 0.05


def test_ood_from_the_same_distribution_shows_as_overlap_proper() -> None:
    head = Head(optimal_structure(3, 8, norm=3.0, seed=0).weight.astype(np.float32))
    same = _classes(head, 1000, 3)
    diagnosis = diagnose(head, _classes(head, 1000, 1), _classes(head, 1000, 2), {"same": same}, **QUICK)
    causes = diagnosis.causes["same"]
    assert causes.overlap.contains(0.5)
    assert causes.overlap_proper.value > 0.4
    assert causes.overlap_proper.high >= 0.5  # at most so much: the truth is .5
    assert causes.misfit.value < 0.05
    assert diagnosis.inputs["same"].counts["O"] > 700
    assert diagnosis.advice.recommended is None


def test_cool_is_of_the_temperature_asked_for() -> None:
    head = Head(optimal_structure(3, 8, norm=3.0, seed=0).weight.astype(np.float32))
    train, test = _classes(head, 600, 1), _classes(head, 300, 2, spread=0.6)
    ood = FeatureSet(0.6 * np.random.default_rng(5).standard_normal((300, 8)), name="noise")
    diagnosis = diagnose(
        head, train, test, {"noise": ood}, bootstraps=20, estimators=(estimator("cool", temperature=50.0),)
    )
    hot = estimator("cool", temperature=50.0).fit(head)
    assert diagnosis.causes["noise"].cool.value == pytest.approx(
        _auroc(hot.uncertainty(test.array()), hot.uncertainty(ood.array())), abs=1e-12
    )
    assert diagnosis.settings["estimators"]["cool"] == "Cool(temperature=50.0)"
