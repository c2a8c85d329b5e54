"""kill -9 at any moment: the next run ends with the same files as one that nobody disturbed."""

import random
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from softscope import FeatureSet, Head

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
KILLS = 12


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("kills")
    rng = np.random.default_rng(0)
    labels = np.arange(3000) % 4
    z = (3 * np.eye(4, 16)[labels] + rng.normal(size=(3000, 16))).astype(np.float32)
    Head(np.eye(4, 16, dtype=np.float32)).save(folder / "head.safetensors")
    FeatureSet(z, labels).save(folder / "train.safetensors")
    FeatureSet(z[:900] + np.float32(0.1), labels[:900]).save(folder / "test.safetensors")
    FeatureSet(np.tile(z + np.float32(1), (100, 1))).save(folder / "new.safetensors")
    return folder


def command(folder: Path, out: Path) -> dict[str, list[str]]:
    head, train, test, new = (folder / f"{name}.safetensors" for name in ("head", "train", "test", "new"))
    guard = out / "guard.safetensors"
    return {
        "fit": ["guard", "fit", "--head", head, "--train", train, "--calibration", test, "-o", guard],
        "score": ["guard", "score", guard, new, "-q", "--batch", "2000", "-o", out / "scores.parquet"],
    }


def start(words: list) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "-m", "softscope", *map(str, words)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )


@pytest.mark.parametrize("name", ["fit", "score"])
def test_a_killed_command_leaves_whole_files_and_continues(folder, tmp_path, name):
    calm, rough = tmp_path / "calm", tmp_path / "rough"
    began = time.monotonic()
    for out in (calm, rough):
        assert start(command(folder, out)["fit"]).wait() == 0
    if name == "score":
        began = time.monotonic()
    assert start(command(folder, calm)[name]).wait() in (0, 3)
    whole = time.monotonic() - began
    moments = random.Random(name)
    for _ in range(KILLS):
        child = start(command(folder, rough)[name])
        time.sleep(moments.uniform(0, whole))
        child.kill()
        child.wait()
    assert start(command(folder, rough)[name]).wait() in (0, 3)
    for path in sorted(calm.iterdir()):
        assert (rough / path.name).read_bytes() == path.read_bytes(), path.name
    assert {path.name for path in rough.iterdir()} == {path.name for path in calm.iterdir()}
