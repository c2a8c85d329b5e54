"""The scan gives the same bits however it is cut, threaded, or killed."""

import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from softscope.engine import Engine
from softscope.errors import SoftscopeError
from softscope.paper.filter import BLOCK, Range, ScanStatistics, scan, scan_in_store, scanned
from softscope.runs import Store

from .conftest import confident

WHAT = Range(seed=1, start=0, stop=3 * BLOCK + 1234, top=5)


def same(a: ScanStatistics, b: ScanStatistics) -> bool:
    pairs = zip(a.to_tensors().values(), b.to_tensors().values())
    return all(np.array_equal(x, y) and x.dtype == y.dtype for x, y in pairs)


@pytest.fixture(scope="module")
def whole() -> ScanStatistics:
    return scan(scanned(confident(3)), WHAT, threads=1)


@pytest.mark.parametrize("threads", [2, 5])
def test_threads_change_no_bit(whole: ScanStatistics, threads: int) -> None:
    assert same(scan(scanned(confident(3)), WHAT, threads=threads), whole)


@pytest.mark.parametrize("count", [1, 2, 3, 64])
def test_shards_in_any_order_merge_to_the_same_bits(whole: ScanStatistics, count: int) -> None:
    network, merged = scanned(confident(3)), ScanStatistics.empty(10, 5)
    for part in reversed(WHAT.shards(count)):
        merged.merge(scan(network, part, threads=1))
    assert same(merged, whole)
    assert merged.inputs == WHAT.stop


def test_a_scan_that_was_stopped_continues_from_its_checkpoint(
    whole: ScanStatistics, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules["softscope.paper.filter.scan"], "CHECKPOINT_SECONDS", 0.0)
    seen: list[int] = []

    def stop_early(done: int, statistics: ScanStatistics) -> None:
        seen.append(done)
        if len(seen) == 3:
            raise KeyboardInterrupt

    network, path = scanned(confident(3)), tmp_path / "scan.safetensors"
    with pytest.raises(KeyboardInterrupt):
        scan(network, WHAT, threads=2, checkpoint=path, watch=stop_early)
    assert same(scan(network, WHAT, threads=2, checkpoint=path, watch=stop_early), whole)
    assert seen == [BLOCK, 2 * BLOCK, 3 * BLOCK, 3 * BLOCK, WHAT.stop]


@pytest.mark.parametrize("content", [b"", b"not a checkpoint"])
def test_a_damaged_checkpoint_is_not_used(whole: ScanStatistics, tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "scan.safetensors"
    path.write_bytes(content)
    assert same(scan(scanned(confident(3)), WHAT, checkpoint=path), whole)


def test_a_checkpoint_of_another_scan_is_not_used(
    whole: ScanStatistics, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules["softscope.paper.filter.scan"], "CHECKPOINT_SECONDS", 0.0)
    path = tmp_path / "scan.safetensors"
    scan(scanned(confident(2)), WHAT, checkpoint=path)
    assert path.exists()
    assert same(scan(scanned(confident(3)), WHAT, checkpoint=path), whole)


def test_a_scan_in_the_store_is_computed_once(whole: ScanStatistics, tmp_path: Path) -> None:
    run, seen = Store(tmp_path).run({"seed": 1}, kind="test"), []
    for _ in range(2):
        statistics, seconds = scan_in_store(
            run, scanned(confident(3)), WHAT, Engine(), watch=lambda done, _: seen.append(done)
        )
        assert same(statistics, whole)
        assert seconds > 0
    assert seen.count(WHAT.stop) == 1


@pytest.mark.parametrize(("start", "stop", "top"), [(0, 0, 5), (1, BLOCK, 5), (0, BLOCK, 0), (-BLOCK, 0, 1)])
def test_a_range_that_makes_no_sense_is_refused(start: int, stop: int, top: int) -> None:
    with pytest.raises(SoftscopeError):
        Range(0, start, stop, top)


@pytest.mark.parametrize("threads", [0, -1])
def test_a_scan_needs_a_thread(tmp_path: Path, threads: int) -> None:
    with pytest.raises(SoftscopeError, match="threads"):
        scan(scanned(confident(3)), WHAT, threads=threads)
    with pytest.raises(SoftscopeError, match="threads"):
        scan_in_store(Store(tmp_path).run({}, kind="test"), scanned(confident(3)), WHAT, Engine(), threads=threads)


_KILLED = """
import os, signal, sys
sys.path.insert(0, sys.argv[2])
from tests.paper.filter.conftest import confident
from softscope.engine import Engine
from softscope.paper.filter import Range, scan_in_store, scanned
from softscope.runs import Store
scan_module = sys.modules["softscope.paper.filter.scan"]
scan_module.CHECKPOINT_SECONDS = 0
left = int(sys.argv[4])
def watch(done, found):
    global left
    print(done, flush=True)
    left -= 1
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)
run = Store(sys.argv[1]).run({"seed": 1}, kind="test")
scan_in_store(run, scanned(confident(3)), Range(1, 0, int(sys.argv[3])), Engine(), threads=2, watch=watch)
"""


@pytest.mark.slow
def test_kill_9_at_any_moment_leaves_the_same_bits(tmp_path: Path) -> None:
    stop = 12 * BLOCK
    root = str(Path(__file__).parents[3])
    command = [sys.executable, "-c", _KILLED, str(tmp_path), root, str(stop)]
    progress: list[int] = []
    for blocks in (3, 6, 2):
        killed = subprocess.run([*command, str(blocks)], stdout=subprocess.PIPE, text=True, check=False)
        assert killed.returncode == -signal.SIGKILL
        progress += map(int, killed.stdout.split())
    assert max(progress) < stop
    assert progress[3] > BLOCK, "the second process should have continued from a checkpoint"
    run = Store(tmp_path).run({"seed": 1}, kind="test")
    network = scanned(confident(3))
    statistics, _ = scan_in_store(run, network, Range(1, 0, stop), Engine())
    assert same(statistics, scan(network, Range(1, 0, stop)))
