"""Without OOD data: classes left out and fitted again, on one scale with test, and what is said of them."""

from functools import cache

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from softscope.diagnosis import Diagnosis, diagnose
from softscope.diagnosis.held_out import placed_on, refit
from softscope.errors import SoftscopeError
from softscope.features import FeatureSet

from .example import class_features, example_head, ood_features


@cache
def _without_ood() -> Diagnosis:
    return diagnose(
        example_head(),
        class_features(600, 1, name="train"),
        class_features(400, 2, name="test"),
        probes={"noise": ood_features("far", 200, 3)},
        bootstraps=50,
        estimators=("max",),
        keep_scores=True,
    )


def test_every_class_is_left_out_once_and_probes_are_sets_of_their_own() -> None:
    diagnosis = _without_ood()
    assert list(diagnosis.ood) == ["noise", "held-out classes 1", "held-out classes 2", "held-out classes 3"]
    assert diagnosis.stands_in
    assert diagnosis.ood["noise"].stand_in == "random pixels"
    named = " ".join(one.stand_in for one in diagnosis.ood.values())
    assert all(named.count(name) == 1 for name in diagnosis.classes)
    assert sum(one.rows for name, one in diagnosis.ood.items() if name.startswith("held-out")) == diagnosis.test.rows


def test_stand_ins_are_told_apart_and_no_input_is_on_both_sides() -> None:
    """The density of the other classes knows that a class left out is far; the ceiling can't be below it."""
    diagnosis = _without_ood()
    for name in list(diagnosis.ood)[1:]:
        assert diagnosis.scores[name]["density"].auroc.value > 0.95
        assert diagnosis.causes[name].ceiling.value >= diagnosis.scores[name]["density"].auroc.value
    assert diagnosis == Diagnosis.from_json(diagnosis.to_json())


def test_three_lines_say_what_stand_ins_can_and_cannot_say() -> None:
    lines = [sentence.text for sentence in _without_ood().advice.sentences if sentence.about == "stand-ins"]
    assert len(lines) == 3
    assert "Optimistic: the network has seen them" in lines[0]
    assert "noise" in lines[1]
    assert "--ood" in lines[2]


def test_stand_ins_can_refute_confidence_but_not_confirm_it() -> None:
    far = FeatureSet(ood_features("weak", 300, 3).array() * 0.01)
    diagnosis = diagnose(
        example_head(), class_features(600, 1, spread=0.1), class_features(400, 2, spread=0.1).array(),
        probes={"weak": far}, bootstraps=50, estimators=("max",),
    )  # fmt: skip
    assert diagnosis.advice.verdicts == {"weak": "trust"}
    assert diagnosis.advice.verdict == "undecided"
    assert diagnosis.advice.headline.startswith("Without OOD data nobody can say")
    assert diagnosis.advice.basis != "chosen"


def test_placing_scores_on_another_scale_keeps_the_auroc(rng) -> None:
    familiar, scores = rng.normal(size=300), rng.normal(1, 1, 200)
    scale = np.exp(rng.normal(size=300))
    truth = np.repeat([0, 1], [300, 200])
    moved = placed_on(scale, familiar, scores)
    expected = roc_auc_score(truth, np.concatenate([familiar, scores]))
    assert roc_auc_score(truth, np.concatenate([scale, moved])) == pytest.approx(expected, abs=1e-12)
    ends = placed_on(scale, familiar, np.array([-99.0, 99.0]))
    assert ends[0] < scale.min()
    assert ends[1] > scale.max()


@pytest.mark.parametrize("kept", [2, 3])
def test_a_head_fitted_again_is_right_about_its_classes(kept) -> None:
    train = class_features(600, 1, spread=0.1)
    rows = np.flatnonzero(train.labels < kept)
    own = train.take(rows)
    head = refit(own, [str(number) for number in range(kept)])
    assert (head.logits(own.array()).argmax(axis=1) == own.labels).mean() > 0.93


def test_nothing_stands_in_without_test_labels_and_probes() -> None:
    train, test = class_features(100, 1), class_features(50, 2).array()
    with pytest.raises(SoftscopeError, match="no OOD set was given, and nothing can stand in for it"):
        diagnose(example_head(), train, test, bootstraps=20, estimators=("max",))
    with pytest.raises(SoftscopeError, match="probes: they stand in for OOD data, but an OOD set was given"):
        diagnose(example_head(), train, test, {"a": test}, probes={"b": test})
