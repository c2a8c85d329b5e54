"""`softscope guard` as a user meets it: tables, JSON, one line for each error, and a kill at any moment."""

import json
import os
import re
import signal
import subprocess
import sys

import numpy as np
import pyarrow.parquet as pq
import pytest

from softscope.features import FeatureSet
from softscope.files import stream_safetensors
from softscope.guard import Guard

from ..faults.stopping import stopped_at
from .conftest import draw


@pytest.fixture(scope="module")
def files(world, tmp_path_factory):
    """The world's head and features as files, and guards fitted from them."""
    folder = tmp_path_factory.mktemp("files")
    world.head.save(folder / "head.safetensors")
    world.train.save(folder / "train.safetensors")
    world.calibration.save(folder / "known.safetensors")
    FeatureSet(world.fresh).save(folder / "fresh.safetensors")
    np.save(folder / "strange.npy", world.strange)
    bad = world.fresh.copy()
    bad[321, 2] = np.nan
    np.save(folder / "bad.npy", bad)
    Guard.fit(world.head, world.train, world.calibration, "density").save(folder / "guard.safetensors")
    return folder


@pytest.fixture
def run(files, softscope, monkeypatch):
    """Run a `softscope guard` line in the folder of the files."""
    monkeypatch.chdir(files)
    return lambda line: softscope(f"guard {line}")


FIT = "fit --head head.safetensors --train train.safetensors --calibration known.safetensors"


def test_fit_writes_the_guard_that_python_fits_and_says_what_it_promises(run, world, tmp_path):
    code, out, err = run(f"{FIT} -o {tmp_path}/g.safetensors")
    assert (code, err) == (0, "")
    assert "at most 5 % of known inputs raise an alarm" in out
    assert "300 rows" in out
    guard = Guard.fit(world.head, world.train, world.calibration)
    guard.save(tmp_path / "own.safetensors")
    assert (tmp_path / "g.safetensors").read_bytes() == (tmp_path / "own.safetensors").read_bytes()
    np.testing.assert_array_equal(Guard.load(tmp_path / "g.safetensors").alarms(world.fresh), guard.alarms(world.fresh))


def test_without_labels_fit_takes_another_score_and_says_so_in_one_line(run, world, tmp_path):
    FeatureSet(world.train.array()).save(tmp_path / "bare.safetensors")
    line = FIT.replace("train.safetensors", f"{tmp_path}/bare.safetensors")
    code, out, err = run(f"{line} -o {tmp_path}/g.safetensors")
    assert (code, err) == (
        0,
        "softscope: warning: mahalanobis++: the training rows have no labels; fdbd is used instead\n",
    )
    assert "fdbd(" in out


@pytest.mark.parametrize("line", [f"{FIT} --false-alarms five", "score guard.safetensors x.npy --on-bad=skip"])
def test_a_value_that_no_option_takes_is_a_usage_error(run, tmp_path, line):
    code, out, err = run(f"{line} -o {tmp_path}/out.parquet")
    assert (code, out) == (2, "")
    assert "--false-alarms five: expected a number from" in err or "'skip' is not one of 'error', 'flag'" in err


def test_a_rate_in_percent_and_a_confidence_are_promised_for_this_guard(run, tmp_path):
    code, out, err = run(f"{FIT} --false-alarms 5% --confidence 95% -o {tmp_path}/g.safetensors")
    assert (code, err) == (0, "")
    assert "at most 5 % of known inputs raise an alarm, for this guard, with confidence 95 %" in out
    assert "by class" in out
    code, out, _ = run(f"show {tmp_path}/g.safetensors --json")
    said = json.loads(out)
    assert (said["false_alarms"], said["confidence"]) == (0.05, 0.95)
    assert said["groups"][0]["exceeded"] <= 0.05
    assert {entry["class"] for entry in said["spread"]} == {"cat", "dog", "hen", "<owl>"}


def test_recalibrate_writes_a_guard_that_names_its_parent_and_refuses_drift(run, guard, tmp_path):
    line = "recalibrate guard.safetensors --calibration fresh.safetensors --false-alarms 10%"
    code, out, err = run(f"{line} -o {tmp_path}/new.safetensors")
    assert (code, err) == (0, "")
    assert f"from {guard.sha256}: 300 rows" in out
    assert "400 rows" in out
    line = f"recalibrate guard.safetensors --calibration strange.npy -o {tmp_path}/other.safetensors"
    code, _, err = run(line)
    assert (code, "these rows are not like" in err) == (2, True)
    assert not (tmp_path / "other.safetensors").exists()
    assert run(f"{line} --drifted")[0] == 0


def test_a_guard_per_class_names_the_classes_with_too_many_alarms_and_exits_with_3(run, world, tmp_path):
    assert run(f"{FIT} --false-alarms 0.1 --per-class -o {tmp_path}/g.safetensors")[0] == 0
    code, out, _ = run(f"score {tmp_path}/g.safetensors fresh.safetensors -o {tmp_path}/out.parquet")
    assert (code, "as many alarms as known inputs would cause" in out) == (0, True)
    code, out, _ = run(f"score {tmp_path}/g.safetensors strange.npy -o {tmp_path}/out.parquet --json")
    assert code == 3
    assert set(json.loads(out)["exceeded"]) == {"cat", "dog", "hen", "<owl>"}


def test_options_of_fit_reach_the_guard(run, tmp_path):
    line = "fit --head head.safetensors --calibration known.safetensors --estimator energy --false-alarms 0.2"
    code, out, err = run(f"{line} --per-class -o {tmp_path}/g.safetensors --json")
    assert (code, err) == (0, "")
    said = json.loads(out)
    assert (said["estimator"], said["false_alarms"], said["per_class"], len(said["groups"])) == ("energy", 0.2, True, 4)
    code, out, _ = run(f"show {tmp_path}/g.safetensors --json")
    assert json.loads(out) == said
    code, out, _ = run(f"show {tmp_path}/g.safetensors")
    assert "within each predicted class" in out


def test_score_writes_a_row_each_and_sums_up(run, guard, world, tmp_path):
    code, out, err = run(f"score guard.safetensors fresh.safetensors -o {tmp_path}/out.parquet --batch 90")
    assert (code, err) == (0, "")
    alarms = int(guard.alarms(world.fresh).sum())
    for words in (
        "400",
        f"{alarms} ({100 * alarms / 400:.3g} %)",
        "at most 5 %",
        "as many alarms as known inputs would cause",
    ):
        assert words in out
    np.testing.assert_array_equal(pq.read_table(tmp_path / "out.parquet")["alarm"], guard.alarms(world.fresh))
    code, out, err = run(f"score guard.safetensors strange.npy -o {tmp_path}/out.parquet")
    assert code == 3
    assert "more alarms than known inputs would cause: some inputs are unfamiliar" in out
    code, out, err = run(f"score guard.safetensors strange.npy -o {tmp_path}/out.parquet --json")
    assert (code, err) == (3, "")
    said = json.loads(out)
    assert said["rows"] == 100
    assert said["alarms"] > said["expected"][1]
    assert said["output"] == f"{tmp_path}/out.parquet"


def test_a_bad_row_is_named_or_flagged(run, tmp_path):
    code, out, err = run(f"score guard.safetensors bad.npy -o {tmp_path}/out.parquet")
    assert (code, out) == (2, "")
    assert err.startswith("softscope: bad.npy: z: row 321 holds nan")
    assert list(tmp_path.iterdir()) == []
    code, out, err = run(f"score guard.safetensors bad.npy -o {tmp_path}/out.parquet --on-bad=flag")
    assert (code, err) == (0, "")
    assert "of which 1 bad" in out


def test_a_few_shared_rows_are_a_warning_of_one_line(run, world, files, tmp_path):
    FeatureSet(np.concatenate([world.calibration.array(), world.train.array()[:2]])).save(
        tmp_path / "mixed.safetensors"
    )
    line = f"fit --head head.safetensors --train train.safetensors --calibration {tmp_path}/mixed.safetensors"
    code, _, err = run(f"{line} --estimator max -o {tmp_path}/g.safetensors")
    assert code == 0
    assert err.startswith(f"softscope: warning: {tmp_path}/mixed.safetensors: 2 of 302 calibration rows are rows of ")
    assert err.count("\n") == 1


REFUSED = {
    "no head": (FIT.replace("head.", "no."), "no.safetensors: no such file"),
    "no train": (FIT.replace("train.", "no."), "no.safetensors: no such file"),
    "train not given": ("fit --head head.safetensors --calibration known.safetensors", "needs training .* --train"),
    "unknown estimator": (f"{FIT} --estimator magic", "no estimator is called 'magic'"),
    "rate of 0": (f"{FIT} --false-alarms 0", "--false-alarms 0: expected a number from"),
    "rate too small": (f"{FIT} --false-alarms 0.001", "300 calibration rows, a rate of 0.001 needs at least 999"),
    "class too small": (f"{FIT} --false-alarms 0.01 --per-class", "needs at least 99"),
    "calibrated on train": (
        FIT.replace("known.", "train."),
        "600 of 600 calibration rows are rows of train.safetensors",
    ),
    "calibration with NaN": (FIT.replace("known.safetensors", "bad.npy"), "bad.npy: z: row 321 holds nan"),
    "head that is none": (FIT.replace("head.", "train."), "expected tensors 'weight'"),
    "no guard": ("score no.safetensors fresh.safetensors", "no.safetensors: no such file"),
    "guard that is none": ("score head.safetensors fresh.safetensors", "head.safetensors: is not a guard"),
    "guard that is cut": ("show cut.safetensors", "cut.safetensors: not a whole safetensors file"),
    "guard that was changed": ("show changed.safetensors", "changed.safetensors: has changed since it was saved"),
    "no input": ("score guard.safetensors no.npy", "no.npy: no such file"),
    "input that is none": ("score guard.safetensors head.safetensors", "expected tensors 'z'"),
    "input of another kind": ("score guard.safetensors x.csv", "x.csv: "),
    "confidence that 300 rows can't give": (f"{FIT} --false-alarms 1% --confidence 0.99", "needs at least 459"),
    "confidence of 1": (f"{FIT} --confidence 100%", "--confidence 100%: expected a number from"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_wrong_is_one_line_and_nothing_is_written(run, files, tmp_path, name):
    content = (files / "guard.safetensors").read_bytes()
    (files / "cut.safetensors").write_bytes(content[:-9])
    (files / "changed.safetensors").write_bytes(content[:-9] + bytes([content[-9] ^ 1]) + content[-8:])
    (files / "x.csv").write_text("1,2\n")
    line, message = REFUSED[name]
    if not line.startswith("show"):
        line += f" -o {tmp_path}/out.{'parquet' if line.startswith('score') else 'safetensors'}"
    before = sorted(files.iterdir())
    code, out, err = run(line)
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert err.startswith("softscope: ")
    assert re.search(message, err)
    assert list(tmp_path.iterdir()) == []
    assert sorted(files.iterdir()) == before


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="needs a folder that nobody can write to")
@pytest.mark.parametrize("line", [FIT, "score guard.safetensors fresh.safetensors"])
def test_an_output_folder_that_cannot_be_written_is_one_line(run, line):
    code, out, err = run(f"{line} -o /proc/self/nowhere/out.parquet")
    assert (code, out) == (2, "")
    assert "can't be written" in err
    assert err.count("\n") == 1


# --- the real thing, killed


ROWS, BATCH = 40_000, 500


@pytest.fixture
def long_run(world, files, tmp_path):
    """A command of eighty parts, and the empty folder it runs in."""
    rng = np.random.default_rng(0)
    blocks = (draw(rng, 10_000)[0] for _ in range(ROWS // 10_000))
    stream_safetensors(tmp_path / "long.safetensors", {"z": (np.dtype(np.float32), (ROWS, 12), blocks)})
    return ["guard", "score", str(files / "guard.safetensors"), "long.safetensors", "--batch", str(BATCH)], tmp_path


def parts(folder):
    return len(list((folder / ".out.parquet.parts").glob("*.scores")))


def run_to_its_end(words, folder, out="out.parquet"):
    command = [sys.executable, "-m", "softscope", *words, "-o", out]
    subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)


def run_to(sync, sent, words, folder):
    """Exit code and last words of a run that gets a signal when it writes for the `sync`th time."""
    command = stopped_at(sync, sent, [*words, "-o", "out.parquet"])
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    return done.returncode, done.stderr


@pytest.mark.slow
def test_kill_9_at_any_moment_and_a_restart_give_the_file_of_one_run(long_run):
    words, folder = long_run
    run_to_its_end(words, folder, "whole.parquet")
    seen = []
    for sync in (3, 14, 41, 6, 51):
        assert run_to(sync, signal.SIGKILL, words, folder)[0] == -signal.SIGKILL
        assert not (folder / "out.parquet").exists()
        seen.append(parts(folder))
    assert seen == sorted(seen)
    assert 50 <= seen[-1] < ROWS // BATCH
    run_to_its_end(words, folder)
    assert (folder / "out.parquet").read_bytes() == (folder / "whole.parquet").read_bytes()
    assert sorted(os.listdir(folder)) == ["long.safetensors", "out.parquet", "whole.parquet"]


@pytest.mark.slow
def test_ctrl_c_is_one_line_leaves_no_output_and_the_next_run_goes_on(long_run):
    words, folder = long_run
    code, said = run_to(12, signal.SIGINT, words, folder)
    assert code == 130
    assert said.startswith("softscope: interrupted")
    assert said.count("\n") == 1
    assert not (folder / "out.parquet").exists()
    done = parts(folder)
    assert done >= 5
    assert run_to(12, signal.SIGTERM, words, folder)[0] == -signal.SIGTERM
    assert parts(folder) >= done + 5
    run_to_its_end(words, folder)
    np.testing.assert_array_equal(pq.read_table(folder / "out.parquet")["row"], np.arange(ROWS))
