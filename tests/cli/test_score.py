"""`softscope score` from the command line: what it prints, writes and answers."""

import json
import subprocess
import sys

import numpy as np
import pyarrow.parquet as pq
import pytest

from softscope.features import FeatureSet
from softscope.guard import Guard
from softscope.head import Head


def softscope(*words):
    return subprocess.run(
        [sys.executable, "-m", "softscope", *map(str, words)], capture_output=True, text=True, check=False
    )


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    folder = tmp_path_factory.mktemp("score")
    rng = np.random.default_rng(0)
    head = Head(rng.normal(size=(3, 6)).astype(np.float32))
    train = rng.normal(size=(400, 6)).astype(np.float32), rng.integers(0, 3, 400)
    guard = Guard.fit(head, train, rng.normal(size=(400, 6)).astype(np.float32), "density")
    guard.save(folder / "guard.safetensors")
    FeatureSet(rng.normal(size=(300, 6)).astype(np.float32)).save(folder / "known.safetensors")
    FeatureSet(3 * rng.normal(size=(300, 6)).astype(np.float32)).save(folder / "strange.safetensors")
    return folder


def test_known_inputs_exit_with_0_and_the_summary_is_json(world, tmp_path):
    done = softscope(
        "score", world / "known.safetensors", "--guard", world / "guard.safetensors", "-o", tmp_path / "out", "--json"
    )
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    assert (summary["rows"], summary["bad"], summary["outputs"], summary["exceeded"]) == (300, 0, 1, [])
    table = pq.read_table(tmp_path / "out")
    assert len(table) == 300
    assert summary["alarms"] == sum(table["alarm"].to_pylist())


def test_unfamiliar_inputs_exit_with_3_and_say_so(world, tmp_path):
    done = softscope("score", world / "strange.safetensors", "--guard", world / "guard.safetensors", "-o", tmp_path)
    assert done.returncode == 3
    assert "more alarms than known inputs would cause" in done.stdout
    assert "300" in done.stdout


def test_an_error_exits_with_2_on_one_line(world, tmp_path):
    done = softscope("score", tmp_path / "gone", "--guard", world / "guard.safetensors", "-o", tmp_path / "out")
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "no such file or folder" in done.stderr
    assert not (tmp_path / "out").exists()
