"""`softscope diagnose` as its user meets it: files in, verdict and report out, one clear line where it can't."""

import errno
import json
import os
import subprocess
import sys

import numpy as np
import pytest

from softscope import FeatureSet, Head
from softscope.diagnosis import Diagnosis

CLASSES, FEATURES = 4, 12


def features(rows, shift=0.0, seed=0, spread=1.0):
    rng = np.random.default_rng(seed)
    labels = np.arange(rows) % CLASSES
    centres = 3 * np.eye(CLASSES, FEATURES)[labels]
    z = np.maximum(centres + shift + spread * rng.normal(size=(rows, FEATURES)), 0).astype(np.float32)
    return FeatureSet(z, labels)


@pytest.fixture
def folder(tmp_path):
    Head(4 * np.eye(CLASSES, FEATURES, dtype=np.float32), classes=list("abcd")).save(tmp_path / "head.safetensors")
    features(800, seed=1).save(tmp_path / "train.safetensors")
    features(300, seed=2).save(tmp_path / "test.safetensors")
    features(200, 1.0, seed=3, spread=2.0).save(tmp_path / "far.safetensors")
    return tmp_path


def words(folder, **changes):
    options = {"head": "head.safetensors", "train": "train.safetensors", "test": "test.safetensors"}
    options |= {"ood": "far=far.safetensors"}
    options |= changes
    line = ["diagnose", "--quiet", "-o", str(options.pop("out", folder / "out"))]
    for name, value in options.items():
        prefix, equals, path = value.rpartition("=")
        line += [f"--{name}", f"{prefix}{equals}{folder / path}"]
    return line


def assert_refused(result, *expected):
    code, _, err = result
    assert code not in (0, None)
    assert err.startswith("softscope: ")
    assert err.count("\n") == 1
    assert "Traceback" not in err
    for text in expected:
        assert text in err


def test_it_writes_a_report_and_a_diagnosis_that_loads_again(folder, softscope):
    code, out, err = softscope(*words(folder))
    assert (code, err) == (0, "")
    assert "missed at 5 % false alarms" in out
    assert out.strip().endswith("report.html")
    diagnosis = Diagnosis.load(folder / "out" / "diagnosis.json")
    assert set(diagnosis.causes) == {"far"}
    assert diagnosis.advice.headline in " ".join(out.split())
    assert "<html" in (folder / "out" / "report.html").read_text()
    assert sorted(p.name for p in (folder / "out").iterdir()) == ["diagnosis.json", "report.html"]


def test_estimators_take_parameters_as_the_guard_does(folder, softscope):
    code, _, err = softscope(*words(folder), "--estimator", "density(covariance='diagonal')")
    assert (code, err) == (0, "")
    used = Diagnosis.load(folder / "out" / "diagnosis.json").settings["estimators"]
    assert "covariance='diagonal'" in used["density"]
    assert_refused(
        softscope(*words(folder, out=folder / "2"), "--estimator", "cool(temperature=print(1))"), "plain numbers"
    )


def test_without_ood_held_out_classes_stand_in(folder, softscope):
    given = words(folder)
    at = given.index("--ood")
    code, out, err = softscope(*given[:at], *given[at + 2 :])
    assert (code, err) == (0, "")
    assert "Optimistic" in out
    assert set(Diagnosis.load(folder / "out" / "diagnosis.json").ood) == {f"held-out classes {n}" for n in (1, 2, 3)}


def test_json_is_all_there_is_on_stdout(folder, softscope):
    code, out, _ = softscope(*words(folder), "--json")
    assert code == 0
    assert Diagnosis.from_dict(json.loads(out)).test.rows == 300


def test_the_same_files_give_the_same_diagnosis(folder, softscope):
    from dataclasses import replace

    first, second = (Diagnosis.from_json(softscope(*words(folder), "--json", "--force")[1]) for _ in range(2))
    assert replace(first, provenance={}) == replace(second, provenance={})


def test_an_earlier_report_is_not_written_over_unless_forced(folder, softscope):
    (folder / "out").mkdir()
    (folder / "out" / "report.html").write_text("mine")
    assert_refused(softscope(*words(folder)), "report.html: exists", "--force")
    assert (folder / "out" / "report.html").read_text() == "mine"


def test_a_missing_file_is_named(folder, softscope):
    assert_refused(softscope(*words(folder, test="nowhere.npz")), "nowhere.npz", "no such file")


@pytest.mark.parametrize("name", ["broken.safetensors", "broken.npz", "broken.npy", "broken.parquet"])
def test_a_file_that_is_not_what_it_says_is_named(folder, softscope, name):
    (folder / name).write_bytes(b"this is no feature file at all, but long enough to try")
    assert_refused(softscope(*words(folder, test=name)), name)


def test_a_truncated_file_is_named(folder, softscope):
    whole = (folder / "test.safetensors").read_bytes()
    (folder / "cut.safetensors").write_bytes(whole[: len(whole) // 2])
    assert_refused(softscope(*words(folder, test="cut.safetensors")), "cut.safetensors")


def test_a_pickle_is_not_opened(folder, softscope):
    np.savez(folder / "pickled.npz", z=np.array([{"a": 1}], dtype=object))
    assert_refused(softscope(*words(folder, test="pickled.npz")), "pickled.npz", "object")


def test_features_of_another_width_are_named(folder, softscope):
    FeatureSet(np.ones((50, 7), np.float32)).save(folder / "narrow.safetensors")
    assert_refused(softscope(*words(folder, ood="narrow=narrow.safetensors")), "7 columns", "12")


def test_a_label_out_of_range_is_named(folder, softscope):
    FeatureSet(np.ones((50, FEATURES), np.float32), np.full(50, 9)).save(folder / "labels.safetensors")
    assert_refused(softscope(*words(folder, train="labels.safetensors")), "label 9", "0..3")


@pytest.mark.parametrize("option", ["train", "test", "ood"])
def test_the_first_row_with_nan_is_named(folder, softscope, option):
    bad = features(100)
    z = bad.array().copy()
    z[41, 3] = np.nan
    np.savez(folder / "nan.npz", z=z, labels=bad.labels)
    value = "x=nan.npz" if option == "ood" else "nan.npz"
    assert_refused(softscope(*words(folder, **{option: value})), "nan.npz", "row 41")


def test_one_unfamiliar_row_is_too_few(folder, softscope):
    features(1).save(folder / "one.safetensors")
    assert_refused(softscope(*words(folder, ood="one=one.safetensors")), "one", "1 row")


def test_the_test_set_is_not_unfamiliar(folder, softscope):
    assert_refused(softscope(*words(folder, ood="same=test.safetensors")), "same", "test")


def test_one_class_only_is_explained(folder, softscope):
    FeatureSet(features(100).array(), np.zeros(100, np.int64)).save(folder / "single.safetensors")
    assert_refused(softscope(*words(folder, train="single.safetensors")), "class")


def test_a_head_with_one_row_is_explained(folder, softscope):
    from softscope.files import write_safetensors

    write_safetensors(folder / "k1.safetensors", {"weight": np.ones((1, FEATURES), np.float32)})
    assert_refused(softscope(*words(folder, head="k1.safetensors")), "k1.safetensors", "2 classes")


def test_an_output_folder_that_is_a_file_is_said_before_any_work(folder, softscope):
    (folder / "taken").write_text("a file")
    assert_refused(softscope(*words(folder, out=folder / "taken" / "out")), "taken")


def test_a_full_disk_leaves_nothing_half_written(folder, monkeypatch, softscope):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    assert_refused(softscope(*words(folder)), "disk is full")
    assert not (folder / "out").exists() or not list((folder / "out").iterdir())


def test_a_failure_while_the_report_is_written_keeps_the_old_diagnosis_and_report(folder, monkeypatch, softscope):
    assert softscope(*words(folder))[0] == 0
    before = {path.name: path.read_bytes() for path in (folder / "out").iterdir()}

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("softscope.reporting.page.render", full)
    assert softscope(*words(folder), "--seed", "1")[0] == 2
    assert {path.name: path.read_bytes() for path in (folder / "out").iterdir()} == before


def test_bad_input_leaves_no_empty_folder(folder, softscope):
    assert_refused(softscope(*words(folder, test="nowhere.npz", out=folder / "new" / "out")), "nowhere.npz")
    assert not (folder / "new").exists()


def test_an_output_file_that_is_a_device_stays_one(folder, softscope):
    (folder / "out").mkdir()
    os.mkfifo(folder / "out" / "report.html")
    assert_refused(softscope(*words(folder)), "device or pipe")
    assert [path.name for path in (folder / "out").iterdir()] == ["report.html"]


@pytest.mark.parametrize("ood", ["far.safetensors", "=far.safetensors", "far="])
def test_an_ood_set_without_a_name_is_explained(folder, softscope, ood):
    arguments = words(folder)
    arguments[arguments.index("--ood") + 1] = ood
    assert_refused(softscope(*arguments), "NAME=FILE")


def test_a_name_given_twice_is_explained(folder, softscope):
    again = ["--ood", f"far={folder / 'far.safetensors'}"]
    assert_refused(softscope(*words(folder), *again), "given twice")


def test_images_of_an_unknown_set_are_explained(folder, softscope):
    arguments = [*words(folder), "--images", f"near={folder / 'far.safetensors'}"]
    assert_refused(softscope(*arguments), "near", "far")


INTERRUPTED_WHILE_WRITING = """
import os, signal
rename = os.replace
def replace(*args, **kwargs):
    os.replace = rename
    signal.raise_signal(signal.SIGINT)
    rename(*args, **kwargs)
os.replace = replace
from softscope.cli import main
main()
"""


def test_ctrl_c_leaves_nothing_half_written(folder):
    child = subprocess.run(
        [sys.executable, "-c", INTERRUPTED_WHILE_WRITING, *words(folder)], capture_output=True, text=True
    )
    assert child.returncode == 130
    assert "interrupted" in child.stderr
    assert "Traceback" not in child.stderr
    assert not [path for path in folder.rglob("*") if path.suffix in (".part", ".html")]
