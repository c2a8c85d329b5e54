"""Killed workers, nodes and drivers, and a full disk: the final table is that of an undisturbed run, nothing twice."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import psutil
import pyarrow.parquet as pq
import pytest

from softscope.engine import Engine
from softscope.scoring import score

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
UNITS = 60


@pytest.fixture
def work(world, tmp_path):
    """Files that make many units, a guard, and the table of an undisturbed run."""
    folder = tmp_path / "in"
    folder.mkdir()
    z = np.random.default_rng(9).choice(np.concatenate([world.fresh, world.strange]), (UNITS, 60))
    z[5, 7] = np.nan
    for number, rows in enumerate(z):
        np.save(folder / f"{number:03}.npy", rows)
    (folder / "bad.npy").write_bytes(b"x" * 2900)
    guard = tmp_path / "guard.safetensors"
    world.density.save(guard)
    score(folder, world.density, tmp_path / "undisturbed", engine=Engine(workers=1), unit_bytes=3000)
    return SimpleNamespace(
        folder=folder, guard=guard, out=tmp_path / "out", expected=pq.read_table(tmp_path / "undisturbed")
    )


def start(work, **words):
    command = [sys.executable, str(Path(__file__).with_name("driver.py")), work.folder, work.guard, work.out]
    given = [f"{name}={value}" for name, value in words.items()]
    environment = os.environ | {"RAY_USAGE_STATS_ENABLED": "0"}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen([*map(str, command), *given], env=environment, start_new_session=True, **pipes)


def outputs(work):
    return len(list(work.out.glob("*.parquet")))


def wait_until(holds, process):
    """Poll, and fail where the process ends first; the limit is only against a test that hangs."""
    for _ in range(8000):
        if holds():
            return
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)
    raise AssertionError("nothing happened")


def ended(process):
    output, errors = process.communicate(timeout=400)
    assert process.returncode == 0, errors
    return json.loads(output.splitlines()[-1])


def check(work, summary):
    assert pq.read_table(work.out).equals(work.expected)
    assert (summary["rows"], summary["bad"], summary["outputs"]) == (UNITS * 60 + 1, 2, UNITS + 1)
    assert not list(work.out.glob(".*.part"))


def workers_of(process, mark):
    found = [child for child in psutil.Process(process.pid).children(recursive=True) if child.is_running()]
    return [child for child in found if mark in " ".join(child.cmdline())]


@pytest.mark.parametrize(("engine", "mark"), [("local", "spawn_main"), ("ray", "ray::MapWorker")])
def test_a_killed_workers_unit_is_done_by_another(work, engine, mark):
    process = start(work, engine=engine)
    wait_until(lambda: outputs(work) >= 3, process)
    victim = workers_of(process, mark)[0]
    victim.kill()
    assert outputs(work) < UNITS
    summary = ended(process)
    assert summary["skipped"] == 0
    check(work, summary)


@pytest.mark.parametrize("engine", ["local", "ray"])
def test_a_driver_killed_with_kill_9_goes_on_where_it_stopped(work, engine):
    process = start(work, engine=engine)
    wait_until(lambda: outputs(work) >= 3, process)
    children = psutil.Process(process.pid).children(recursive=True)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    psutil.wait_procs(children, timeout=60)  # workers end with their driver; Ray takes a moment
    for leftover in children:
        if leftover.is_running():
            leftover.kill()
    whole = outputs(work)
    assert 3 <= whole <= UNITS
    assert not (work.out / "_manifest.json").exists()
    stamps = {file: file.stat().st_ino for file in work.out.glob("*.parquet")}
    summary = ended(start(work))
    assert summary["skipped"] == whole
    assert {file: file.stat().st_ino for file in stamps} == stamps
    check(work, summary)


@pytest.fixture(scope="module")
def cluster():
    """Three nodes of one CPU each on this machine."""
    pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        small = {"num_cpus": 1, "object_store_memory": 80 << 20}
        cluster = Cluster(initialize_head=True, head_node_args={**small, "include_dashboard": False})
        try:
            for _ in range(2):
                cluster.add_node(**small)
            cluster.wait_for_nodes()
            yield cluster
        finally:
            cluster.shutdown()


def test_a_full_disk_at_one_node_is_one_line_and_the_next_run_ends_it(work, world, cluster):
    np.save(work.folder / "large.npy", np.repeat(world.fresh, 8, axis=0))
    node = cluster.list_all_nodes()[-1].node_id
    place = {"engine": "ray", "workers": 3, "address": cluster.address, "unit_bytes": 60_000}
    _, errors = start(work, full_node=node, largest_file=6000, **place).communicate(timeout=400)
    assert "can't be written" in errors.splitlines()[-1]
    assert not list(work.out.glob(".*.part"))
    whole = outputs(work)
    summary = ended(start(work, **place))
    assert summary["skipped"] == whole < summary["outputs"]
    calm = score(work.folder, world.density, work.out.with_name("calm"), engine=Engine(workers=1), unit_bytes=60_000)
    assert summary["rows"] == calm.counted.rows == UNITS * 60 + 1 + 8 * len(world.fresh)
    assert pq.read_table(work.out).equals(pq.read_table(work.out.with_name("calm")))


def test_a_killed_node_loses_nothing(work, cluster):
    process = start(work, engine="ray", workers=3, address=cluster.address)
    wait_until(lambda: outputs(work) >= 3, process)
    cluster.remove_node(cluster.list_all_nodes()[-1], allow_graceful=False)
    assert outputs(work) < UNITS
    summary = ended(process)
    assert summary["skipped"] == 0
    check(work, summary)


def test_a_full_disk_is_one_line_leaves_nothing_half_written_and_the_next_run_ends_it(work, world):
    np.save(work.folder / "large.npy", np.repeat(world.fresh, 8, axis=0))
    process = start(work, largest_file=30_000, unit_bytes=10**6, workers=1)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 1
    assert "SoftscopeError" in errors.splitlines()[-1]
    assert "can't be written" in errors.splitlines()[-1]
    left = [path.name for path in work.out.iterdir() if path.name not in (".lock", "_run.json")]
    assert left == []
    summary = ended(start(work, unit_bytes=10**6))
    assert summary["rows"] == UNITS * 60 + 1 + 8 * len(world.fresh)
    assert (work.out / "_manifest.json").exists()
