"""The register: complete, each verdict the registered one, evidence that goes to JSON and travels in the package."""

import json
from pathlib import Path

import numpy as np
import pytest

from softscope.errors import SoftscopeError
from softscope.paper.claims import MEANINGS, REGISTER, VERDICTS, check_all, evidence, find, stands
from softscope.paper.claims.order import discordance, draw_cosines, largest_violation, log_odds_of
from softscope.paper.claims.register import CONTRADICTED, checks, decide
from softscope.paper.claims.trained import interval

ROOT = Path(__file__).parents[3]
EMPIRICAL = {claim.id for claim in REGISTER if claim.rule}


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("any folder"))
        return list(check_all(REGISTER))


def test_every_claim_of_the_paper_is_registered_once_and_in_order():
    numbers = [claim.id for claim in REGISTER]
    assert numbers == [f"T{number}" for number in range(1, 35)] + ["S1", "S2"]
    for claim in REGISTER:
        assert claim.statement
        assert claim.conditions
        assert claim.label
        assert claim.expected in VERDICTS
        assert claim.expected != CONTRADICTED


def test_corrected_claims_say_what_the_slip_is():
    for claim in REGISTER:
        if claim.expected == "holds as corrected":
            assert claim.slip


def test_a_claim_that_networks_decide_says_by_which_rule():
    assert {"T19", "T23", "T24", "T25", "T26", "T30", "T31", "T33", "T34"} <= EMPIRICAL


def test_every_check_reaches_the_registered_verdict_in_every_folder(outcomes):
    for claim, outcome in outcomes:
        assert outcome.verdict == claim.expected, (claim.id, outcome.summary)
        assert stands(claim, outcome)


def test_evidence_goes_to_json_with_seeds_and_a_sentence(outcomes):
    for claim, outcome in outcomes:
        said = outcome.evidence()
        json.dumps(said, allow_nan=False)
        assert len(said["summary"]) > 30
        if claim.id not in EMPIRICAL | {"T20", "T32"}:
            assert "seed" in said
            assert said["tests"]


def test_an_undecided_claim_says_what_is_missing(outcomes):
    undecided = {claim.id: outcome for claim, outcome in outcomes if outcome.verdict == "undecided"}
    for outcome in undecided.values():
        assert any(word in outcome.summary for word in ("needs", "about networks", "bear on it"))


def test_a_repeated_check_gives_the_same_numbers():
    assert find("T6").check().numbers == find("T6").check().numbers


def test_claims_are_found_by_id_or_by_the_papers_label():
    assert find("t15").id == "T15"
    assert find("prop_mentalmodel").id == "T19"
    assert find("sec_failure_measure").id == "T21"
    with pytest.raises(SoftscopeError, match="T99"):
        find("T99")


def test_every_verdict_has_a_meaning():
    assert set(MEANINGS) == set(VERDICTS)


def test_a_failed_test_is_named_in_the_evidence():
    outcome = decide("holds", "fine", {"x": 1}, {"one": True, "two": False})
    assert outcome.verdict == "contradicted"
    assert outcome.numbers == {"x": 1, "failed": ["two"]}
    assert "two" in outcome.summary


@pytest.mark.parametrize("error", [ValueError("no root"), ZeroDivisionError("by 0"), SoftscopeError("no", "try")])
def test_a_formula_that_breaks_off_gives_a_verdict_not_a_traceback(monkeypatch, error):
    from softscope.paper.claims import register

    monkeypatch.setitem(register._TEXTS, "T0", dict(register._TEXTS["T1"]))

    def broken():
        raise error

    checked = checks("T0")(broken)
    monkeypatch.delitem(register.CLAIMS, "T0")
    outcome = checked()
    assert outcome.verdict == CONTRADICTED
    assert str(error) in outcome.summary


def write_result(folder, experiment, scale, tables):
    home = folder / experiment
    home.mkdir(exist_ok=True)
    (home / f"{scale}.json").write_text(json.dumps({"tables": tables, "command": f"reproduce {experiment}"}))


def test_the_evidence_in_the_package_is_what_the_results_say():
    gathered = evidence.as_bytes(evidence.gather(ROOT / "results"))
    kept = (ROOT / "src/softscope/paper/claims/evidence.json").read_bytes()
    assert gathered == kept, "evidence.json is out of date: run python -m softscope.paper.claims results"


def test_the_largest_scale_speaks_and_smoke_is_silent(tmp_path):
    for scale, value in (("smoke", 0.1), ("laptop", 0.2), ("overnight", 0.25), ("paper", 0.3)):
        write_result(tmp_path, "X7", scale, {"T19": [{"network": "a", "spearman": value}]})
    write_result(tmp_path, "X4", "smoke", {"T19": [{"network": "b", "spearman": 0.9}]})
    gathered = evidence.gather(tmp_path)
    assert gathered["rows"]["T19"] == [{"network": "a", "spearman": 0.3, "experiment": "X7"}]
    assert gathered["sources"] == {"X7": {"scale": "paper", "command": "reproduce X7"}}


def test_a_network_met_in_two_experiments_counts_once_and_runs_of_one_name_are_told_apart(tmp_path):
    first = {"network": "lenet", "ood": "fashion", "spearman": 0.51}
    second = {"network": "lenet", "ood": "fashion", "spearman": 0.62}
    write_result(tmp_path, "X1b", "paper", {"T19": [{**first, "network": "lenet, seed 0"}]})
    write_result(tmp_path, "X4", "paper", {"T19": [first, second, second]})
    rows = evidence.gather(tmp_path)["rows"]["T19"]
    assert [row["network"] for row in rows] == ["lenet, seed 0", "lenet", "lenet, run 2"]
    assert [row["spearman"] for row in rows] == [0.51, 0.62, 0.62]


@pytest.mark.parametrize("content", ["{", "[]", '"text"', "{}"])
def test_a_damaged_result_is_named(tmp_path, content):
    (tmp_path / "X9").mkdir()
    (tmp_path / "X9" / "laptop.json").write_text(content)
    with pytest.raises(SoftscopeError, match=r"laptop\.json"):
        evidence.gather(tmp_path)


def rows_of_networks(differences, half=0.002, sets=2):
    return [
        {"network": str(n), "ood": str(k), "difference": d, "low": d - half, "high": d + half}
        for n, d in enumerate(differences)
        for k in range(sets)
    ]


@pytest.mark.parametrize(
    ("differences", "verdict"),
    [
        ([0.01, 0.01, 0.0], "holds"),
        ([0.01, 0.01, -0.01], "holds under conditions"),
        ([0.01, -0.01, -0.01], "does not hold"),
        ([0.0, 0.0, 0.0005], "undecided"),
        ([0.01], "undecided"),
    ],
)
def test_entropy_before_max_counts_networks_not_rows(differences, verdict):
    outcome = find("T23").check(rows=rows_of_networks(differences))
    assert outcome.verdict == verdict
    assert outcome.numbers["networks"] in (0, len(differences))


def test_saturation_is_decided_by_its_first_rule_and_the_second_stands_beside_it():
    small = {"network": "EfficientNetB1", "equal_share": 0.05, "lost": 0.0}
    for share, verdict in ((0.001, "holds"), (0.27, "does not hold")):
        outcome = find("T24").check(rows=[{"network": "ResNet18 on mnist", "equal_share": share, "lost": 0.0}, small])
        assert outcome.verdict == verdict
        assert "second rule, added after these numbers were seen" in outcome.summary


def test_fewer_than_five_networks_trained_alike_decide_nothing():
    row = {"network": "a", "ood": "b", "networks": 4, "rises": [0.5, 0.4, 0.6, 0.5]}
    assert find("T26").check(rows=[row]).verdict == "undecided"
    assert find("T26").check(rows=[{**row, "rises": [*row["rises"], 0.45]}]).verdict == "holds"
    assert find("T26").check(rows=[{**row, "rises": [0.5, -0.6, 0.4, -0.5, 0.1]}]).verdict == "undecided"


def test_flags_of_networks_count_only_with_thresholds_from_inputs_the_density_has_not_seen():
    row = {"network": "a", "ood": "b", "softmax_only": 0.6, "density_only": 0.1}
    assert find("T21").check(rows=[row], trials=1).numbers["trained_networks"] == {"networks": 0}
    counted = find("T21").check(rows=[{**row, "thresholds": "held out"}], trials=1).numbers["trained_networks"]
    assert (counted["networks"], counted["agree"]) == (1, 0)


def test_the_interval_is_that_of_students_t():
    from scipy.stats import t

    values = np.random.default_rng(0).standard_normal(7)
    expected = t.interval(0.95, 6, loc=values.mean(), scale=values.std(ddof=1) / np.sqrt(7))
    assert interval(values)[1:] == pytest.approx(expected)


def test_the_largest_violation_for_three_classes_is_the_one_in_closed_form():
    for c in (1.0, 5.0):
        tie = np.exp(0.5 * c) / (2 * np.exp(0.5 * c) + np.exp(-c))
        closed_form = 1 / (1 + 2 * np.exp(-0.75 * c)) - tie
        assert largest_violation(3, c) == pytest.approx(closed_form, abs=1e-4)


def test_no_random_pair_beats_the_largest_violation():
    rng = np.random.default_rng(0)
    cosines = draw_cosines(4, 6, 400_000, rng)
    confidence = 1 / (1 + np.exp(log_odds_of(cosines, 5.0)))
    lead = cosines.max(axis=1)
    order = np.argsort(lead)
    # The largest confidence among less familiar points, less this point's own.
    before = np.maximum.accumulate(confidence[order])
    assert (before - confidence[order]).max() <= largest_violation(4, 5.0) + 1e-6


def test_discordance_of_a_statistic_with_itself_is_zero_or_one():
    rng = np.random.default_rng(0)
    assert discordance(5, 8, 3.0, 1000, rng, lambda cosines: -log_odds_of(cosines, 3.0)) == 0.0
    assert discordance(5, 8, 3.0, 1000, rng, lambda cosines: log_odds_of(cosines, 3.0)) == 1.0
