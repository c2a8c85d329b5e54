"""What benchmarks report, how it is measured, and the command. No test here depends on a clock."""

import io
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from benchmarks import measuring
from benchmarks.__main__ import main
from benchmarks.measuring import NAMES, Cost, Row
from softscope import SoftscopeError

ROOT = Path(measuring.__file__).parents[1]
ROW = Row("sum", "numpy", Cost(1.0, 2.0, 50.0), Cost(3.0, 8.0, 200.0), target=3.0, same=True)


@pytest.mark.parametrize(("by", "ratio"), [("cpu", 4.0), ("wall", 3.0), ("peak_mb", 4.0)])
def test_the_ratio_is_theirs_over_ours_in_what_the_row_names(by, ratio):
    assert replace(ROW, by=by).ratio == ratio


@pytest.mark.parametrize(
    ("changes", "reached"),
    [
        ({}, True),
        ({"target": 4.5}, False),
        ({"limit": 1.5}, False),
        ({"limit": 2.0}, True),
        ({"target": None, "limit": 2.5}, True),
        ({"same": False}, False),
        ({"theirs": None}, None),
        ({"theirs": None, "limit": 1.0}, False),
        ({"target": None}, None),
    ],
)
def test_a_row_is_reached_when_target_and_limit_are_met_with_the_same_value(changes, reached):
    assert replace(ROW, **changes).reached is reached


def test_a_row_becomes_plain_json():
    told = json.loads(json.dumps(ROW.to_dict(), allow_nan=False))
    assert told["ours"] == {"wall": 1.0, "cpu": 2.0, "peak_mb": 50.0}
    assert (told["ratio"], told["reached"]) == (4.0, True)


def test_measuring_calls_as_often_as_asked_and_hands_on_the_result():
    calls = []
    cost, result = measuring.measure(lambda: calls.append(1) or len(calls), repeats=4)
    assert (len(calls), result) == (4, 4)
    assert min(cost.wall, cost.cpu) >= 0
    with pytest.raises(SoftscopeError, match="repeats"):
        measuring.measure(lambda: 0, repeats=0)


def test_a_race_takes_turns():
    turns = []
    _, ours, _, theirs = measuring.race(lambda: turns.append("o") or 1, lambda: turns.append("t") or "x", repeats=3)
    assert ("".join(turns), ours, theirs) == ("ototot", 1, "x")


def test_the_peak_of_a_child_is_its_own_not_its_parents():
    here = np.ones(30_000_000)  # 240 MB in this process must not show in the child's peak
    small, value = measuring.measure_child("builtins:len", [1, 2])
    assert value == 2
    assert 0 < small.peak_mb < here.nbytes / 1e6


def test_the_peak_of_a_child_grows_with_what_it_holds(tmp_path, monkeypatch):
    (tmp_path / "holding.py").write_text("def hold(mb):\n    return len(b'x' * (mb * 10**6))\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    (small, _), (large, size) = (measuring.measure_child("holding:hold", mb) for mb in (1, 101))
    assert size == 101e6
    assert large.peak_mb - small.peak_mb == pytest.approx(100, abs=5)


def test_a_child_that_fails_is_one_clear_line():
    with pytest.raises(SoftscopeError, match=r"benchmarks.measuring:run: .*nothing.*not a benchmark"):
        measuring.measure_child("benchmarks.measuring:run", "nothing")


def test_the_table_shows_verdicts_notes_and_missing_peers_in_eighty_columns():
    out = io.StringIO()
    rows = [ROW, replace(ROW, work="mean", by="peak_mb", theirs=None, limit=40, note="not installed: pip install [x]")]
    Console(file=out, width=80).print(measuring.table("demo", rows))
    shown = out.getvalue()
    assert "python -m benchmarks demo" in shown
    assert "4 x" in shown
    assert "3 x yes" in shown
    assert "< 40 MB NO" in shown
    assert "mean: not installed: pip install [x]" in shown


class TestCommand:
    def test_json_names_command_machine_versions_and_date(self, monkeypatch, capsys):
        monkeypatch.setattr(sys, "argv", ["benchmarks", "metrics", "--quick", "--json"])
        main()
        told = json.loads(capsys.readouterr().out)
        assert told["command"] == "python -m benchmarks metrics --quick --json"
        assert told["quick"] is True
        assert told["versions"]["numpy"] == np.__version__
        assert told["machine"]["cores"] >= 1
        assert told["date"].endswith("+00:00")
        rows = told["benchmarks"]["metrics"]
        assert rows[0]["same"] is True
        assert all(row["target"] is None and row["limit"] is None for row in rows)

    def test_quick_prints_a_table(self, capsys):
        main(["metrics", "--quick"])
        assert "AUROC, 10^4 + 10^4 scores with ties" in capsys.readouterr().out

    def test_an_unknown_name_is_refused_with_the_names_there_are(self):
        with pytest.raises(SoftscopeError, match=r"nothing.*metrics"):
            main(["nothing"])

    @pytest.mark.parametrize("words", [[], ["all"]])
    def test_all_runs_every_benchmark_there_is(self, monkeypatch, capsys, words):
        asked = []
        monkeypatch.setattr(measuring, "run", lambda name, quick: asked.append(name) or [ROW])
        main([*words, "--json"])
        assert tuple(json.loads(capsys.readouterr().out)["benchmarks"]) == tuple(asked) == NAMES


def test_full_benchmarks_keep_their_targets(monkeypatch):
    import benchmarks.metrics as module

    monkeypatch.setattr(module, "run", lambda quick: [ROW])
    assert measuring.run("metrics") == [ROW]
    assert measuring.run("metrics", quick=True) == [replace(ROW, target=None)]


def test_the_child_prints_one_json_line_whatever_the_work_prints():
    command = [sys.executable, "-m", "benchmarks.measuring", "builtins:print", '["noise"]']
    lines = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT).stdout.splitlines()
    assert lines[0] == "noise"
    assert json.loads(lines[-1])["value"] is None
