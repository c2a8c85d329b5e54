"""`softscope claims` from outside: table, JSON, one claim with its picture, exit codes."""

import json
import sys

import pytest
from typer.testing import CliRunner

from softscope.cli import main
from softscope.cli.app import app
from softscope.paper.claims import Claim, Outcome, find

SUMMARY = "a sentence about what was found"


@pytest.fixture
def run():
    return lambda *words: CliRunner().invoke(app, ["claims", *words])


def quick(claim_id, verdict, expected="holds"):
    return Claim(
        claim_id, lambda: Outcome(verdict, SUMMARY, {"n": 1}), "a title", "a_label", "a statement", "none", expected
    )


@pytest.fixture
def register(monkeypatch):
    def replace(*claims):
        monkeypatch.setattr("softscope.paper.claims.REGISTER", claims)

    return replace


def test_the_table_lists_every_claim_with_its_verdict(run, register):
    register(quick("T1", "holds"), quick("T3", "undecided", "undecided"))
    done = run()
    assert done.exit_code == 0
    for word in ("T1", "T3", "a title", "holds", "undecided", "1 holds, 1 undecided"):
        assert word in done.stdout


def test_a_contradicted_claim_gives_a_non_zero_exit_code(run, register):
    register(quick("T1", "contradicted"))
    assert run().exit_code == 1
    assert run("--json").exit_code == 1


def test_a_verdict_other_than_the_registered_one_gives_a_non_zero_exit_code(run, register):
    register(quick("T1", "approximate"))
    assert run().exit_code == 1


def test_json_is_a_list_of_id_statement_verdict_and_evidence(run, register):
    register(quick("T1", "holds"), quick("T2", "holds"))
    told = json.loads(run("--json").stdout)
    assert [set(row) for row in told] == [{"id", "statement", "verdict", "evidence"}] * 2
    assert told[0] == {
        "id": "T1",
        "statement": "a statement",
        "verdict": "holds",
        "evidence": {"summary": SUMMARY, "n": 1},
    }


def test_one_claim_is_explained_with_its_slip_numbers_and_picture(run):
    done = run("T8")
    assert done.exit_code == 0
    for word in ("def_linearapprox_region", "printed slip", "K(K-1)/2", "disagreements: 0", "fig_geom_linearapprox"):
        assert word in done.stdout


def test_the_picture_of_a_claim_is_written_as_png_and_svg(run, tmp_path):
    done = run("T9", "-o", str(tmp_path))
    assert done.exit_code == 0
    assert not list(tmp_path.iterdir())
    done = run("T1", "-o", str(tmp_path))
    assert {path.name for path in tmp_path.iterdir()} == {"fig_vecfield.png", "fig_vecfield.svg"}
    assert "density uncertainty" in " ".join(done.stdout.split())


def test_one_claim_as_json_is_a_list_of_one(run):
    (row,) = json.loads(run("T20", "--json").stdout)
    assert row["verdict"] == find("T20").expected


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["T99"], "no claim is called 'T99'"),
        (["-o", "somewhere"], "one claim"),
        (["T1", "--page", "somewhere.md"], "all claims"),
    ],
)
def test_wrong_words_give_one_line_and_exit_code_two(monkeypatch, capsys, words, said):
    monkeypatch.setattr(sys, "argv", ["softscope", "claims", *words])
    with pytest.raises(SystemExit) as stopped:
        main()
    assert stopped.value.code == 2
    lines = capsys.readouterr().err.strip().splitlines()
    assert len(lines) == 1
    assert said in lines[0]


def test_the_verdict_on_trained_networks_is_the_same_in_every_folder(run, tmp_path, monkeypatch):
    here = json.loads(run("T24", "--json").stdout)
    (tmp_path / "results" / "X9").mkdir(parents=True)
    (tmp_path / "results" / "X9" / "laptop.json").write_text("{}")
    monkeypatch.chdir(tmp_path)
    assert json.loads(run("T24", "--json").stdout) == here


def test_a_claim_that_networks_decide_is_explained_with_its_rule(run):
    assert "First rule, which decides" in " ".join(run("T24").stdout.split())


def test_the_theory_page_is_written_with_the_captions_of_the_pictures(run, register, tmp_path):
    register(find("T20"), find("T1"))
    page = tmp_path / "docs" / "theory.md"
    assert run("--page", str(page)).exit_code == 0
    text = page.read_text()
    assert "## T20" in text
    assert "*Figure.* Direction in which each uncertainty rises fastest" in text
