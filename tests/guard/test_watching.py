"""`softscope watch` as cron and people meet it: files, growing folders, standard input, exit codes, kills."""

import json
import os
import re
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from softscope.guard import Monitor

from ..faults.stopping import stopped_at
from .conftest import draw


@pytest.fixture
def place(world, guard, tmp_path, monkeypatch):
    """A folder with the guard, quiet and drifting streams."""
    guard.save(tmp_path / "guard.safetensors")
    np.save(tmp_path / "quiet.npy", world.fresh)
    np.save(tmp_path / "drift.npy", np.concatenate([world.fresh, world.strange]))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def run(place, softscope):
    return lambda line, stdin=None: softscope(f"watch guard.safetensors {line}", stdin)


def test_a_quiet_file_exits_with_0_and_a_drifting_one_with_3(run, place):
    code, out, err = run("quiet.npy")
    assert (code, err) == (0, "")
    assert "no change shown" in out
    assert re.search(r"1 in \d+ under no change", out)
    code, out, err = run("drift.npy --picture e.png --json")
    said = json.loads(out)
    assert (code, err, said["alarm"], said["rows"]) == (3, "", True, 500)
    assert 400 <= said["alarm_row"] < 430
    assert (place / "e.png").stat().st_size > 1000
    code, out, _ = run("drift.npy")
    assert (code, "drift: the inputs have changed" in out) == (3, True)


def test_a_folder_that_grows_is_read_on_from_where_it_was_left_to_the_same_bits(run, world, place):
    (place / "in").mkdir()
    np.save(place / "in" / "1.npy", world.fresh[:150])
    assert run("in --state s.safetensors")[0] == 0
    np.save(place / "in" / "1.npy", world.fresh[:180])  # the last file has grown
    np.save(place / "in" / "2.npy", world.fresh[180:])
    assert run("in --state s.safetensors")[0] == 0
    assert run("in --state s.safetensors --json")[1].count('"rows": 400') == 1  # nothing new
    np.save(place / "in" / "3.npy", world.strange)
    code, out, _ = run("in --state s.safetensors --json")
    assert (code, json.loads(out)["rows"]) == (3, 500)
    whole = json.loads(run("drift.npy --json")[1])
    assert json.loads(out)["log_value"] == pytest.approx(whole["log_value"], rel=1e-6)
    assert json.loads(out)["alarm_row"] == whole["alarm_row"]


def test_a_new_file_that_sorts_before_one_that_was_read_is_an_error(run, world, place):
    (place / "in").mkdir()
    np.save(place / "in" / "5.npy", world.fresh)
    assert run("in --state s.safetensors")[0] == 0
    np.save(place / "in" / "4.npy", world.fresh)
    code, _, err = run("in --state s.safetensors")
    assert (code, "a new file sorts before 5.npy" in err) == (2, True)


@pytest.mark.parametrize("form", [json.dumps, lambda row: ",".join(map(str, row)), lambda row: " ".join(map(str, row))])
def test_rows_on_standard_input_are_read_line_by_line(run, world, place, form):
    lines = [form([float(v) for v in row]) for row in np.concatenate([world.fresh[:50], world.strange])]
    code, out, _ = run("- --state s.safetensors --json", "\n".join(lines[:50]) + "\n\n")
    assert (code, json.loads(out)["rows"]) == (0, 50)
    code, out, _ = run("- --state s.safetensors --json", "\n".join(lines[50:]))
    said = json.loads(out)
    assert (code, said["alarm"]) == (3, True)
    assert said["rows"] == said["alarm_row"] + 1 < 80  # it stops at the alarm


REFUSED = {
    "no stream": ("no.npy", "no.npy: no such file"),
    "another network": ("narrow.npy", "has 3 columns, the head expects 12"),
    "a bad row": ("bad.npy", r"bad.npy: row 321 can't be scored\. .*--on-bad skip"),
    "a state that is none": ("quiet.npy --state guard.safetensors", "is not a state of"),
    "a state of another stream": ("quiet.npy --state other.safetensors", "the state is that of another stream"),
    "a stream that became shorter": (
        "short.npy --state shorter.safetensors",
        "has 10 rows, 400 of it were read before",
    ),
    "a rate of 0": ("quiet.npy --false-alarms 0", "--false-alarms 0"),
    "words on standard input": ("-", "standard input: row 0 is not a row of 12 numbers"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_wrong_is_one_line_and_exit_code_2(run, world, guard, place, name):
    np.save(place / "narrow.npy", np.ones((5, 3), np.float32))
    bad = world.fresh.copy()
    bad[321, 2] = np.nan
    np.save(place / "bad.npy", bad)
    np.save(place / "short.npy", world.fresh[:10])
    monitor = guard.monitor()
    monitor.update(world.fresh)
    monitor.source = {"path": "/elsewhere", "file": "x", "rows": 400}
    monitor.save(place / "other.safetensors")
    monitor.source = {"path": str(place / "short.npy"), "file": "short.npy", "rows": 400}
    monitor.save(place / "shorter.safetensors")
    line, message = REFUSED[name]
    code, out, err = run(line, "one two three\n")
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert re.search(message, err)


def test_bad_rows_are_left_out_when_asked(run, world, place):
    bad = world.fresh.copy()
    bad[[3, 200], 2] = np.nan
    np.save(place / "bad.npy", bad)
    code, out, _ = run("bad.npy --on-bad skip --json")
    assert (code, json.loads(out)["rows"]) == (0, 398)
    code, out, _ = run("- --on-bad skip --json", "nonsense\n[1, 2]\n" + json.dumps(world.fresh[0].tolist()) + "\n")
    assert (code, json.loads(out)["rows"]) == (0, 1)


@pytest.mark.slow
def test_kill_9_at_any_moment_and_a_restart_end_in_the_same_bits(place, guard):
    rng = np.random.default_rng(0)
    (place / "in").mkdir()
    for number in range(40):
        np.save(place / "in" / f"{number:03}.npy", draw(rng, 500)[0])
    words = ["watch", "guard.safetensors", "in", "--state"]
    command = [sys.executable, "-m", "softscope", *words]
    subprocess.run([*command, "whole.safetensors"], check=True, stdout=subprocess.DEVNULL)
    for sync in (1, 2, 15, 8, 31):
        killed = subprocess.run(stopped_at(sync, signal.SIGKILL, [*words, "s.safetensors"]), stdout=subprocess.DEVNULL)
        assert killed.returncode == -signal.SIGKILL
    subprocess.run([*command, "s.safetensors"], check=True, stdout=subprocess.DEVNULL)
    assert (place / "s.safetensors").read_bytes() == (place / "whole.safetensors").read_bytes()
    assert Monitor.load("s.safetensors", guard).evidence.rows == 20_000


@pytest.mark.slow
def test_following_ends_when_drift_comes(place, world):
    (place / "in").mkdir()
    np.save(place / "in" / "1.npy", world.fresh)
    words = ["watch", "guard.safetensors", "in", "--state", "s.safetensors", "--follow", "0.1"]
    command = [sys.executable, "-m", "softscope", *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        while not (place / "s.safetensors").exists():
            assert process.poll() is None
            time.sleep(0.05)
        np.save(place / "in" / ".2.npy", world.strange)
        os.replace(place / "in" / ".2.npy", place / "in" / "2.npy")
        out, _ = process.communicate()
    assert process.returncode == 3
    assert "drift: the inputs have changed" in out
