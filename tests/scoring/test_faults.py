"""Killed workers, nodes and drivers, and a full disk: the final table is that of an undisturbed run, nothing twice."""

import json
import os
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import psutil
import pyarrow.parquet as pq
import pytest

from softscope.engine import Engine
from softscope.scoring import score

from ..clusters import cluster_of

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
UNITS = 60


@pytest.fixture(scope="module", autouse=True)
def gate(tmp_path_factory):
    """A file that holds back all outputs but the first three while it is there; see gate/sitecustomize.py."""
    path = tmp_path_factory.mktemp("gate") / "closed"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SOFTSCOPE_TEST_GATE", str(path))
        patch.setenv("PYTHONPATH", str(Path(__file__).with_name("gate")), prepend=os.pathsep)
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        yield path


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
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen([*map(str, command), *given], start_new_session=True, **pipes)


@contextmanager
def started(work, gate, **words):
    """A process that has written some outputs and waits with the others until the block ends."""
    gate.touch()
    try:
        process = start(work, **words)
        while outputs(work) < 3:
            assert process.poll() is None, process.communicate()
            time.sleep(0.05)
        yield process
    finally:
        gate.unlink()


def outputs(work):
    return len(list(work.out.glob("*.parquet")))


def ended(process):
    output, errors = process.communicate()
    assert process.returncode == 0, errors
    return json.loads(output.splitlines()[-1])


def check(work, summary):
    assert pq.read_table(work.out).equals(work.expected)
    assert (summary["rows"], summary["bad"], summary["outputs"]) == (UNITS * 60 + 1, 2, UNITS + 1)
    assert not list(work.out.glob(".*.part"))


def workers_of(process, mark):
    workers = []
    for child in psutil.Process(process.pid).children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            workers += [child] if mark in " ".join(child.cmdline()) else []
    return workers


@pytest.mark.parametrize(("engine", "mark"), [("local", "spawn_main"), ("ray", "ray::MapWorker")])
def test_a_killed_workers_unit_is_done_by_another(work, gate, engine, mark):
    with started(work, gate, engine=engine) as process:
        workers_of(process, mark)[0].kill()
    summary = ended(process)
    assert summary["skipped"] == 0
    check(work, summary)


@pytest.mark.parametrize("engine", ["local", "ray"])
def test_a_driver_killed_with_kill_9_goes_on_where_it_stopped(work, gate, engine):
    with started(work, gate, engine=engine) as process:
        children = psutil.Process(process.pid).children(recursive=True)
        process.kill()
        process.communicate()
        _, left = psutil.wait_procs(children, timeout=60)  # workers end with their driver; Ray takes a moment
        for leftover in left:
            with suppress(psutil.NoSuchProcess):
                leftover.kill()
        psutil.wait_procs(left)
    whole = outputs(work)
    assert 3 <= whole < UNITS
    assert not (work.out / "_manifest.json").exists()
    stamps = {file: file.stat().st_ino for file in work.out.glob("*.parquet")}
    summary = ended(start(work))
    assert summary["skipped"] == whole
    assert {file: file.stat().st_ino for file in stamps} == stamps
    check(work, summary)


@pytest.fixture(scope="module")
def cluster(gate):
    """Three nodes of one CPU each on this machine."""
    pytest.importorskip("ray")
    with cluster_of(1, 1, 1, object_store_memory=80 << 20) as cluster:
        yield cluster


@pytest.mark.apart
def test_a_full_disk_at_one_node_is_one_line_and_the_next_run_ends_it(work, world, gate, cluster):
    np.save(work.folder / "large.npy", np.repeat(world.fresh, 8, axis=0))
    node = cluster.list_all_nodes()[-1].node_id
    place = {"engine": "ray", "workers": 3, "address": cluster.address, "unit_bytes": 15_000}
    gate.touch()  # the other nodes wait with their outputs, so that this one gets a unit, however late it starts
    try:
        process = start(work, full_node=node, largest_file=6000, **place)
        _, errors = process.communicate()
    finally:
        gate.unlink()
    assert process.returncode == 1, errors
    assert "can't be written" in errors, errors  # Ray may add lines of its own behind it
    whole = outputs(work)
    summary = ended(start(work, **place))
    assert not list(work.out.glob(".*.part"))
    assert summary["skipped"] == whole < summary["outputs"]
    calm = score(work.folder, world.density, work.out.with_name("calm"), engine=Engine(workers=1), unit_bytes=15_000)
    assert summary["rows"] == calm.counted.rows == UNITS * 60 + 1 + 8 * len(world.fresh)
    assert pq.read_table(work.out).equals(pq.read_table(work.out.with_name("calm")))


@pytest.mark.apart
def test_a_killed_node_loses_nothing(work, gate, cluster):
    with started(work, gate, engine="ray", workers=3, address=cluster.address) as process:
        cluster.remove_node(cluster.list_all_nodes()[-1], allow_graceful=False)
    summary = ended(process)
    assert summary["skipped"] == 0
    check(work, summary)


def test_a_full_disk_is_one_line_leaves_nothing_half_written_and_the_next_run_ends_it(work, world):
    np.save(work.folder / "large.npy", np.repeat(world.fresh, 8, axis=0))
    process = start(work, largest_file=30_000, unit_bytes=10**6, workers=1)
    _, errors = process.communicate()
    assert process.returncode == 1
    assert "SoftscopeError" in errors.splitlines()[-1]
    assert "can't be written" in errors.splitlines()[-1]
    left = [path.name for path in work.out.iterdir() if path.name not in (".lock", "_run.json")]
    assert left == []
    summary = ended(start(work, unit_bytes=10**6))
    assert summary["rows"] == UNITS * 60 + 1 + 8 * len(world.fresh)
    assert (work.out / "_manifest.json").exists()
