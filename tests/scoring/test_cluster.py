"""Scoring on Ray: the same table as the local engine, row for row, and the same errors."""

import json
import os

import numpy as np
import pyarrow.parquet as pq
import pytest

from softscope.engine import Engine
from softscope.errors import SoftscopeError
from softscope.scoring import run, score

pytestmark = [pytest.mark.slow, pytest.mark.apart]


@pytest.fixture
def ray():
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    ray = pytest.importorskip("ray")
    ray.init(  # "local": an address that a dead cluster left on this machine must not be asked
        "local",
        num_cpus=2,
        include_dashboard=False,
        _node_ip_address="127.0.0.1",
        log_to_driver=False,
        logging_level="error",
    )
    yield ray
    ray.shutdown()


def test_rays_table_is_that_of_the_local_engine(ray, world, inputs, tmp_path):
    z = world.fresh[:40].copy()
    z[3, 3], z[9] = np.nan, 3e38
    np.save(inputs.folder / "bad.npy", z)
    (inputs.folder / "nonsense.safetensors").write_bytes(b"nonsense")
    guards = [world.density, world.softmax]
    local = score(inputs.folder, guards, tmp_path / "local", engine=Engine(workers=2), unit_bytes=3000)
    told = []
    on_ray = score(
        inputs.folder,
        guards,
        tmp_path / "ray",
        engine=Engine("ray"),
        unit_bytes=3000,
        progress=lambda what, done, total: told.append(done),
    )
    assert on_ray == local
    assert on_ray.outputs > 10
    assert pq.read_table(tmp_path / "ray").equals(pq.read_table(tmp_path / "local"))
    assert told[-1] == 641
    assert ray.is_initialized()  # who connected, disconnects

    manifests = [json.loads((tmp_path / name / "_manifest.json").read_text()) for name in ("local", "ray")]
    assert manifests[0]["files"] == manifests[1]["files"]
    again = score(inputs.folder, guards, tmp_path / "ray", engine=Engine("ray"), unit_bytes=3000)
    assert again.skipped == again.outputs


def test_an_error_in_a_worker_reaches_the_caller_as_one_line(ray, world, inputs, tmp_path, monkeypatch):
    planned = run.make_plan

    def changed_afterwards(*given):
        units = planned(*given)
        np.save(inputs.folder / "b.npy", world.fresh)
        return units

    monkeypatch.setattr(run, "make_plan", changed_afterwards)
    with pytest.raises(SoftscopeError, match=r"b\.npy: has changed since it was listed"):
        score(inputs.folder, world.density, tmp_path / "out", engine=Engine("ray"), unit_bytes=3000)
