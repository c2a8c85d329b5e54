"""`softscope filter` as its user runs it."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from softscope.cli.app import app
from softscope.cli.filter import whole_number
from softscope.errors import SoftscopeError
from softscope.paper.nets import build, save_model


@pytest.fixture
def model(tmp_path: Path) -> Path:
    save_model(build("filter", classes=3), tmp_path / "model.safetensors", classes=["a", "b", "c"])
    return tmp_path / "model.safetensors"


def _run(*words: str) -> str:
    done = CliRunner().invoke(app, ["filter", *words], catch_exceptions=False)
    assert done.exit_code == 0
    return done.stdout


def test_json_holds_finds_shares_and_quantiles_and_nothing_else_is_printed(model: Path, tmp_path: Path) -> None:
    words = [str(model), "--inputs", "5000", "--top", "2", "--store", str(tmp_path), "-o", str(tmp_path / "f.png")]
    told = json.loads(_run(*words, "--json"))
    assert told["inputs"] == 5000
    assert sum(each["share"]["value"] for each in told["classes"]) == pytest.approx(1.0)
    best = max(told["classes"], key=lambda each: each["share"]["value"])
    assert len(best["finds"]) == 2
    assert all(0 <= find["number"] < 5000 for find in best["finds"])
    assert told["above"][0]["low"] <= told["above"][0]["value"] <= told["above"][0]["high"]
    assert told["quantiles"]["norm"]["0.01"] <= told["quantiles"]["norm"]["0.99"]
    assert (tmp_path / "f.png").read_bytes().startswith(b"\x89PNG")


def test_the_table_names_the_classes(model: Path, tmp_path: Path) -> None:
    shown = _run(str(model), "--inputs", "2^10", "--store", str(tmp_path), "-o", str(tmp_path / "f.png"))
    assert "1,024 inputs" in shown
    assert all(f" {name} " in shown for name in "abc")


def test_a_network_that_is_not_folded_is_scanned_by_torch(tmp_path: Path) -> None:
    save_model(build("vgg", blocks=1, features=8, size=8, classes=2), tmp_path / "model.safetensors")
    words = [str(tmp_path / "model.safetensors"), "--inputs", "100", "--store", str(tmp_path)]
    assert json.loads(_run(*words, "-o", str(tmp_path / "f.png"), "--json"))["inputs"] == 100


def test_bad_arguments_are_one_clear_line_before_any_work(model: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "broken").write_bytes(b"no model")
    calls = {
        "seed": [str(model), "--seed", "-1"],
        "threads": [str(model), "--threads", "0"],
        "--top": [str(model), "--top", "0"],
        "nothing-here": [str(tmp_path / "nothing-here")],
        "broken": [str(tmp_path / "broken")],
        "file": [str(model), "-o", str(tmp_path / "file" / "f.png")],
    }
    for word, given in calls.items():
        with pytest.raises(SoftscopeError, match=word):
            _run("--inputs", "10", "--store", str(tmp_path / "store"), *given)


@pytest.mark.parametrize(("text", "value"), [("2^27", 1 << 27), ("2**3", 8), ("1e6", 10**6), ("5000", 5000)])
def test_numbers_of_inputs_are_written_as_one_likes(text: str, value: int) -> None:
    assert whole_number(text) == value


@pytest.mark.parametrize("text", ["", "0", "-1", "1.5", "2^99", "x", "2^", "nan", "inf", "9^999999999999", "10^63"])
def test_what_is_no_number_of_inputs_is_refused(text: str) -> None:
    with pytest.raises(SoftscopeError, match="expected a number of inputs"):
        whole_number(text)
