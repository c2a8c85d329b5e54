"""X9 on a Ray cluster: a node that dies while it trains changes neither the result nor what was whole."""

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")

from softscope.engine import Engine
from softscope.paper.experiments.table import Lines
from softscope.paper.experiments.x09_five_sets import measured, run
from softscope.paper.experiments.x09_plans import SCALES, Recipe
from softscope.runs import Store

from ...clusters import cluster_of

TINY = replace(
    SCALES["smoke"], recipes=dict.fromkeys(("digits-0-1-2", "digits-3-4-5", "digits-6-7-8"), Recipe(2)), runs=2
)


def judged_steps(store: Path) -> list[Path]:
    return sorted(store.glob("NetworkPlan-*/judge-*/manifest.json"))


def assert_same(ours: Lines, expected: Lines) -> None:
    """The same weights, features and accuracy, but for the last bits, which depend on where an array lies in memory."""
    assert {name: len(runs) for name, runs in ours.items()} == {name: len(runs) for name, runs in expected.items()}
    for name, runs in ours.items():
        for own, other in zip(runs, expected[name]):
            assert (own.seed, own.accuracy) == (other.seed, other.accuracy)
            for sets in ("train", "test"):
                z, like = (getattr(one.network, sets).array() for one in (own, other))
                np.testing.assert_allclose(z, like, rtol=1e-4, atol=1e-5)
            np.testing.assert_allclose(own.network.head.weight, other.network.head.weight, rtol=1e-4, atol=1e-6)


@pytest.mark.slow
@pytest.mark.apart
@pytest.mark.timeout(1800)
def test_a_node_killed_in_the_middle_of_x9_gives_the_result_of_a_single_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    pytest.importorskip("ray")
    store = tmp_path / "cluster"
    with cluster_of(1, 1) as cluster:
        engine = Engine("ray", address=cluster.address, progress=False)
        with ThreadPoolExecutor(1) as pool:
            mapped = pool.submit(measured, TINY, Store(store), engine)
            # Some networks are judged, others not: with six tasks on two nodes the doomed one is at one of them.
            while not judged_steps(store) and not mapped.done():
                time.sleep(0.1)
            kept = {path: path.stat().st_mtime_ns for path in judged_steps(store)}
            cluster.remove_node(cluster.list_all_nodes()[-1], allow_graceful=False)
            on_cluster = mapped.result()
    here = measured(TINY, Store(tmp_path / "local"), Engine(workers=1, progress=False))
    assert kept
    assert {path: path.stat().st_mtime_ns for path in kept} == kept, "what was whole was computed again"
    assert_same(on_cluster, here)
    again, local = (run(TINY, Store(tmp_path / at), Engine(workers=1, progress=False)) for at in ("cluster", "local"))
    assert [row.label for row in again.rows] == [row.label for row in local.rows]
    assert [row.ours.value for row in again.rows] == pytest.approx([row.ours.value for row in local.rows], abs=0.1)
