"""Verdicts at their documented borders, recommendations that chance can't make, and sample sizes."""

from dataclasses import fields, replace

import numpy as np
import pytest

from softscope.diagnosis import diagnose
from softscope.diagnosis.advice import Facts, advise, rows_to_settle
from softscope.diagnosis.model import Causes, EstimatorLabel, Finding, Score, SetSummary
from softscope.features import FeatureSet
from softscope.geometry import optimal_structure
from softscope.head import Head
from softscope.metrics import Interval

from .example import example


def _around(value: float, half: float = 0.01) -> Interval:
    return Interval(value, max(0.0, value - half), min(1.0, value + half))


def _score(auroc: float = 0.9, missed: Interval | None = None, gain: Interval | None = None) -> Score:
    missed = missed or _around(0.3)
    gain = gain or Interval(0, 0, 0)
    return Score(_around(auroc), _around(auroc), _around(0.3), missed, gain, 0.5, gain)


CAUSES = Causes(*[_around(0.05)] * 7, None, None, *[_around(0.05)] * 4)
LABELS = {
    "plain-max": EstimatorLabel("U_max in float32", "", ("head",), ""),
    "cool": EstimatorLabel("U_cool", "", ("head",), ""),
    "density": EstimatorLabel("U_density", "", ("train",), ""),
    "knn": EstimatorLabel("U_knn", "", ("train",), ""),
}


def _facts(missed: dict[str, Interval], others: dict[str, Score] | None = None, **changes) -> Facts:
    scores = {name: {"plain-max": _score(missed=share), **(others or {})} for name, share in missed.items()}
    sets = {name: SetSummary(name, "ood", 500, None, "", None, 0.5) for name in missed}
    test = SetSummary("test", "test", 400, None, "", _around(0.9), 0.9)
    facts = Facts(LABELS, test, sets, scores, next(iter(scores.values())), dict.fromkeys(missed, CAUSES), CAUSES, {})
    return replace(facts, **changes)


@pytest.mark.parametrize(
    ("missed", "verdict"),
    [
        (Interval(0.05, 0.02, 0.10), "trust"),
        (Interval(0.05, 0.02, 0.11), "undecided"),
        (Interval(0.3, 0.11, 0.5), "caution"),
        (Interval(0.4, 0.3, 0.51), "undecided"),
        (Interval(0.6, 0.51, 0.7), "do not trust"),
        (Interval(0.3, 0.05, 0.7), "undecided"),
    ],
)
def test_the_verdict_follows_the_share_let_through(missed, verdict) -> None:
    advice = advise(_facts({"svhn": missed}))
    assert advice.verdict == verdict
    assert advice.verdicts == {"svhn": verdict}
    assert f"{100 * missed.value:.1f} % [{100 * missed.low:.1f}, " in advice.headline
    assert "svhn" in advice.headline


def test_what_is_certain_is_said_where_only_the_upper_border_is_crossed() -> None:
    certain = advise(_facts({"svhn": Interval(0.485, 0.463, 0.509), "a": Interval(0.01, 0, 0.02)}))
    assert certain.verdict == "undecided"
    assert certain.headline.startswith("At best use softmax confidence with caution here: it lets through 48.5 %")
    assert advise(_facts({"svhn": Interval(0.05, 0.02, 0.11)})).headline.startswith("Too few inputs to say")
    assert advise(_facts({"svhn": Interval(0.3, 0.05, 0.7)})).headline.startswith("Too few inputs to say")


def test_the_worst_set_decides_also_where_another_is_undecided() -> None:
    unsure, bad = Interval(0.1, 0.05, 0.2), Interval(0.8, 0.7, 0.9)
    assert advise(_facts({"a": unsure, "b": bad})).verdict == "do not trust"
    assert advise(_facts({"a": unsure, "b": Interval(0.3, 0.2, 0.4)})).verdict == "caution"
    assert advise(_facts({"a": unsure, "b": Interval(0.01, 0, 0.02)})).verdict == "undecided"


def test_the_best_of_many_useless_scores_is_recommended_rarely() -> None:
    """OOD drawn as test is: no estimator can be better, and in 8 draws at most one may look so."""
    head = Head(optimal_structure(3, 6, norm=3.0).weight.astype(np.float32))

    def drawn(rows: int, seed: int) -> FeatureSet:
        rng = np.random.default_rng(seed)
        labels = rng.integers(0, 3, rows)
        return FeatureSet(head.weight[labels] / 3 + 0.3 * rng.standard_normal((rows, 6)), labels, name=str(seed))

    train = drawn(500, 0)
    names = ("norm", "familiarity", "energy", "mahalanobis", "gen")
    choices = [
        diagnose(head, train, drawn(150, 2 * s + 1), {"same": drawn(150, 2 * s + 2)}, bootstraps=20, estimators=names)
        for s in range(8)
    ]
    assert sum(one.advice.recommended is not None for one in choices) <= 1


def test_rows_to_settle_grow_with_the_square_of_the_width() -> None:
    assert rows_to_settle(Interval(0.3, 0.2, 0.4), 100) == 100
    # Half width 0.1 above 0.05 must shrink to 0.05: four times the rows.
    assert rows_to_settle(Interval(0.05, 0.0, 0.15), 100) == 400
    assert rows_to_settle(Interval(0.1, 0.05, 0.15), 100) is None
    assert rows_to_settle(Interval(0.0999999, 0.05, 0.15), 100) is None


def test_an_undecided_case_says_how_many_inputs_would_settle_it() -> None:
    advice = advise(_facts({"svhn": Interval(0.05, 0.0, 0.15)}))
    (sentence,) = (one for one in advice.sentences if one.about == "samples")
    assert "about 1,600 test inputs and as many of svhn would settle it" in sentence.text
    assert sentence.ood == "svhn"


def test_a_score_that_does_clear_harm_to_one_set_is_not_recommended() -> None:
    facts = _facts(dict.fromkeys(("svhn", "noise", "mnist"), Interval(0.3, 0.2, 0.4)))
    good, bad = _score(0.95, gain=Interval(0.05, 0.04, 0.06)), _score(0.85, gain=Interval(-0.05, -0.06, -0.04))
    scores = {name: {**own, "density": bad if name == "noise" else good} for name, own in facts.scores.items()}
    mean = {**facts.mean_scores, "density": good}
    advice = advise(replace(facts, scores=scores, mean_scores=mean))
    assert advice.recommended is None
    assert advice.basis == "keep"


def test_calibration_is_not_advised_where_the_self_check_blames_the_labels() -> None:
    test = SetSummary("test", "test", 400, None, "", _around(0.1), 0.95)
    blamed = Finding("warning", "train: the head is right for 1.0%, but for 99.0% if classes are renumbered", "")
    for findings, advised in (((), True), ((blamed,), False)):
        advice = advise(_facts({"svhn": Interval(0.3, 0.2, 0.4)}, test=test, findings=findings))
        assert any("Calibrate it" in one.text for one in advice.sentences) == advised


def test_overconfidence_on_test_is_said() -> None:
    test = SetSummary("test", "test", 400, None, "", _around(0.8), 0.95)
    advice = advise(_facts({"svhn": Interval(0.3, 0.2, 0.4)}, test=test))
    assert any("more sure than it should be" in one.text for one in advice.sentences)


def test_confidence_is_kept_for_mistakes_where_it_is_better_at_them() -> None:
    clear = {"knn": _score(0.95, gain=Interval(0.05, 0.04, 0.06))}
    mistakes = {"plain-max": _around(0.9), "knn": _around(0.7)}
    advice = advise(_facts({"svhn": Interval(0.3, 0.2, 0.4)}, clear, mistakes=mistakes))
    assert any(one.about == "mistakes" and "keep confidence" in one.text for one in advice.sentences)


def _causes(**parts: float) -> Causes:
    """Causes with these values, the others 0."""
    zero = Interval(0, 0, 0)
    names = [field.name for field in fields(Causes)]
    return Causes(**{name: _signed(parts[name]) if name in parts else zero for name in names})


def _signed(value: float) -> Interval:
    return Interval(value, value - 0.01, value + 0.01)


@pytest.mark.parametrize(
    ("part", "said"),
    [
        ("rounding", "softmax saturates"),
        ("temperature", "softmax at temperature 1 ranks"),
        ("extrapolation", "softmax extrapolates"),
        ("misfit", "the density does not fit"),
        ("overlap_proper", "OOD features lie among those of test"),
    ],
)
def test_the_largest_part_is_named_as_the_cause(part, said) -> None:
    causes = _causes(entropy=0.8, **{part: 0.2})
    advice = advise(_facts({"svhn": Interval(0.3, 0.2, 0.4)}, causes={"svhn": causes}))
    (sentence,) = (one for one in advice.sentences if one.about == "cause")
    assert f"mostly that {said}" in sentence.text


def test_a_density_worse_than_softmax_is_not_taken_for_the_truth() -> None:
    causes = _causes(entropy=0.95, density=0.7, extrapolation=-0.25, overlap=0.3, misfit=0.29, overlap_proper=0.01)
    advice = advise(_facts({"svhn": Interval(0.3, 0.2, 0.4)}, causes={"svhn": causes}))
    texts = " ".join(one.text for one in advice.sentences if one.about == "cause")
    assert "mostly that the density does not fit" in texts
    assert "U_density is 25.0 [24.0, 26.0] points worse than U_cool" in texts


def test_what_the_features_would_allow_beyond_the_best_score_is_said() -> None:
    causes = _causes(entropy=0.9, ceiling=0.98, overlap_proper=0.02)
    advice = advise(_facts({"svhn": Interval(0.3, 0.2, 0.4)}, mean_causes=causes))
    texts = " ".join(one.text for one in advice.sentences if one.about == "help")
    assert "reaches at least 97.0%" in texts
    assert "out of reach" not in texts
    assert "float32 prints" not in texts


@pytest.mark.parametrize(("reached", "said"), [(0.957, False), (0.94, True)])
def test_more_than_the_best_score_is_promised_only_beyond_the_intervals(reached, said) -> None:
    """The ceiling's interval starts at 97 %; a score of 95.7 +- 1 reaches 96.7, within the half point that matters."""
    causes = _causes(entropy=0.9, ceiling=0.98, overlap_proper=0.02)
    scores = {"density": _score(reached)}
    advice = advise(_facts({"svhn": Interval(0.3, 0.2, 0.4)}, scores, mean_causes=causes))
    assert any("would allow more" in one.text for one in advice.sentences) == said


def test_a_real_case_is_told_rightly() -> None:
    advice = example().advice
    assert advice.verdicts["weak"] == "trust"
    assert advice.verdicts["far"] == "do not trust"
    assert advice.verdict == "do not trust"
    assert "far" in advice.headline
    about_far = next(one.text for one in advice.sentences if one.about == "cause" and one.ood == "far")
    assert "softmax extrapolates" in about_far


def test_a_density_at_chance_is_not_said_to_keep_inputs_apart() -> None:
    at_chance = _causes(entropy=0.4, density=0.5, extrapolation=0.1, ambiguity=0.08, extrapolation_proper=0.02)
    good = replace(at_chance, density=_signed(0.9))
    for causes, said in ((at_chance, False), (good, True)):
        advice = advise(_facts({"svhn": Interval(0.3, 0.2, 0.4)}, mean_causes=causes))
        assert any("keeps the two apart" in one.text for one in advice.sentences) == said
