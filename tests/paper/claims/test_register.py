"""The register: complete, every check's verdict the registered one, evidence that goes to JSON, results read safely."""

import json

import numpy as np
import pytest

from softscope.errors import SoftscopeError
from softscope.paper.claims import MEANINGS, OPEN, REGISTER, VERDICTS, check, check_all, find, stands
from softscope.paper.claims.base import decide
from softscope.paper.claims.order import discordance, log_odds_of
from softscope.paper.claims.register import tables
from softscope.paper.claims.violation import largest_violation

TRAINED = {"T19", "T23", "T24", "T25", "T26"}


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    return list(check_all(results=tmp_path_factory.mktemp("no results")))


def test_every_claim_of_the_paper_is_registered_once_and_in_order():
    assert [claim.id for claim in REGISTER] == [f"T{number}" for number in range(1, 28)] + ["S1", "S2"]
    for claim in REGISTER:
        assert claim.statement
        assert claim.conditions
        assert claim.label
        assert claim.expected in VERDICTS


def test_corrected_claims_say_what_the_slip_is():
    for claim in REGISTER:
        if claim.expected == "holds as corrected":
            assert claim.slip


def test_every_check_reaches_the_registered_verdict(found):
    for claim, finding in found:
        assert finding.verdict == claim.expected, (claim.id, finding.summary)
        assert stands(claim, finding)


def test_only_claims_about_trained_networks_are_open_without_results(found):
    assert {claim.id for claim, finding in found if finding.verdict == OPEN} == TRAINED


def test_evidence_is_plain_json_with_seeds_and_a_sentence(found):
    for claim, finding in found:
        evidence = finding.evidence()
        json.dumps(evidence, allow_nan=False)
        assert len(evidence["summary"]) > 30
        if claim.id not in TRAINED | {"T20"}:
            assert "seed" in evidence
            assert evidence["tests"]


def test_a_repeated_check_gives_the_same_numbers():
    assert check(find("T6")).numbers == check(find("T6")).numbers


def test_claims_are_found_by_id_or_by_the_papers_label():
    assert find("t15").id == "T15"
    assert find("prop_mentalmodel").id == "T19"
    assert find("sec_failure_measure").id == "T21"
    with pytest.raises(SoftscopeError, match="T28"):
        find("T28")


def test_every_verdict_has_a_meaning():
    assert set(MEANINGS) == set(VERDICTS)


def test_a_failed_test_is_named_in_the_evidence():
    finding = decide("holds", "fine", {"x": 1}, {"one": True, "two": False})
    assert finding.verdict == "contradicted"
    assert finding.numbers == {"x": 1, "failed": ["two"]}
    assert "two" in finding.summary


def write_result(folder, experiment, scale, tables):
    home = folder / experiment
    home.mkdir(exist_ok=True)
    (home / f"{scale}.json").write_text(json.dumps({"tables": tables}))


def test_results_of_experiments_decide_claims_about_networks(tmp_path):
    better = {"difference": 0.01, "low": 0.002, "high": 0.02}
    unclear = {"difference": -0.001, "low": -0.01, "high": 0.01}
    worse = {"difference": -0.005, "low": -0.01, "high": -0.001}
    write_result(tmp_path, "X9", "laptop", {"T23": [better, better, unclear], "T19": [{"spearman": 0.9}]})
    assert check(find("T23"), tmp_path).verdict == "holds"
    assert check(find("T19"), tmp_path).verdict == "approximate"
    write_result(tmp_path, "X7", "laptop", {"T23": [worse], "T26": [{"entropy_in": 0.1, "entropy_out": 0.5}]})
    found = check(find("T23"), tmp_path)
    assert found.verdict == "holds under conditions"
    assert (found.numbers["better"], found.numbers["worse"], found.numbers["pairs"]) == (2, 1, 4)
    assert check(find("T26"), tmp_path).verdict == "holds"


def test_saturation_and_skewness_are_decided_by_their_rows(tmp_path):
    rows = [{"network": "ResNet18 on svhn", "equal_share": 0.001}, {"network": "EfficientNetB1", "equal_share": 0.05}]
    heads = [{"classes": 100, "skewness": 0.8}, {"classes": 10, "skewness": -0.3}]
    write_result(tmp_path, "X3", "laptop", {"T24": rows, "T25": heads})
    assert check(find("T24"), tmp_path).verdict == "holds"
    found = check(find("T25"), tmp_path)
    assert found.verdict == "holds"
    assert found.numbers["heads"] == 1


def test_equal_scores_that_cost_no_auroc_are_minor(tmp_path):
    row = {"network": "ResNet18 on mnist", "equal_share": 0.27}
    for known, verdict in (
        ({"lost": 0.0}, "holds under conditions"),
        ({"lost": 0.02}, "contradicted"),
        ({}, "contradicted"),
    ):
        write_result(tmp_path, "X9", "laptop", {"T24": [row | known]})
        assert check(find("T24"), tmp_path).verdict == verdict


def test_the_paper_scale_speaks_before_laptop_and_smoke_is_silent(tmp_path):
    for scale, value in (("smoke", 0.1), ("laptop", 0.2), ("paper", 0.3)):
        write_result(tmp_path, "X9", scale, {"T19": [{"spearman": value}]})
    write_result(tmp_path, "X4", "smoke", {"T19": [{"spearman": 0.9}]})
    assert [row["spearman"] for row in tables(tmp_path, "T19")] == [0.3]
    assert tables(tmp_path, "T19")[0]["experiment"] == "X9"


def test_results_bearing_on_a_checked_claim_are_added_to_its_evidence(tmp_path):
    write_result(tmp_path, "X1", "laptop", {"T20": [{"note": "seen"}]})
    assert check(find("T20"), tmp_path).numbers["experiments"][0]["note"] == "seen"


@pytest.mark.parametrize("content", ["{", "[]", '"text"'])
def test_a_damaged_result_is_named(tmp_path, content):
    (tmp_path / "X9").mkdir()
    (tmp_path / "X9" / "laptop.json").write_text(content)
    with pytest.raises(SoftscopeError, match=r"laptop\.json"):
        check(find("T23"), tmp_path)


def test_the_largest_violation_for_three_classes_is_the_one_in_closed_form():
    for c in (1.0, 5.0):
        tie = np.exp(0.5 * c) / (2 * np.exp(0.5 * c) + np.exp(-c))
        closed_form = 1 / (1 + 2 * np.exp(-0.75 * c)) - tie
        assert largest_violation(3, c) == pytest.approx(closed_form, abs=1e-4)


def test_no_random_pair_beats_the_largest_violation():
    from softscope.paper.claims.order import draw_cosines

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
