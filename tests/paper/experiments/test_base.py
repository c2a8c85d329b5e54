"""Means, verdicts, settings: what every experiment's table is made of."""

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from softscope.errors import SoftscopeError
from softscope.paper.experiments.base import Experiment, Mean, Reported, Result, Row, Settings, Statement

numbers = st.floats(-1e6, 1e6)


@given(st.lists(numbers, min_size=2, max_size=30))
def test_the_standard_error_is_scipys(values: list[float]) -> None:
    from scipy.stats import sem

    found = Mean.over(values)
    assert found.runs == len(values)
    np.testing.assert_allclose(found.value, np.mean(values), atol=1e-9)
    np.testing.assert_allclose(found.standard_error, sem(values), rtol=1e-9, atol=1e-9)


def test_a_single_run_has_no_standard_error() -> None:
    assert Mean.over([98.6]) == Mean(98.6, None, 1)
    assert Mean.over([98.6]).show(1) == "98.6"
    assert Mean(98.64, 0.42, 3).show(1) == "98.6 ± 0.4"


@pytest.mark.parametrize("values", [[], [np.nan, 1.0]])
def test_no_runs_or_nan_is_an_error(values: list[float]) -> None:
    with pytest.raises(SoftscopeError, match="values over runs"):
        Mean.over(values)


@pytest.mark.parametrize(
    ("ours", "paper", "tolerance", "verdict"),
    [
        (Mean(98.0, 0.3, 3), Reported(98.6, 0.4), None, "agrees"),  # 0.6 <= 2 x 0.5
        (Mean(97.5, 0.3, 3), Reported(98.6, 0.4), None, "differs by -1.1 (2.2 standard errors)"),
        (Mean(97.5, 0.3, 3), Reported(98.6, 0.4), 1.2, "agrees"),
        (Mean(98.64), Reported(98.6), None, "agrees"),  # the same once rounded as the paper rounds
        (Mean(98.66), Reported(98.6), None, "differs by +0.1 (no standard error known)"),
        (Mean(98.66), None, None, "the paper gives no number"),
        (Mean(98.66), Statement("rises", True), None, "as the paper says"),
        (Mean(98.66), Statement("rises", False), None, "not as the paper says"),
    ],
)
def test_the_verdict_follows_its_rule(
    ours: Mean, paper: Reported | Statement | None, tolerance: float | None, verdict: str
) -> None:
    assert Row("AUROC", ours, paper, "%", tolerance=tolerance).verdict == verdict


@given(numbers, st.floats(0, 10), numbers, st.floats(0, 10), st.floats(0, 5))
def test_the_verdict_does_not_depend_on_who_is_first(
    ours: float, se_ours: float, paper: float, se_paper: float, tolerance: float
) -> None:
    one = Row("", Mean(ours, se_ours, 3), Reported(paper, se_paper), tolerance=tolerance).verdict
    other = Row("", Mean(paper, se_paper, 3), Reported(ours, se_ours), tolerance=tolerance).verdict
    assert (one == "agrees") == (other == "agrees")
    assert (one == "agrees") == (abs(ours - paper) <= max(2 * math.hypot(se_ours, se_paper), tolerance))


@pytest.mark.parametrize("paper", [None, Reported(1.5, 0.25), Reported(2.0), Statement("rises", True)])
def test_a_row_goes_to_json_and_back(paper: Reported | Statement | None) -> None:
    row = Row("AUROC", Mean(98.6, 0.4, 3), paper, "%", digits=2, tolerance=0.5)
    kept = json.loads(json.dumps(row.to_dict()))
    assert kept["verdict"] == row.verdict
    assert Row.from_dict(kept) == row


def test_a_run_is_the_same_however_many_there_are() -> None:
    five, two = Settings(runs=5, seed=3).single_runs(), Settings(runs=2, seed=3).single_runs()
    assert five[:2] == two
    assert len({single.seed for single in five}) == 5
    assert all(single.runs == 1 for single in five)


@pytest.mark.parametrize("wrong", [{"runs": 0}, {"seed": -1}, {"threads": 0}])
def test_wrong_settings_are_one_clear_line(wrong: dict[str, int]) -> None:
    with pytest.raises(SoftscopeError, match=next(iter(wrong))):
        Settings(**wrong)


def test_runs_and_seed_replace_those_of_the_scale() -> None:
    experiment = Experiment("X0", (), "", {"smoke": Settings(runs=2, seed=1)}, lambda *_: Result([]))
    assert experiment.settings("smoke") == Settings(runs=2, seed=1)
    assert experiment.settings("smoke", runs=7, seed=0) == Settings(runs=7, seed=0)
    with pytest.raises(SoftscopeError, match="no scale is called 'huge'"):
        experiment.settings("huge")
