"""`softscope tune` as its user meets it."""

import json

import numpy as np
import pytest

from softscope import Density, FeatureSet, Head

CLASSES, FEATURES = 4, 12


def features(rows, shift=0.0, seed=0, spread=1.0, *, relu=True):
    rng = np.random.default_rng(seed)
    labels = np.arange(rows) % CLASSES
    z = 3 * np.eye(CLASSES, FEATURES)[labels] + shift + spread * rng.normal(size=(rows, FEATURES))
    return FeatureSet((np.maximum(z, 0) if relu else z).astype(np.float32), labels)


@pytest.fixture
def folder(tmp_path):
    Head(4 * np.eye(CLASSES, FEATURES, dtype=np.float32)).save(tmp_path / "head.safetensors")
    for name, relu in (("", True), ("before-", False)):
        features(400, seed=1, relu=relu).save(tmp_path / f"{name}train.safetensors")
        features(150, seed=2, relu=relu).save(tmp_path / f"{name}test.safetensors")
        features(100, 1.0, seed=3, spread=2.0, relu=relu).save(tmp_path / f"{name}far.safetensors")
    return tmp_path


@pytest.fixture
def tune(folder, softscope, monkeypatch):
    monkeypatch.setattr("softscope.engine.cores", lambda: 1)

    def run(*more, **changes):
        options = {"head": "head.safetensors", "train": "train.safetensors", "test": "test.safetensors"} | changes
        words = [word for name, value in options.items() for word in (f"--{name}", str(folder / value))]
        out, store = str(folder / "out"), str(folder / "runs")
        return softscope("tune", *words, *more, "-o", out, "--store", store, "--settings", "2", "--quiet")

    return run


def refused(result, *expected):
    code, out, err = result
    assert code not in (0, None)
    assert out == ""
    assert err.startswith("softscope: ")
    assert err.count("\n") == 1
    for text in expected:
        assert text in err


def test_it_names_what_to_pass_to_density_and_writes_json_and_pictures(folder, tune):
    before = [f"{name}={folder / f'before-{name}.safetensors'}" for name in ("train", "test", "far")]
    more = [word for value in before for word in ("--before", value)]
    code, out, err = tune("--ood", f"far={folder / 'far.safetensors'}", *more)
    assert (code, err) == (0, "")
    assert "Chosen by AUROC: Density(" in out
    assert "looks at the OOD sets" in out
    kept = json.loads((folder / "out" / "tune.json").read_text())
    assert {"held-out likelihood", "AUROC", "kernel density"} < kept["chosen"].keys()
    assert set(kept["tried"][0]["auroc"]) == {"far"}
    call = kept["chosen"]["AUROC"]["call"]
    assert isinstance(eval(call, {"Density": Density}), Density)
    assert all(
        (folder / "out" / name).read_bytes().startswith(b"\x89PNG") for name in ("tune.png", "tune-likelihood.png")
    )


def test_without_ood_sets_likelihood_decides_and_json_is_all_on_stdout(tune):
    code, out, _ = tune("--json")
    assert code == 0
    kept = json.loads(out)
    assert "AUROC" not in kept["chosen"]
    assert kept["chosen"]["held-out likelihood"]["held_out"] is not None


def test_one_line_says_what_is_wrong(folder, tune):
    features(100).save(folder / "far.safetensors")
    FeatureSet(np.ones((50, FEATURES), np.float32)).save(folder / "bare.safetensors")
    FeatureSet(np.ones((50, 5), np.float32), np.zeros(50, np.int64)).save(folder / "narrow.safetensors")
    refused(tune(train="missing.safetensors"), "missing.safetensors")
    refused(tune(train="bare.safetensors"), "no labels")
    refused(tune(train="narrow.safetensors"), "5 columns", "12")
    refused(tune(test="narrow.safetensors"), "5 columns")
    refused(tune("--ood", "far"), "NAME=FILE")
    refused(tune("--before", f"train={folder / 'before-train.safetensors'}"), "--before test=FILE is missing")
    pair = [f"--before={name}={folder / f'before-{name}.safetensors'}" for name in ("train", "test", "far")]
    refused(tune(*pair), "--before far: no such set")
    assert not (folder / "out").exists()


def test_no_settings_are_refused(folder, softscope):
    words = [f"--{name}={folder / name}.safetensors" for name in ("head", "train", "test")]
    refused(softscope("tune", *words, "-o", str(folder / "out"), "--settings", "0"), "from 1 to")
    assert not list((folder / "out").glob("*"))
