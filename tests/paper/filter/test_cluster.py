"""The scan on many machines: shards that travel, and a local cluster of three nodes that gives the same bits."""

from functools import partial
from pathlib import Path

import numpy as np
import pytest

from softscope.engine import Engine
from softscope.paper.filter import BLOCK, Range, ScanStatistics, scan, scan_in_store, scanned
from softscope.paper.filter.scan import _stored
from softscope.runs import Store

from ...clusters import cluster_of
from .conftest import confident

WHAT = Range(seed=3, start=0, stop=5 * BLOCK + 99, top=5)


def _same(a: ScanStatistics, b: ScanStatistics) -> bool:
    return all(np.array_equal(x, y) for x, y in zip(a.to_tensors().values(), b.to_tensors().values()))


@pytest.mark.parametrize("folded", [True, False], ids=["folded", "torch"])
def test_the_task_of_a_shard_travels_to_another_process(tmp_path: Path, folded: bool) -> None:
    network, run = scanned(confident(3), folded=folded), Store(tmp_path).run({"seed": 3}, kind="test")
    shards = [Range(3, 0, 3000), Range(3, BLOCK, BLOCK + 1000)]
    steps = Engine(workers=2).map(partial(_stored, run, network, 1, None), shards)
    for what, step in zip(shards, steps):
        assert _same(ScanStatistics.from_tensors(step.tensors("statistics")), scan(network, what))


@pytest.mark.slow
@pytest.mark.apart
def test_a_cluster_of_three_nodes_gives_the_same_bits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    pytest.importorskip("ray")
    network, run = scanned(confident(3)), Store(tmp_path).run({"seed": 3}, kind="test")
    with cluster_of(1, 1, 1) as cluster:
        statistics, _ = scan_in_store(run, network, WHAT, Engine("ray", address=cluster.address, progress=False))
    assert _same(statistics, scan(network, WHAT))
    assert len(list(run.path.glob("scan-*"))) == len(WHAT.shards(64)) == 6
