"""Images and a model in: the scores of the features that `extract` gives, every bad image a row."""

import json
import os
import subprocess
import sys
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("torch")
import torch
from PIL import Image

from softscope.engine import Engine
from softscope.errors import SoftscopeError
from softscope.guard import Guard
from softscope.models import extract, open_model
from softscope.scoring import score

HERE = Engine(workers=1)
NET = """
import torch
from torch import nn

def net(seed=0):
    torch.manual_seed(seed)
    body = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten())
    return nn.Sequential(body, nn.Linear(32, 3)).eval()

def other():
    return net(1)
"""


def paint(folder, names, rng, size=(24, 24)):
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        Image.fromarray(rng.integers(0, 256, (*size, 3), dtype=np.uint8)).save(folder / name)


@pytest.fixture(scope="module")
def studio(tmp_path_factory):
    """A network's factory, its guard, and a folder of images two of which are bad."""
    place = tmp_path_factory.mktemp("studio")
    (place / "mynet.py").write_text(NET)
    sys.path.insert(0, str(place))
    rng = np.random.default_rng(0)
    for name in ("train", "calibration"):
        paint(place / name, [f"{number:03}.png" for number in range(120)], rng)
    head, train = extract("mynet:net", place / "train")
    labels = np.arange(120) % 3
    _, known = extract("mynet:net", place / "calibration")
    guard = Guard.fit(head, (train.array(), labels), known)
    paint(place / "in" / "a", [f"{number:03}.png" for number in range(300)], rng)
    paint(place / "in" / "b", [f"{number:03}.jpg" for number in range(20)], rng, size=(24, 40))
    (place / "in" / "a" / "100.png").write_bytes(b"nonsense")
    whole = (place / "in" / "b" / "003.jpg").read_bytes()
    (place / "in" / "b" / "003.jpg").write_bytes(whole[: len(whole) // 2])
    yield place, guard
    sys.path.remove(str(place))
    sys.modules.pop("mynet", None)


def read(out):
    return pq.read_table(out).to_pydict()


def test_images_get_the_scores_of_their_features_and_a_bad_one_is_a_row(studio, tmp_path):
    place, guard = studio
    summary = score(place / "in", guard, tmp_path / "out", model=partial(open_model, "mynet:net"), engine=HERE)
    table = read(tmp_path / "out")
    files = sorted(path for path in (place / "in").rglob("*") if path.is_file())
    assert table["path"] == [str(path) for path in files]
    assert set(table["row"]) == {0}
    bad = {path.rpartition("/")[2]: reason for path, reason in zip(table["path"], table["bad"]) if reason}
    assert bad.keys() == {"100.png", "003.jpg"}
    assert all("is not an image that can be decoded" in reason for reason in bad.values())
    assert (summary.counted.rows, summary.counted.bad) == (320, 2)
    with pytest.warns(UserWarning, match="could not be decoded"):
        _, features = extract("mynet:net", place / "in", size=(24, 24))
    good = [number for number, reason in enumerate(table["bad"]) if reason is None]
    assert np.allclose(np.array(table["uncertainty"], float)[good], guard.uncertainty(features), rtol=1e-4, atol=1e-4)
    assert [table["predicted"][n] for n in good] == guard.head.logits(features.array()).argmax(axis=1).tolist()


def test_images_in_parquet_are_cut_into_units_and_a_damaged_file_is_a_row(studio, tmp_path, monkeypatch):
    place, guard = studio
    folder = tmp_path / "in"
    folder.mkdir()
    content = [path.read_bytes() for path in sorted((place / "in" / "a").iterdir())]
    images = pa.array([{"bytes": each, "path": None} for each in content])
    pq.write_table(pa.table({"image": images}), folder / "a.parquet", row_group_size=70)
    (folder / "z.parquet").write_bytes(b"nonsense")
    monkeypatch.setattr("softscope.scoring.pictures.UNIT_IMAGES", 64)
    model = partial(open_model, "mynet:net")
    summary = score(folder, guard, tmp_path / "out", model=model, engine=HERE)
    table = read(tmp_path / "out")
    assert summary.outputs == 6
    assert table["row"] == [*range(300), None]
    assert [number for number, reason in enumerate(table["bad"]) if reason] == [100, 300]
    assert "not a whole parquet file" in table["bad"][300]
    score(place / "in" / "a", guard, tmp_path / "files", model=model, engine=HERE)
    files = read(tmp_path / "files")
    assert table["predicted"][:300] == files["predicted"]
    good = [number for number in range(300) if number != 100]
    one, two = (np.array(each["uncertainty"][:300], float)[good] for each in (table, files))
    assert np.allclose(one, two, rtol=1e-4, atol=1e-4)


def test_a_guard_of_another_network_is_refused_and_another_model_is_another_run(studio, tmp_path):
    place, guard = studio
    with pytest.raises(SoftscopeError, match="fitted for another head"):
        score(place / "in", guard, tmp_path / "out", model=partial(open_model, "mynet:other"), engine=HERE)
    assert not (tmp_path / "out").exists()
    score(place / "in" / "b", guard, tmp_path / "out", model=partial(open_model, "mynet:net"), engine=HERE)
    wide = partial(open_model, "mynet:net", size=(24, 24), mean=(0.5,))
    with pytest.raises(SoftscopeError, match="other model"):
        score(place / "in" / "b", guard, tmp_path / "out", model=wide, engine=HERE)


def test_processes_open_their_own_model_and_give_the_same_table(studio, tmp_path, monkeypatch):
    place, guard = studio
    monkeypatch.setenv("PYTHONPATH", f"{place}:{os.environ.get('PYTHONPATH', '')}")
    monkeypatch.setattr("softscope.scoring.pictures.UNIT_IMAGES", 100)
    model = partial(open_model, "mynet:net")
    with_threads = torch.get_num_threads()
    one = score(place / "in", guard, tmp_path / "one", model=model, engine=HERE)
    two = score(place / "in", guard, tmp_path / "two", model=model, engine=Engine(workers=2))
    assert one == two
    assert one.outputs == 4
    assert pq.read_table(tmp_path / "one").equals(pq.read_table(tmp_path / "two"))
    assert torch.get_num_threads() == with_threads


def test_an_image_may_lie_in_a_store(studio, tmp_path):
    place, guard = studio
    model = partial(open_model, "mynet:net")
    score(f"file://{place}/in/b", guard, f"file://{tmp_path}/there", model=model, engine=HERE)
    score(place / "in" / "b", guard, tmp_path / "here", model=model, engine=HERE)
    here, there = read(tmp_path / "here"), read(tmp_path / "there")
    assert [path.removeprefix("file://") for path in there.pop("path")] == here.pop("path")
    assert there == here


def test_the_command_line_scores_images(studio, tmp_path, monkeypatch):
    place, guard = studio
    guard.save(tmp_path / "guard.safetensors")
    words = ["score", "mynet:net", str(place / "in"), "--guard", str(tmp_path / "guard.safetensors"), "--json"]
    command = [sys.executable, "-m", "softscope", *words, "-o", str(tmp_path / "out"), "--workers", "1"]
    done = subprocess.run(command, cwd=place, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 3), done.stderr
    summary = json.loads(done.stdout)
    assert (summary["rows"], summary["bad"]) == (320, 2)
    assert done.returncode == (3 if summary["exceeded"] else 0)


@pytest.mark.slow
@pytest.mark.apart
def test_ray_gives_the_same_table_of_images(studio, tmp_path, monkeypatch):
    pytest.importorskip("ray")
    place, guard = studio
    monkeypatch.setenv("PYTHONPATH", f"{place}:{os.environ.get('PYTHONPATH', '')}")
    monkeypatch.setattr("softscope.scoring.pictures.UNIT_IMAGES", 100)
    model = partial(open_model, "mynet:net")
    local = score(place / "in", guard, tmp_path / "local", model=model, engine=HERE)
    on_ray = score(place / "in", guard, tmp_path / "ray", model=model, engine=Engine("ray", workers=2))
    assert on_ray == local
    assert pq.read_table(tmp_path / "ray").equals(pq.read_table(tmp_path / "local"))
