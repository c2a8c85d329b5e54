"""The run store: whole or absent, computed once, the same after any kill."""

import errno
import json
import os
import random
import signal
import subprocess
import sys
import textwrap
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from softscope.canonical import fingerprint, plain
from softscope.errors import SoftscopeError
from softscope.runs import Draft, Run, StepResult, Store


@dataclass(frozen=True)
class Settings:
    seed: int = 0
    rate: float = 1e-3
    classes: tuple[int, ...] = (0, 1, 2)


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Store(tmp_path).run(Settings())


class Counted:
    """A produce function that counts its calls and writes one of everything."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, draft: Draft) -> None:
        self.calls += 1
        draft.tensors({"z": np.arange(6, dtype=np.float32).reshape(2, 3), "n": np.array([1, 2])})
        draft.json({"auroc": np.float64(0.1) + 0.2, "count": np.int64(3), "shape": (1, 2)})
        draft.path("note.txt").write_text("hello")


def hidden(run: Run) -> list[str]:
    return [name for name in os.listdir(run.path) if name.startswith(".") and not name.endswith(".lock")]


def test_a_step_is_computed_once_and_read_afterwards(run: Run) -> None:
    produce = Counted()
    first, again = run.step("score", produce), run.step("score", produce)
    assert produce.calls == 1
    assert first == again
    np.testing.assert_array_equal(again.tensors()["z"], [[0, 1, 2], [3, 4, 5]])
    assert again.tensors()["z"].dtype == np.float32
    assert again.json() == {"auroc": 0.30000000000000004, "count": 3, "shape": [1, 2]}
    assert again.path("note.txt").read_text() == "hello"
    assert hidden(run) == []


def test_equal_settings_name_the_same_run_and_others_another(tmp_path: Path) -> None:
    store = Store(tmp_path)
    same = store.run(Settings()).path
    assert store.run(Settings(seed=0, rate=0.001)).path == same
    others = [Settings(seed=1), Settings(rate=np.nextafter(1e-3, 1)), Settings(classes=(0, 1))]
    paths = {store.run(other).path for other in others} | {
        store.run(Settings(), version=2).path,
        store.run(Settings(), kind="other").path,
    }
    assert len(paths) == 5
    assert same not in paths
    assert json.loads((same / "settings.json").read_text())["settings"]["classes"] == [0, 1, 2]


def test_the_root_comes_from_the_environment_when_not_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SOFTSCOPE_RUNS", raising=False)
    assert Store().root == tmp_path / "softscope-runs"
    monkeypatch.setenv("SOFTSCOPE_RUNS", str(tmp_path / "elsewhere"))
    assert Store().root == tmp_path / "elsewhere"


def test_provenance_is_kept_beside_the_results_and_apart_from_them(run: Run) -> None:
    step = run.step("score", Counted(), inputs={"data": "abc"})
    assert step.provenance["seed"] == 0
    assert step.provenance["inputs"] == {"data": "abc"}
    assert {"command", "date", "seconds", "versions", "machine", "threads"} <= step.provenance.keys()
    step.path("provenance.json").unlink()
    produce = Counted()
    assert run.step("score", produce, inputs={"data": "abc"}).digest == step.digest
    assert produce.calls == 0


def test_other_inputs_make_another_step_and_keep_the_first(run: Run) -> None:
    produce = Counted()
    first = run.step("score", produce, inputs={"data": "a"})
    second = run.step("score", produce, inputs={"data": "b"})
    run.step("score", produce, inputs={"data": "a"})
    assert produce.calls == 2
    assert first.folder != second.folder


def test_an_earlier_step_counts_as_input_by_its_content_not_its_time(tmp_path: Path) -> None:
    first, second = (Store(tmp_path / name).run(Settings()) for name in "ab")
    one, two = first.step("train", Counted()), second.step("train", Counted())
    assert one.digest == two.digest
    changed = first.step("other", lambda draft: draft.json({"x": 1}))
    folders = {first.step("score", Counted(), inputs={"fit": fit}).folder.name for fit in (one, two, changed)}
    assert len(folders) == 2


DAMAGE = {
    "one flipped byte": lambda step: flip(step.path("tensors.safetensors")),
    "a truncated file": lambda step: truncate(step.path("tensors.safetensors")),
    "a missing file": lambda step: step.path("note.txt").unlink(),
    "a truncated manifest": lambda step: truncate(step.path("manifest.json")),
    "an empty manifest": lambda step: step.path("manifest.json").write_text(""),
    "a manifest of another shape": lambda step: step.path("manifest.json").write_text("[1]"),
    "an edited manifest": lambda step: edit(step.path("manifest.json")),
    "a missing manifest": lambda step: step.path("manifest.json").unlink(),
}


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(bytes(content))


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-7])


def edit(path: Path) -> None:
    manifest = json.loads(path.read_text())
    del manifest["files"]["note.txt"]
    path.write_text(json.dumps(manifest))


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_step_is_computed_again(run: Run, damage: str) -> None:
    produce = Counted()
    step = run.step("score", produce)
    DAMAGE[damage](step)
    again = run.step("score", produce)
    assert produce.calls == 2
    assert again.digest == step.digest
    assert again.path("note.txt").read_text() == "hello"
    assert hidden(run) == []


def test_a_file_where_a_step_should_be_is_replaced(run: Run) -> None:
    (run.path / "score").write_text("not a folder")
    assert run.step("score", Counted()).json()["count"] == 3


def test_a_failing_step_leaves_nothing_and_its_own_error(run: Run) -> None:
    def fails(draft: Draft) -> None:
        draft.json({"half": 1})
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run.step("score", fails)
    assert not (run.path / "score").exists()
    assert hidden(run) == []


def test_a_missing_input_file_of_a_step_is_not_blamed_on_the_store(run: Run) -> None:
    with pytest.raises(FileNotFoundError):
        run.step("score", lambda draft: Path("/no/such/file").read_bytes())


def test_scratch_survives_a_failure_and_goes_when_the_step_is_whole(run: Run) -> None:
    seen: list[bool] = []

    def produce(draft: Draft) -> None:
        checkpoint = draft.scratch / "epoch"
        seen.append(checkpoint.exists())
        checkpoint.write_text("1")
        if len(seen) == 1:
            raise KeyboardInterrupt
        draft.json({})

    with pytest.raises(KeyboardInterrupt):
        run.step("train", produce)
    run.step("train", produce)
    assert seen == [False, True]
    assert hidden(run) == []


def test_leftovers_of_a_killed_process_are_removed(run: Run) -> None:
    (run.path / ".score.part-dead").mkdir()
    run.step("score", Counted())
    assert hidden(run) == []


@pytest.mark.parametrize("name", ["manifest.json", "provenance.json", "../up", ".hidden", "a/b", ""])
def test_a_step_can_not_write_outside_its_folder_or_over_the_stores_own_files(run: Run, name: str) -> None:
    with pytest.raises(SoftscopeError):
        run.step("score", lambda draft: draft.path(name))


def test_a_full_disk_is_one_line_and_leaves_nothing(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(SoftscopeError, match="the disk is full, nothing was written"):
            run.step("score", Counted())
    assert not (run.path / "score").exists()
    assert hidden(run) == []
    assert run.step("score", Counted()).json()["count"] == 3


def test_a_disk_that_fills_up_inside_a_step_is_the_same_one_line(run: Run) -> None:
    def produce(draft: Draft) -> None:
        with open("/dev/full", "wb") as device:
            device.write(bytes(1 << 20))

    with pytest.raises(SoftscopeError, match="the disk is full"):
        run.step("score", produce)
    assert hidden(run) == []


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_permission_is_one_clear_line(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(SoftscopeError, match="can't be written"):
        Store(tmp_path).run(Settings())


def test_a_root_that_is_a_file_is_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SoftscopeError, match="can't be written"):
        Store(tmp_path / "file").run(Settings())


def test_two_threads_compute_a_step_once(run: Run) -> None:
    started, release = threading.Event(), threading.Event()
    calls: list[int] = []

    def slow(draft: Draft) -> None:
        calls.append(1)
        started.set()
        release.wait()
        draft.json({"x": 1})

    results: list[StepResult] = []
    threads = [threading.Thread(target=lambda: results.append(run.step("score", slow))) for _ in range(2)]
    threads[0].start()
    started.wait()
    threads[1].start()
    release.set()
    for thread in threads:
        thread.join()
    assert calls == [1]
    assert results[0] == results[1]


def test_scratch_that_a_kill_left_beside_a_whole_step_goes(run: Run) -> None:
    run.step("score", Counted())
    (run.path / ".score.scratch").mkdir()
    (run.path / ".score.scratch" / "checkpoint.npy").write_bytes(b"old")
    assert run.step("score", Counted()).json()["count"] == 3
    assert hidden(run) == []


def test_without_locks_the_first_to_finish_wins_and_both_read_it(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_locks(handle: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("fcntl.flock", no_locks)

    def outer(draft: Draft) -> None:
        run.step("score", lambda inner: inner.json({"x": "inner"}))
        draft.json({"x": "outer"})

    assert run.step("score", outer).json() == {"x": "inner"}
    assert hidden(run) == []


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=10,
    )
)
def test_plain_values_survive_json_exactly(value: object) -> None:
    assert json.loads(json.dumps(plain(value), allow_nan=False)) == value
    assert fingerprint(json.loads(json.dumps(value))) == fingerprint(value)


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_numpy_numbers_keep_every_bit(number: float) -> None:
    assert np.float32(json.loads(json.dumps(plain(np.float32(number))))) == np.float32(number)


@pytest.mark.parametrize("value", [float("nan"), np.inf, {"a": [1, np.float32("nan")]}, {1: 2}, {"x": object()}, {3}])
def test_what_json_can_not_hold_exactly_is_refused_by_name(value: object) -> None:
    with pytest.raises(SoftscopeError, match="value"):
        plain(value)


SMALL_EXPERIMENT = """
import os, sys, time
import numpy as np
from softscope.runs import Store

def train(draft):
    checkpoint = draft.scratch / "checkpoint.npy"
    state = np.load(checkpoint) if checkpoint.exists() else np.zeros(5)
    for epoch in range(int(state[0]), 6):
        rng = np.random.default_rng(epoch)
        state = np.concatenate([[epoch + 1], state[1:] * 0.9 + rng.normal(size=4)])
        np.save(draft.scratch / "next.npy", state)
        os.replace(draft.scratch / "next.npy", checkpoint)
        time.sleep(0.01)
    draft.tensors({"state": state})

def score(fit):
    def produce(draft):
        state = fit.tensors()["state"]
        draft.tensors({"big": np.outer(np.arange(20000), state)})
        draft.json({"mean": state.mean(), "norm": np.linalg.norm(state)})
        with open(sys.argv[2], "a") as log:
            log.write("score\\n")
    return produce

run = Store(sys.argv[1]).run({"seed": 0})
print("ready", flush=True)
for turn in range(3):
    fit = run.step(f"train{turn}", train)
    run.step(f"score{turn}", score(fit), inputs={"fit": fit})
"""


def start(tmp_path: Path, store: str) -> subprocess.Popen[str]:
    script = tmp_path / "small.py"
    script.write_text(textwrap.dedent(SMALL_EXPERIMENT))
    command = [sys.executable, str(script), str(tmp_path / store), str(tmp_path / f"{store}.log")]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def contents(root: Path) -> dict[str, bytes]:
    apart = ("provenance.json",)
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file() and path.name not in apart and not path.name.endswith(".lock")
    }


@pytest.mark.slow
def test_kill_9_at_twenty_random_moments_changes_no_number_and_no_tensor(tmp_path: Path) -> None:
    whole = start(tmp_path, "whole")
    assert whole.stdout is not None
    whole.stdout.readline()
    ready = time.monotonic()
    assert whole.wait() == 0
    length = time.monotonic() - ready
    rng = random.Random(0)
    kills = 0
    while kills < 20:
        process = start(tmp_path, "killed")
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(rng.uniform(0, length / 4))
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
            kills += 1
        elif process.returncode == 0:
            break_one_step(tmp_path / "killed", rng)
        process.wait()
    assert start(tmp_path, "killed").wait() == 0
    assert contents(tmp_path / "killed") == contents(tmp_path / "whole")


def break_one_step(root: Path, rng: random.Random) -> None:
    """All steps were whole before twenty kills were done: damage one, so that there is something left to kill."""
    steps = sorted(path.parent for path in root.rglob("manifest.json"))
    truncate(rng.choice(steps) / "manifest.json")


@pytest.mark.slow
def test_two_processes_at_once_compute_each_step_once(tmp_path: Path) -> None:
    processes = [start(tmp_path, "shared") for _ in range(3)]
    assert [process.wait() for process in processes] == [0, 0, 0]
    assert (tmp_path / "shared.log").read_text().split() == ["score"] * 3


@pytest.mark.slow
def test_a_lock_is_released_when_its_holder_is_killed(tmp_path: Path) -> None:
    script = textwrap.dedent(f"""
        import time
        from softscope.runs import Store
        def hang(draft):
            print("inside", flush=True)
            time.sleep(60)
        Store({str(tmp_path)!r}).run({{"seed": 0}}).step("score", hang)
    """)
    holder = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    assert holder.stdout.readline() == "inside\n"
    holder.kill()
    holder.wait()
    run = Store(tmp_path).run({"seed": 0})
    assert run.step("score", Counted()).json()["count"] == 3
    assert hidden(run) == []
