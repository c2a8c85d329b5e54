"""Choices judged on sets they were not made on, and the default where the evidence is thin."""

from dataclasses import replace

import pytest

from softscope.diagnosis.model import Score
from softscope.diagnosis.recommendation import choose, judged_choices, recommend
from softscope.estimators import DEFAULT
from softscope.metrics import Interval

NEEDS = {"mahalanobis": True, DEFAULT: True, "density": True, "energy": False}


def _score(auroc: float, confidence: float = 0.8) -> Score:
    around = Interval(auroc, auroc - 0.005, min(1.0, auroc + 0.005))
    gain = Interval(auroc - confidence, auroc - confidence - 0.01, auroc - confidence + 0.01)
    return Score(around, around, around, Interval(1 - auroc, 0, 1), gain, 0.5, gain)


def _scores(**by_estimator: list[float]) -> dict[str, dict[str, Score]]:
    sets = ("mnist", "svhn", "cifar10", "noise")
    confidence = by_estimator["confidence"]
    names = {"confidence": "plain-max", "default": DEFAULT}
    return {
        ood: {names.get(name, name): _score(values[place], confidence[place]) for name, values in by_estimator.items()}
        for place, ood in enumerate(sets[: len(confidence)])
    }


def _mean(scores: dict[str, dict[str, Score]]) -> dict[str, Score]:
    names = next(iter(scores.values()))
    today = sum(own["plain-max"].auroc.value for own in scores.values()) / len(scores)
    return {name: _score(sum(own[name].auroc.value for own in scores.values()) / len(scores), today) for name in names}


def test_the_winner_on_one_set_is_judged_on_the_others_and_not_recommended() -> None:
    """Mahalanobis is nearly perfect on the one set that it is chosen on, and useless elsewhere."""
    one = _scores(confidence=[0.9], mahalanobis=[0.99], default=[0.95])
    recommendation = recommend(one, _mean(one), NEEDS)
    assert (recommendation.estimator, recommendation.basis) == (DEFAULT, "default")
    assert choose(one, ["mnist"], NEEDS) == "mahalanobis"


def test_the_default_is_not_recommended_where_it_does_harm_or_nothing() -> None:
    for value in (0.85, 0.901):
        one = _scores(confidence=[0.9], mahalanobis=[0.99], default=[value])
        assert recommend(one, _mean(one), NEEDS).estimator is None


def test_with_many_sets_a_score_that_carries_over_is_chosen() -> None:
    scores = _scores(confidence=[0.8, 0.8, 0.8], density=[0.95, 0.93, 0.94], default=[0.85, 0.86, 0.85])
    recommendation = recommend(scores, _mean(scores), NEEDS)
    assert (recommendation.estimator, recommendation.basis) == ("density", "chosen")
    for choice in recommendation.choices:
        assert choice.judged_on not in choice.chosen_on
        assert choice.estimator == "density"
        assert choice.gain == pytest.approx(scores[choice.judged_on]["density"].auroc.value - 0.8)


def test_a_choice_that_does_not_carry_over_gives_way_to_the_default() -> None:
    """Best by mean over all four sets, but harmful on the set that is left out each time it is chosen."""
    scores = _scores(
        confidence=[0.8, 0.8, 0.8, 0.8], mahalanobis=[0.99, 0.99, 0.99, 0.5], default=[0.85, 0.85, 0.85, 0.85]
    )
    recommendation = recommend(scores, _mean(scores), NEEDS)
    assert (recommendation.estimator, recommendation.basis) == (DEFAULT, "default")


def test_mean_and_worst_decide_together() -> None:
    scores = _scores(confidence=[0.8, 0.8], mahalanobis=[0.99, 0.7], default=[0.84, 0.83])
    assert choose(scores, list(scores), NEEDS) == DEFAULT


def test_a_score_of_the_logits_is_preferred_to_one_that_is_hardly_better() -> None:
    scores = _scores(confidence=[0.8, 0.8], density=[0.953, 0.953], energy=[0.95, 0.95])
    assert choose(scores, list(scores), NEEDS) == "energy"


def test_confidence_is_kept_where_nothing_beats_it() -> None:
    scores = _scores(confidence=[0.95, 0.95, 0.95], default=[0.94, 0.93, 0.95], density=[0.9, 0.95, 0.95])
    recommendation = recommend(scores, _mean(scores), NEEDS)
    assert (recommendation.estimator, recommendation.basis) == (None, "keep")
    assert {choice.estimator for choice in judged_choices(scores, NEEDS)} == {"plain-max"}


def test_a_score_that_misses_more_at_the_threshold_in_use_is_not_recommended() -> None:
    """A larger AUROC, but at 5 % false alarms it lets more through than confidence does."""
    scores = _scores(confidence=[0.8, 0.8, 0.8], density=[0.95, 0.93, 0.94], default=[0.9, 0.9, 0.9])
    worse = {
        ood: own | {"density": replace(own["density"], missed_at_95_accepted=Interval(0.4, 0.3, 0.5))}
        for ood, own in scores.items()
    }
    assert recommend(scores, _mean(scores), NEEDS).estimator == "density"
    assert recommend(worse, _mean(worse), NEEDS).estimator == DEFAULT


def test_nothing_is_chosen_on_stand_ins() -> None:
    scores = _scores(confidence=[0.8, 0.8, 0.8], density=[0.95, 0.93, 0.94], default=[0.85, 0.86, 0.85])
    recommendation = recommend(scores, _mean(scores), NEEDS, stand_ins=True)
    assert (recommendation.estimator, recommendation.basis) == (DEFAULT, "default")
