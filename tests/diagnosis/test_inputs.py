"""Which score first catches an OOD input, on scores made by hand."""

import numpy as np

from softscope.diagnosis.ceiling import CeilingScores
from softscope.diagnosis.details import EXAMPLES, STAGES, flagged, inputs_of, mistakes_of, outcomes
from softscope.diagnosis.model import OUTCOMES, Ceiling
from softscope.metrics import Interval

from .made import made_scored

FAMILIAR = np.arange(100.0)
CEILING = Ceiling(Interval(1, 1, 1), "linear", {}, 1, 1, False)


def _case(caught: list[str]):
    """Test scores 0 to 99 in every stage; an OOD row scores 99 in the stages named, 50 in the others."""
    test = made_scored(dict.fromkeys(STAGES.values(), FAMILIAR))
    values = {
        name: np.array([99.0 if letter in stages else 50.0 for stages in caught]) for letter, name in STAGES.items()
    }
    ood = made_scored(values, predicted=np.arange(len(caught)) % 3, odds=-np.arange(len(caught), dtype=float))
    by_ceiling = np.array([0.99 if "M" in stages else 0.5 for stages in caught])
    return test, ood, CeilingScores(CEILING, (), FAMILIAR / 100, by_ceiling)


def test_an_input_is_named_after_the_first_score_that_catches_it() -> None:
    caught = ["E", "R", "T", "X", "M", "", "ERTXM", "TX", "XM", "RM"]
    assert "".join(outcomes(*_case(caught))) == "ERTXMOETXR"


def test_counts_codes_and_classes_agree() -> None:
    caught = ["E", "", "X", "X", "M", ""]
    inputs = inputs_of(*_case(caught), classes=4, shown=("cool",))
    assert inputs.codes == "EOXXMO"
    assert inputs.counts == {"E": 1, "R": 0, "T": 0, "X": 2, "M": 1, "O": 2}
    assert set(inputs.counts) == set(OUTCOMES)
    assert inputs.taken_for == (2, 2, 2, 0)
    assert inputs.let_through == (1, 2, 2, 0)


def test_examples_are_the_most_confident_inputs_with_their_scores() -> None:
    inputs = inputs_of(*_case(["", "X", "E"] * 30), classes=3, shown=("cool", "density"))
    assert [example.row for example in inputs.examples] == list(range(89, 89 - EXAMPLES, -1))
    first = inputs.examples[0]
    assert first.outcome == "E"
    assert first.predicted == 89 % 3
    assert first.confidence == 1 / (1 + np.exp(-89.0))
    assert first.scores == {"cool": 50.0, "density": 50.0}


def test_at_most_five_percent_of_test_is_flagged_also_with_ties(rng) -> None:
    for scores in (FAMILIAR, np.round(rng.normal(size=333)), np.zeros(50), np.repeat([0.0, 1.0], [90, 10])):
        assert flagged(scores, scores).mean() <= 0.05
    assert flagged(FAMILIAR, np.array([95.0, 95.1])).tolist() == [False, True]


def test_saturated_scores_flag_nothing_rather_than_everything() -> None:
    assert not flagged(np.full(100, -1.0), np.full(10, -1.0)).any()


def test_wrong_test_inputs_are_listed_most_confident_first() -> None:
    labels, predicted = np.array([0, 1, 2, 1]), np.array([0, 2, 1, 0])
    test = made_scored({"max": np.arange(4.0)}, labels=labels, predicted=predicted, odds=np.array([-9.0, -1, -5, -3]))
    mistakes = mistakes_of(test, ("max",))
    assert [(row.row, row.predicted, row.label) for row in mistakes] == [(2, 1, 2), (3, 0, 1), (1, 2, 1)]
    assert mistakes_of(made_scored({"max": np.arange(4.0)}), ("max",)) == ()
