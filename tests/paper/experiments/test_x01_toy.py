"""X1a: the data, the numbers, and the command at work, interrupted or on Ray."""

import json
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")

from softscope.engine import Engine
from softscope.paper.experiments.x01_toy import SCALES, ToySettings, run, toy_data
from softscope.runs import Store

SOFTSCOPE = [sys.executable, "-c", "from softscope.cli import main; main()", "reproduce"]
TINY = ToySettings(points=40, epochs=50, runs=2)


def test_the_toy_has_three_classes_around_the_origin_and_ood_on_a_ring() -> None:
    settings = ToySettings(points=2000)
    data = toy_data(settings)
    assert [np.sum(data["labels"] == k) for k in range(3)] == [2000] * 3
    for k in range(3):
        own = data["train"][data["labels"] == k]
        angle = np.pi / 2 + 2 * np.pi * k / 3
        np.testing.assert_allclose(own.mean(axis=0), [np.cos(angle), np.sin(angle)], atol=0.03)
        np.testing.assert_allclose(own.std(axis=0), settings.spread, atol=0.02)
    radius = np.linalg.norm(data["ood"], axis=1)
    assert radius.min() >= 3.0 - 1e-5
    assert radius.max() <= 5.0 + 1e-5
    assert not np.array_equal(data["train"], data["test"])
    np.testing.assert_array_equal(toy_data(settings)["ood"], data["ood"])


def test_far_from_the_data_confidence_is_higher(tmp_path: Path) -> None:
    result = run(TINY, Store(tmp_path), Engine(workers=1))
    rows = {row.label: row for row in result.rows}
    assert rows["accuracy on test data"].ours.value > 97
    assert rows["AUROC of U_entropy"].ours.value < 50
    assert rows["AUROC of U_density (not in the paper)"].ours.value > 95
    assert rows["share of OOD more confident than the median of training"].ours.value > 50
    assert [row.ours.runs for row in result.rows] == [2] * 5
    assert run(TINY, Store(tmp_path), Engine(workers=1)).rows == result.rows


@pytest.mark.slow
def test_two_processes_give_the_numbers_of_one(tmp_path: Path) -> None:
    here, apart = (run(TINY, Store(tmp_path / str(workers)), Engine(workers=workers)).rows for workers in (1, 2))
    assert here == apart


def reproduce(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(words(folder, *options), capture_output=True, text=True)


def words(folder: Path, *options: str) -> list[str]:
    return [*SOFTSCOPE, "X1a", "--store", str(folder / "store"), "-o", str(folder / "results"), *options]


def results(folder: Path) -> tuple[dict[str, Any], bytes]:
    kept = json.loads((folder / "results" / "X1a" / "smoke.json").read_text())
    del kept["provenance"]
    return kept, (folder / "results" / "X1a" / "smoke.png").read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize("scale", SCALES)
def test_the_command_runs_at_every_scale(tmp_path: Path, scale: str) -> None:
    done = reproduce(tmp_path, "--scale", scale, "--json")
    assert done.returncode == 0, done.stderr
    (written,) = json.loads(done.stdout)
    assert written["scale"] == scale
    assert written["rows"][1]["ours"]["runs"] == SCALES[scale].runs


@pytest.mark.slow
def test_the_command_killed_again_and_again_ends_with_the_same_result(tmp_path: Path) -> None:
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    assert reproduce(whole, "--runs", "2").returncode == 0
    rng = random.Random(0)
    for _ in range(6):
        process = subprocess.Popen(words(killed, "--runs", "2"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(rng.uniform(1.0, 5.0))
        process.send_signal(signal.SIGKILL)
        process.wait()
    done = reproduce(killed, "--runs", "2")
    assert done.returncode == 0, done.stderr
    assert all(word in done.stdout for word in ("AUROC of", "U_entropy"))  # a narrow table breaks the line
    assert results(killed) == results(whole)


@pytest.mark.slow
def test_ray_gives_the_numbers_of_this_machine(tmp_path: Path) -> None:
    pytest.importorskip("ray")
    for name in ("local", "ray"):
        done = reproduce(tmp_path / name, "--runs", "2", "--engine", name, "--json")
        assert done.returncode == 0, done.stderr
        json.loads(done.stdout)
    assert results(tmp_path / "ray") == results(tmp_path / "local")


def test_an_unknown_experiment_is_one_line_that_lists_the_known(tmp_path: Path) -> None:
    done = subprocess.run([*SOFTSCOPE, "X99"], capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("softscope: no experiment is called 'X99'. Known: all, X1a (fig_2d)")
    assert len(done.stderr.splitlines()) == 1
