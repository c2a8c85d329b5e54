"""The rule: intervals over runs against stated margins, single runs undecided, rows counted once."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from softscope.errors import SoftscopeError
from softscope.paper.experiments.verdict import (
    NUMBERS,
    STATEMENTS,
    Kind,
    Mean,
    Reported,
    Row,
    Statement,
    count,
    printed,
)

numbers = st.floats(-1e6, 1e6)


@given(st.lists(numbers, min_size=2, max_size=30))
def test_standard_error_and_interval_are_scipys(values: list[float]) -> None:
    from scipy.stats import sem, t

    mean = Mean.of(values)
    assert mean.runs == len(values)
    np.testing.assert_allclose(mean.value, np.mean(values), atol=1e-9)
    np.testing.assert_allclose(mean.standard_error, sem(values), rtol=1e-9, atol=1e-9)
    if mean.standard_error and mean.standard_error > 1e-6:
        expected = t.interval(0.95, len(values) - 1, np.mean(values), sem(values))
        np.testing.assert_allclose(mean.interval(), expected, rtol=1e-9, atol=1e-6)


def test_the_interval_covers_the_truth_in_95_of_100_cases(rng: np.random.Generator) -> None:
    for runs in (2, 3, 5):
        intervals = [Mean.of(rng.normal(7.0, 2.0, runs)).interval() or (0.0, 0.0) for _ in range(2000)]
        covered = np.mean([low <= 7.0 <= high for low, high in intervals])
        assert 0.935 < covered < 0.965


def test_a_single_run_has_neither_error_nor_interval() -> None:
    assert Mean.of([98.6]) == Mean(98.6, None, 1)
    assert Mean.of([98.6]).show(1) == "98.6"
    assert Mean.of([98.6]).interval() is None
    assert Mean(98.64, 0.42, 3).show(1) == "98.6 ± 0.4"
    assert Mean.exact(3.0).interval() == (3.0, 3.0)


@pytest.mark.parametrize("values", [[], [np.nan, 1.0]])
def test_no_runs_or_nan_is_an_error(values: list[float]) -> None:
    with pytest.raises(SoftscopeError, match="values over runs"):
        Mean.of(values)


@pytest.mark.parametrize(
    ("ours", "paper", "kind", "verdict"),
    [
        # t(0.975, 2) = 4.303: 98.0 ± 0.86 - 98.6 = [-1.46, 0.26], within 1 + 2 x 0.4
        (Mean(98.0, 0.2, 3), Reported(98.6, 0.4), "AUROC", "agrees"),
        (Mean(98.0, 0.3, 3), Reported(98.6, 0.4), "AUROC", "undecided"),
        (Mean(90.0, 0.3, 3), Reported(98.6, 0.4), "AUROC", "differs"),
        (Mean(98.6), Reported(98.6, 0.4), "AUROC", "undecided"),
        (Mean(10.0), Reported(98.6, 0.0), "AUROC", "undecided"),
        (Mean(87.6, 11.9, 3), Reported(99.5, 0.0), "accuracy", "undecided"),
        (Mean(99.7, 0.05, 3), Reported(99.5, 0.0), "accuracy", "agrees"),
        (Mean(0.40, 0.005, 5), Reported(0.36, 0.002), "loss", "agrees"),  # within 20 % of 0.36 + 0.004
        (Mean(0.50, 0.005, 5), Reported(0.36, 0.002), "loss", "differs"),
        (Mean(3.0, 0.0, 3), Reported(3.0), "count", "agrees"),
        (Mean.exact(0.7007), Reported(0.70), "printed", "agrees"),
        (Mean.exact(0.76), Reported(0.70), "printed", "differs"),
        (Mean(98.66), None, "AUROC", ""),
    ],
)
def test_numbers_are_judged_by_interval_and_margin(
    ours: Mean, paper: Reported | None, kind: Kind, verdict: str
) -> None:
    assert Row("x", ours, paper, digits=1, kind=kind).verdict == verdict


@pytest.mark.parametrize(
    ("ours", "statement", "verdict"),
    [
        (Mean(80.0, 1.0, 3), Statement("s", least=75), "holds"),
        (Mean(78.0, 1.0, 3), Statement("s", least=75), "undecided"),
        (Mean(60.0, 1.0, 3), Statement("s", least=75), "does not hold"),
        (Mean(80.0), Statement("s", least=75), "undecided"),
        (Mean(0.0, 0.1, 3), Statement("s", -1, 1), "holds"),
        (Mean(5.0, 0.1, 3), Statement("s", -1, 1), "does not hold"),
        (Mean(80.0, 1.0, 3), Statement("s", least=75, hollow="chance does too"), "undecided"),
        (Mean(60.0, 1.0, 3), Statement("s", least=75, hollow="chance does too"), "does not hold"),
        (Mean.exact(0.0), Statement("none", most=0), "holds"),
        (Mean.exact(0.1), Statement("none", most=0), "does not hold"),
    ],
)
def test_statements_are_judged_by_their_range(ours: Mean, statement: Statement, verdict: str) -> None:
    assert Row("x", ours, statement).verdict == verdict


@given(numbers, st.floats(0, 10), st.integers(2, 9), numbers, st.floats(0, 10))
def test_a_row_never_agrees_with_what_its_interval_leaves_open(
    ours: float, error: float, runs: int, paper: float, printed_error: float
) -> None:
    row = Row("", Mean(ours, error, runs), Reported(paper, printed_error), kind="AUROC")
    low, high = row.difference or (0.0, 0.0)
    inside = -row.margin <= low and high <= row.margin
    outside = low > row.margin or high < -row.margin
    assert row.verdict == ("agrees" if inside else "differs" if outside else "undecided")
    assert Row("", Mean(ours), Reported(paper, printed_error), kind="AUROC").verdict == "undecided"


def test_a_verdict_is_shown_with_its_interval_and_its_rule() -> None:
    differs = Row("x", Mean(90.0, 0.1, 3), Reported(98.6, 0.4), "%", kind="AUROC")
    assert (differs.rule, differs.explained()) == ("± 1.8", "differs: -8.6 [-9.0, -8.2]")
    holds = Row("x", Mean(80.0, 1.0, 3), Statement("s", least=75), "%")
    assert (holds.rule, holds.explained()) == ("at least 75", "holds: 80.0 [75.7, 84.3]")
    assert Row("x", Mean(80.0), Statement("s", 3, 5)).explained() == "undecided: a single run"
    assert Statement("s", 3, 5).rule == "3 to 5"
    hollow = Row("x", Mean(4.0, 0.1, 3), Statement("s", 3, 5, "untrained layers meet it too"))
    assert hollow.explained() == "undecided: untrained layers meet it too"
    assert Row("x", Mean(80.0)).explained() == Row("x", Mean(80.0)).rule == ""


def test_counts_are_of_decided_rows_that_repeat_no_other() -> None:
    agrees = Row("a", Mean(98.6, 0.01, 3), Reported(98.6, 0.4), kind="AUROC")
    differs = Row("b", Mean(90.0, 0.01, 3), Reported(98.6, 0.4), kind="AUROC")
    single = Row("c", Mean(98.6), Reported(98.6, 0.4), kind="AUROC")
    repeated = Row("d", Mean(98.6, 0.01, 3), Reported(98.6, 0.4), kind="AUROC", counts=False)
    assert count([agrees, differs, single, repeated], NUMBERS) == "1 of 2"
    assert count([single], NUMBERS) == count([agrees], STATEMENTS) == ""


@pytest.mark.parametrize("paper", [None, Reported(1.5, 0.25), Reported(2.0), Statement("rises", least=1)])
def test_a_row_goes_to_json_and_back(paper: Reported | Statement | None) -> None:
    row = Row("AUROC", Mean(98.6, 0.4, 3, "triples"), paper, "%", digits=2, kind="AUROC", counts=False)
    kept = json.loads(json.dumps(row.to_dict()))
    assert kept["verdict"] == row.verdict
    assert Row.from_dict(kept) == row


def test_the_papers_numbers_are_read_by_their_id() -> None:
    assert printed("X4.stack") == {
        "accuracy": Reported(99.3, 0.0),
        "cross_entropy": Reported(0.276, 0.02),
        "auroc": Reported(69.5, 1.3),
    }
    assert printed("X9.pairs.cifar10.mnist") == Reported(82.2)
    assert printed("X10.data")["Flowers"] == [2040, 1000, 102, 224, 16, 64]
    assert printed("X9.runs") == 5


def test_ten_conclusions_name_what_they_rest_on_and_what_would_change_them() -> None:
    conclusions = printed("conclusion")
    assert len(conclusions) == 10
    for conclusion in conclusions:
        assert conclusion["text"]
        assert conclusion["changes"]
        assert conclusion["rests_on"]
